import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Dialog, Notice, Spinner } from '../../shared/parts.tsx';
import { signAgain } from '../../shared/session.ts';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useResponse } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { Secret } from '../parts/secret.tsx';
import { Deliveries } from './deliveries.tsx';
import { EndpointHealth } from './endpoint-health.tsx';
import { EndpointSettings } from './endpoint-settings.tsx';
import { NewEndpoint } from './new-endpoint.tsx';
import { TestEvent } from './test-event.tsx';

type Endpoint = components['schemas']['NewWebhookEndpoint'];

export function Webhook({ context }: { context: AppContext }): ReactElement {
  const { session, app } = context;
  const path = { appId: app.id };
  const ask = useCallback(
    () => session.client.get('/merchant/apps/{appId}/webhooks', { path: { appId: app.id } }),
    [session, app.id],
  );
  const { data, error, again } = useResponse(ask, LIVE_MS);
  const [secret, setSecret] = useState<string>();
  const [testing, setTesting] = useState(false);
  const [setting, setSetting] = useState(false);
  const [busy, setBusy] = useState(false);
  const [removing, setRemoving] = useState(false);
  const [stopping, setStopping] = useState(false);
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
      const created = await session.client.post('/merchant/apps/{appId}/webhooks', {
        path,
        body: { url, extraEvents },
      });
      setSecret(created.secret);
      again();
    });
  const rotate = (webhookId: string) =>
    attempt(async () => {
      const client = await signAgain(session);
      const rotated = await client.post(
        '/merchant/apps/{appId}/webhooks/{webhookId}/rotate-secret',
        {
          path: { ...path, webhookId },
        },
      );
      setSecret(rotated.secret);
      again();
    }).finally(() => setRotating(false));
  const setDisabled = async (webhookId: string, disabled: boolean) => {
    await session.client.patch('/merchant/apps/{appId}/webhooks/{webhookId}', {
      path: { ...path, webhookId },
      body: { disabled },
    });
    again();
  };
  const remove = async (webhookId: string) => {
    await session.client.delete('/merchant/apps/{appId}/webhooks/{webhookId}', {
      path: { ...path, webhookId },
    });
    again();
  };

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
                <Button onClick={() => setTesting(true)}>Send a test</Button>
                <Button onClick={() => setSetting(true)}>Settings</Button>
                <Button onClick={() => setRotating(true)}>Replace the secret</Button>
                {endpoint.disabledAt === null && (
                  <Button onClick={() => setStopping(true)}>Disable</Button>
                )}
                <Button kind="danger" onClick={() => setRemoving(true)}>
                  Delete
                </Button>
              </div>
            </div>
            <EndpointHealth
              endpoint={endpoint}
              busy={busy}
              enable={() => void attempt(() => setDisabled(endpoint.id, false))}
            />
          </section>
          <Deliveries
            key={endpoint.id}
            context={context}
            webhookId={endpoint.id}
            failingSince={endpoint.failingSince}
          />
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
      {testing && endpoint !== undefined && (
        <TestEvent context={context} webhookId={endpoint.id} onClose={() => setTesting(false)} />
      )}
      {setting && endpoint !== undefined && (
        <EndpointSettings
          context={context}
          endpoint={endpoint}
          onClose={() => setSetting(false)}
          onDone={() => {
            setSetting(false);
            again();
          }}
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
      {stopping && endpoint !== undefined && (
        <Disabling
          disable={() => setDisabled(endpoint.id, true)}
          onClose={() => setStopping(false)}
        />
      )}
      {removing && endpoint !== undefined && (
        <Removal remove={() => remove(endpoint.id)} onClose={() => setRemoving(false)} />
      )}
    </>
  );
}

/** Asks before an endpoint is disabled. */
function Disabling({
  disable,
  onClose,
}: {
  disable: () => Promise<unknown>;
  onClose: () => void;
}): ReactElement {
  return (
    <Confirm
      title="Disable this endpoint?"
      button="Disable it"
      leave="Leave it on"
      run={disable}
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        Nothing is sent until you enable it. Then it gets what it missed, and what is pending now.
      </p>
    </Confirm>
  );
}

/** Asks before an endpoint is deleted. */
function Removal({
  remove,
  onClose,
}: {
  remove: () => Promise<unknown>;
  onClose: () => void;
}): ReactElement {
  return (
    <Confirm
      title="Delete this endpoint?"
      button="Delete"
      leave="Keep it"
      isDangerous
      run={remove}
      onClose={onClose}
      onDone={onClose}
    >
      <p>
        Pending deliveries are kept for the next endpoint, if you add one within 7 days. To change
        the address, delete it and add another.
      </p>
    </Confirm>
  );
}
