import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../client/openapi.ts';
import { wordsOf } from '../shared/errors.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Badge, Button, Notice } from '../shared/parts.tsx';
import { Table } from '../shared/table.tsx';
import { Time } from '../shared/time.tsx';
import { StatusFilter } from './filters.tsx';
import { LIVE_MS, type Place } from './place.ts';

type Delivery = components['schemas']['Delivery'];
const statuses = ['failed', 'pending', 'delivered', 'cancelled'] as const;

/** Lists the deliveries to an endpoint: first the failed deliveries, then all deliveries. */
export function Deliveries({
  place,
  webhookId,
}: {
  place: Place;
  webhookId: string;
}): ReactElement {
  const { session, app } = place;
  const [status, setStatus] = useState<(typeof statuses)[number]>();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();
  const open = useCallback(
    (wanted: (typeof statuses)[number] | undefined) =>
      session.client.pages('/merchant/apps/{appId}/webhooks/{webhookId}/deliveries', {
        path: { appId: app.id, webhookId },
        query: wanted === undefined ? {} : { status: [wanted] },
      }),
    [session, app.id, webhookId],
  );
  const openAll = useCallback(() => open(status), [open, status]);
  const openFailed = useCallback(() => open('failed'), [open]);
  const all = usePages(openAll, LIVE_MS);
  const failed = usePages(openFailed, LIVE_MS * 3);

  const replay = async () => {
    setBusy(true);
    let queued = 0;
    try {
      for (const deliveryId of chosen) {
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
          <Button busy={busy} disabled={chosen.size === 0} onClick={() => void replay()}>
            {chosen.size === 0 ? 'Replay' : `Replay ${chosen.size}`}
          </Button>
        </div>
      </div>
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      {failed.rows.length > 0 && status === undefined && (
        <>
          <h3>Failed</h3>
          {rows(failed.rows, 'Failed deliveries')}
        </>
      )}
      <div className="view-head">
        <h3>{failed.rows.length > 0 && status === undefined ? 'All' : 'By status'}</h3>
        <div className="filters">
          <StatusFilter statuses={statuses} value={status} onChange={setStatus} />
        </div>
      </div>
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
            <a href={`#/webhook/${webhookId}.${id}`}>{eventType.replaceAll('_', ' ')}</a>
          ),
        },
        { head: 'Status', cell: ({ status }) => <Badge status={status} /> },
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
