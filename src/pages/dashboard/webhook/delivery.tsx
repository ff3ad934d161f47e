import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Badge, Button, Notice, Spinner } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { typeText } from '../parts/event-types.ts';

/** Shows one delivery: the request and every attempt. `reference` is `<webhookId>.<deliveryId>`. */
export function Delivery({
  context: { session, app },
  reference,
}: {
  context: AppContext;
  reference: string;
}): ReactElement {
  const [webhookId = '', deliveryId = ''] = reference.split('.');
  const ask = useCallback(async () => {
    const { client } = session;
    const delivery = await client.get(
      '/merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}',
      { path: { appId: app.id, webhookId, deliveryId } },
    );
    const event = await client.get('/merchant/apps/{appId}/events/{eventId}', {
      path: { appId: app.id, eventId: delivery.eventId },
    });
    return { delivery, event };
  }, [session, app.id, webhookId, deliveryId]);
  const { data, error, again } = useResponse(ask);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();
  const replay = () => {
    setBusy(true);
    const path = { appId: app.id, webhookId, deliveryId };
    session.client
      .post('/merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}/replay', { path })
      .then(
        () => setMessage({ kind: 'success', text: 'Queued again as a new delivery.' }),
        (failure: unknown) => setMessage({ kind: 'warning', text: wordsOf(failure) }),
      )
      .finally(() => {
        setBusy(false);
        again();
      });
  };
  return (
    <>
      <p>
        <a href="#/webhook">All deliveries</a>
      </p>
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      {data === undefined && error === undefined && <Spinner>Loading…</Spinner>}
      {data !== undefined && (
        <>
          <div className="view-head">
            <h1>{typeText(data.delivery.eventType)}</h1>
            <div className="actions">
              <Badge status={data.delivery.status} />
              <Button kind="primary" busy={busy} onClick={replay}>
                Replay
              </Button>
            </div>
          </div>
          {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
          <h2>Request</h2>
          <pre className="body" tabIndex={0} aria-label="Request body">
            {foreign(pretty(data.event.body), 20_000)}
          </pre>
          <h2>Attempts</h2>
          {data.delivery.attemptLog.length === 0 && <div className="empty">None yet.</div>}
          {data.delivery.attemptLog.map((attempt) => (
            <section key={attempt.number} className="card" aria-label={`Attempt ${attempt.number}`}>
              <div className="card-head">
                <h3>
                  Attempt {attempt.number}: {attempt.httpStatus ?? foreign(attempt.error, 200)}
                </h3>
                <span className="muted small">
                  <Time at={attempt.startedAt} /> · {attempt.durationMs} ms
                </span>
              </div>
              {attempt.response !== null && attempt.response !== '' && (
                <pre
                  className="body"
                  tabIndex={0}
                  aria-label={`Response of attempt ${attempt.number}`}
                >
                  {foreign(attempt.response, 8000)}
                </pre>
              )}
            </section>
          ))}
        </>
      )}
    </>
  );
}

/** Indents JSON. Text that is not JSON, or is nested too deeply, stays unchanged. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
