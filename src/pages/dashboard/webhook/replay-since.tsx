import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { DAY_MS } from '../parts/days.ts';

/**
 * Time (ms) from the proposed start of the replay to the endpoint's first failure. The replay must
 * start earlier than the failure, because the failed event was queued before its delivery failed.
 */
const EARLIER_MS = 300_000;

/** Formats a time as the value of an input of type datetime-local, in the reader's time zone. */
function localValue(at: Date): string {
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

const events = (count: number) => (count === 1 ? '1 event' : `${count} events`);

/** Replays the events whose delivery failed since a given time. Shows their number first. */
export function ReplaySince({
  context: { session, app },
  failingSince,
  onClose,
  onDone,
}: {
  context: AppContext;
  /** Time at which the endpoint began to fail. Null if unknown. */
  failingSince: string | null;
  onClose: () => void;
  /** Called with the number of events that were queued again. */
  onDone: (total: number) => void;
}): ReactElement {
  const [text, setText] = useState(() =>
    localValue(
      new Date(failingSince === null ? Date.now() - DAY_MS : Date.parse(failingSince) - EARLIER_MS),
    ),
  );
  const since = Number.isNaN(Date.parse(text)) ? undefined : new Date(text).toISOString();
  const replay = useCallback(
    async (dryRun: boolean) => {
      if (since === undefined) throw new Error('Give a date and a time.');
      const run = async (status: 'failed' | 'retrying') => {
        const body = { status, since, dryRun };
        const path = { appId: app.id };
        return (await session.client.post('/merchant/apps/{appId}/replays', { path, body })).total;
      };
      // The order matters. Between the two calls, a delivery can change from `retrying` to
      // `failed`. In this order, at least one call finds this delivery. In the other order, neither
      // call would find it.
      const retrying = await run('retrying');
      return { retrying, failed: await run('failed') };
    },
    [session, app.id, since],
  );
  const count = useCallback(() => replay(true), [replay]);
  const { data: counts, error } = useResponse(count);
  return (
    <Confirm
      title="Replay all that failed"
      button="Replay all"
      run={async () => {
        const { retrying, failed } = await replay(false);
        return retrying + failed;
      }}
      onClose={onClose}
      onDone={onDone}
    >
      <label>
        Since
        <input
          type="datetime-local"
          required
          autoFocus
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      <div role="status">
        {error !== undefined ? (
          <p>{wordsOf(error)}</p>
        ) : counts === undefined ? (
          <p>Counting…</p>
        ) : (
          <>
            <p>{events(counts.failed)} failed and can be sent again.</p>
            <p>
              {events(counts.retrying)} failed and wait for the next attempt, which is made now.
            </p>
          </>
        )}
      </div>
      <p className="muted small">
        The first are sent as new deliveries, with the same id and body; the others stay the same
        deliveries. Events whose newest delivery succeeded are left out.
      </p>
    </Confirm>
  );
}
