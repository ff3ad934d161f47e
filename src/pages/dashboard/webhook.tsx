import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../client/openapi.ts';
import { wordsOf } from '../shared/errors.ts';
import { Button, Dialog, Notice, Spinner } from '../shared/parts.tsx';
import { signAgain } from '../shared/session.ts';
import { foreign } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { Deliveries } from './deliveries.tsx';
import { EndpointHealth } from './endpoint-health.tsx';
import { NewEndpoint } from './new-endpoint.tsx';
import { type Place, useResponse } from './place.ts';
import { Secret } from './secret.tsx';

type Ping = components['schemas']['PingAnswer'];
type Endpoint = components['schemas']['NewWebhookEndpoint'];

/** Shows the app's webhook endpoint and its deliveries. */
export function Webhook({ place }: { place: Place }): ReactElement {
  const { session, app } = place;
  const path = { appId: app.id };
  const ask = useCallback(
    () => session.client.get('/merchant/apps/{appId}/webhooks', { path: { appId: app.id } }),
    [session, app.id],
  );
  const { data, error, again } = useResponse(ask);
  const [secret, setSecret] = useState<string>();
  const [ping, setPing] = useState<Ping>();
  const [busy, setBusy] = useState(false);
  const [removing, setRemoving] = useState(false);
  const [rotating, setRotating] = useState(false);
  const [problem, setProblem] = useState<string>();
  const endpoint = data?.[0];

  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await work();
    } catch (failure) {
      setProblem(wordsOf(failure));
    }
    setBusy(false);
  };
  const create = (url: string, extraEvents: Endpoint['extraEvents']) =>
    attempt(async () => {
      const made = await session.client.post('/merchant/apps/{appId}/webhooks', {
        path,
        body: { url, extraEvents },
      });
      setSecret(made.secret);
      again();
    });
  const test = (webhookId: string) =>
    attempt(async () => {
      setPing(undefined);
      setPing(
        await session.client.post('/merchant/apps/{appId}/webhooks/{webhookId}/test', {
          path: { ...path, webhookId },
        }),
      );
    });
  const rotate = (webhookId: string) =>
    attempt(async () => {
      const client = await signAgain(session);
      const made = await client.post('/merchant/apps/{appId}/webhooks/{webhookId}/rotate-secret', {
        path: { ...path, webhookId },
      });
      setSecret(made.secret);
      again();
    }).finally(() => setRotating(false));
  const enable = (webhookId: string) =>
    attempt(async () => {
      await session.client.patch('/merchant/apps/{appId}/webhooks/{webhookId}', {
        path: { ...path, webhookId },
        body: { disabled: false },
      });
      again();
    });
  const remove = (webhookId: string) =>
    attempt(async () => {
      await session.client.delete('/merchant/apps/{appId}/webhooks/{webhookId}', {
        path: { ...path, webhookId },
      });
      setRemoving(false);
      setPing(undefined);
      again();
    });

  return (
    <>
      <div className="view-head">
        <h1>Webhook</h1>
      </div>
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
      {data === undefined && error === undefined && <Spinner>Loading…</Spinner>}
      {data !== undefined && endpoint === undefined && <NewEndpoint busy={busy} create={create} />}
      {endpoint !== undefined && (
        <>
          <section className="card" aria-label="Endpoint">
            <div className="card-head">
              <div>
                <h2>
                  <bdi>{foreign(endpoint.url, 300)}</bdi>
                </h2>
                <p className="muted small">
                  Since <Time at={endpoint.createdAt} />
                </p>
                {endpoint.extraEvents.length > 0 && (
                  <p className="muted small">Further events: {endpoint.extraEvents.join(', ')}</p>
                )}
              </div>
              <div className="actions">
                <Button busy={busy} onClick={() => void test(endpoint.id)}>
                  Send a test
                </Button>
                <Button onClick={() => setRotating(true)}>Replace the secret</Button>
                <Button kind="danger" onClick={() => setRemoving(true)}>
                  Delete
                </Button>
              </div>
            </div>
            <EndpointHealth
              endpoint={endpoint}
              busy={busy}
              enable={() => void enable(endpoint.id)}
            />
            {ping !== undefined && <PingResult ping={ping} />}
          </section>
          <Deliveries key={endpoint.id} place={place} webhookId={endpoint.id} />
        </>
      )}
      {secret !== undefined && (
        <Secret
          title="The signing secret"
          secret={secret}
          label="Copy the secret"
          text="Your server verifies every webhook with this secret. It is shown once."
          onClose={() => setSecret(undefined)}
        />
      )}
      {rotating && endpoint !== undefined && (
        <Dialog title="Replace the signing secret?" onClose={() => setRotating(false)}>
          <p>
            Your wallet signs first. For a day, webhooks carry the signatures of both secrets in
            <code> webhook-signature</code>; <code>X-Service-Signature</code> is made with the new
            one at once.
          </p>
          <div className="actions end">
            <Button onClick={() => setRotating(false)}>Keep it</Button>
            <Button kind="primary" busy={busy} onClick={() => void rotate(endpoint.id)}>
              Replace it
            </Button>
          </div>
        </Dialog>
      )}
      {removing && endpoint !== undefined && (
        <Dialog title="Delete this endpoint?" onClose={() => setRemoving(false)}>
          <p>Pending deliveries are cancelled. To change the address, delete it and add another.</p>
          <div className="actions end">
            <Button onClick={() => setRemoving(false)}>Keep it</Button>
            <Button kind="danger" busy={busy} onClick={() => void remove(endpoint.id)}>
              Delete
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function PingResult({ ping }: { ping: Ping }): ReactElement {
  const good = ping.status !== null && ping.status >= 200 && ping.status < 300;
  return (
    <Notice
      kind={good ? 'success' : 'warning'}
      title={
        ping.status === null
          ? `No answer: ${foreign(ping.error, 200)}`
          : `Answered ${ping.status} in ${ping.durationMs} ms`
      }
    >
      {ping.response !== null && ping.response !== '' && (
        <pre className="body" tabIndex={0}>
          {foreign(ping.response, 2000)}
        </pre>
      )}
    </Notice>
  );
}
