import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Badge, Button, Notice } from '../../shared/parts.tsx';
import { Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import {
  changeFilters,
  LIVE_MS,
  type AppContext,
  useChoice,
  useHash,
} from '../parts/app-context.ts';
import { type DeliveredType, deliveredTypes, typeText } from '../parts/event-types.ts';
import { DaysFilter, StatusFilter, TypeFilter, useDays } from '../parts/filters.tsx';
import { ReplaySince } from './replay-since.tsx';

type Delivery = components['schemas']['Delivery'];
interface Filters {
  status?: Delivery['status'][];
  type?: DeliveredType[];
  since?: string;
  until?: string;
  httpStatus?: string;
}

/** Matches an HTTP status, a class such as 5xx, or `none` for a request without a response. */
const answerPattern = /^([1-5]\d\d|[1-5]xx|none)$/;
const statuses = ['failed', 'pending', 'delivered', 'cancelled'] as const;

/** Lists the deliveries to an endpoint: first the failed deliveries, then all deliveries. */
export function Deliveries({
  context,
  webhookId,
  failingSince,
}: {
  context: AppContext;
  webhookId: string;
  failingSince: string | null;
}): ReactElement {
  const { session, app } = context;
  const [status, setStatus] = useChoice('status', statuses);
  const [type, setType] = useChoice('type', deliveredTypes);
  const days = useDays();
  const { answer = '' } = useHash().filters;
  const [replaying, setReplaying] = useState(false);
  const httpStatus = answerPattern.test(answer.trim()) ? answer.trim() : undefined;
  const { since, until } = days.range;
  const isFiltered = [status, type, since, until, httpStatus].some((one) => one !== undefined);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();
  const open = useCallback(
    (query: Filters) =>
      session.client.pages('/merchant/apps/{appId}/webhooks/{webhookId}/deliveries', {
        path: { appId: app.id, webhookId },
        query,
      }),
    [session, app.id, webhookId],
  );
  const openAll = useCallback(
    () =>
      open({
        ...(status !== undefined && { status: [status] }),
        ...(type !== undefined && { type: [type] }),
        ...days.range,
        ...(httpStatus !== undefined && { httpStatus }),
      }),
    [open, status, type, days.range, httpStatus],
  );
  const openFailed = useCallback(() => open({ status: ['failed'] }), [open]);
  const all = usePages(openAll, LIVE_MS);
  const failed = usePages(openFailed, LIVE_MS * 3);

  // Only deliveries whose row is still shown are replayed.
  const shown = new Set([...all.rows, ...(isFiltered ? [] : failed.rows)].map(({ id }) => id));
  const replayable = [...chosen].filter((id) => shown.has(id));
  const replay = async () => {
    setBusy(true);
    let queued = 0;
    try {
      for (const deliveryId of replayable) {
        await session.client.post(
          '/merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}/replay',
          { path: { appId: app.id, webhookId, deliveryId } },
        );
        queued += 1;
      }
      setMessage({ kind: 'success', text: `${queued} queued again.` });
    } catch (error) {
      setMessage({ kind: 'warning', text: `${queued} queued again, then: ${wordsOf(error)}` });
    }
    setChosen(new Set());
    setBusy(false);
    all.refresh();
    failed.refresh();
  };
  const choose = (ids: readonly string[], on: boolean) => {
    const next = new Set(chosen);
    for (const id of ids)
      if (on) next.add(id);
      else next.delete(id);
    setChosen(next);
  };
  const rows = (deliveries: readonly Delivery[], name: string) => (
    <Rows deliveries={deliveries} name={name} chosen={chosen} choose={choose} />
  );
  return (
    <>
      <div className="view-head">
        <h2>Deliveries</h2>
        <div className="actions">
          <Button busy={busy} disabled={replayable.length === 0} onClick={() => void replay()}>
            {replayable.length === 0 ? 'Replay' : `Replay ${replayable.length}`}
          </Button>
          <Button onClick={() => setReplaying(true)}>Replay all since…</Button>
        </div>
      </div>
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      {failed.rows.length > 0 && !isFiltered && (
        <>
          <h3>Failed</h3>
          {rows(failed.rows, 'Failed deliveries')}
        </>
      )}
      <div className="view-head">
        <h3>All</h3>
      </div>
      <div className="filters">
        <StatusFilter statuses={statuses} value={status} onChange={setStatus} />
        <TypeFilter types={deliveredTypes} value={type} onChange={setType} />
        <DaysFilter days={days} />
        <label>
          HTTP status
          <input
            value={answer}
            maxLength={4}
            placeholder="503, 5xx or none"
            aria-invalid={answer.trim() !== '' && httpStatus === undefined}
            onChange={({ target }) =>
              changeFilters({ answer: target.value === '' ? undefined : target.value })
            }
          />
        </label>
      </div>
      {days.problem !== undefined ? (
        <Notice kind="warning">{days.problem}</Notice>
      ) : (
        <ListOf
          list={all}
          empty={
            <>
              <strong>No deliveries</strong>
              <span>Events appear here as they are sent.</span>
            </>
          }
        >
          {rows(all.rows, 'Deliveries')}
        </ListOf>
      )}
      {replaying && (
        <ReplaySince
          context={context}
          failingSince={failingSince}
          onClose={() => setReplaying(false)}
          onDone={(total) => {
            setReplaying(false);
            setMessage({ kind: 'success', text: `${total} queued again.` });
            all.refresh();
            failed.refresh();
          }}
        />
      )}
    </>
  );
}

function Rows({
  deliveries,
  name,
  chosen,
  choose,
}: {
  deliveries: readonly Delivery[];
  name: string;
  chosen: ReadonlySet<string>;
  choose: (ids: readonly string[], on: boolean) => void;
}): ReactElement {
  return (
    <Table
      label={name}
      rows={deliveries}
      columns={[
        {
          head: (
            <input
              type="checkbox"
              aria-label={`Choose all: ${name}`}
              checked={deliveries.every(({ id }) => chosen.has(id))}
              onChange={({ target }) =>
                choose(
                  deliveries.map(({ id }) => id),
                  target.checked,
                )
              }
            />
          ),
          cell: ({ id, eventType }) => (
            <input
              type="checkbox"
              aria-label={`Choose the delivery of ${eventType}`}
              checked={chosen.has(id)}
              onChange={({ target }) => choose([id], target.checked)}
            />
          ),
        },
        {
          head: 'Event',
          cell: ({ id, webhookId, eventType }) => (
            <a href={`#/webhook/${webhookId}.${id}`}>{typeText(eventType)}</a>
          ),
        },
        { head: 'Status', cell: ({ status }) => <Badge status={status} /> },
        {
          head: 'Answer',
          cell: ({ lastHttpStatus, lastError }) => lastHttpStatus ?? foreign(lastError ?? '–', 60),
        },
        { head: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
        { head: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
        {
          head: 'Next attempt',
          cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? '–' : <Time at={nextAttemptAt} />),
        },
      ]}
    />
  );
}
