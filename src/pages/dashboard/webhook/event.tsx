import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Line } from '../../shared/line.tsx';
import { Address, Button, Copy, Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { typeText } from '../parts/event-types.ts';
import { Loading } from '../parts/loading.tsx';

/** Shows one event with the exact body that is signed and sent. A button sends the event again. */
export function Event({ context, id }: { context: AppContext; id: string }): ReactElement {
  const { session, app } = context;
  const path = { appId: app.id, eventId: id };
  const ask = useCallback(
    () =>
      session.client.get('/merchant/apps/{appId}/events/{eventId}', {
        path: { appId: app.id, eventId: id },
      }),
    [session, app.id, id],
  );
  const { data: event, error } = useResponse(ask);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();
  const replay = () => {
    setBusy(true);
    session.client
      .post('/merchant/apps/{appId}/events/{eventId}/replay', { path })
      .then(
        () => setMessage({ kind: 'success', text: 'Queued as a new delivery.' }),
        (failure: unknown) => setMessage({ kind: 'warning', text: wordsOf(failure) }),
      )
      .finally(() => setBusy(false));
  };
  return (
    <>
      <p>
        <a href="#/events">All events</a>
      </p>
      {event === undefined && <Loading error={error} />}
      {event !== undefined && (
        <>
          <div className="view-head">
            <h1>{typeText(event.type)}</h1>
            {event.type !== 'endpoint_disabled' && (
              <Button busy={busy} onClick={replay}>
                Send it again
              </Button>
            )}
          </div>
          {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
          <dl className="lines card">
            <Line name="Created">
              <Time at={event.createdAt} />
            </Line>
            {event.subscriptionId !== null && (
              <Line name="Subscription">
                <a href={`#/subscriptions/${event.subscriptionId}`}>Open it</a>
              </Line>
            )}
            {event.sequence !== null && <Line name="Number">{event.sequence}</Line>}
            <Line name="Id">
              <Address of={event.id} label="event’s id" />
            </Line>
          </dl>
          <div className="view-head">
            <h2>Body, byte for byte</h2>
            <Copy text={event.body} label="Copy the body" />
          </div>
          <pre className="body" tabIndex={0} aria-label="Body of the event">
            {foreign(event.body, 20_000)}
          </pre>
        </>
      )}
    </>
  );
}
