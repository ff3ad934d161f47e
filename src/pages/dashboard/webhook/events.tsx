import { type ReactElement, useCallback } from 'react';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Notice } from '../../shared/parts.tsx';
import { Table } from '../../shared/table.tsx';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useChoice } from '../parts/app-context.ts';
import type { Range } from '../parts/days.ts';
import { type EventType, eventTypes, meaningOf, typeText } from '../parts/event-types.ts';
import { DaysFilter, TypeFilter, useDays } from '../parts/filters.tsx';

/** Lists the app's events, newest first. */
export function Events({ context }: { context: AppContext }): ReactElement {
  const [type, setType] = useChoice('type', eventTypes);
  const days = useDays();
  return (
    <>
      <div className="view-head">
        <h1>Events</h1>
      </div>
      <div className="filters">
        <TypeFilter types={eventTypes} value={type} onChange={setType} />
        <DaysFilter days={days} />
      </div>
      {days.problem === undefined ? (
        <Found context={context} type={type} range={days.range} />
      ) : (
        <Notice kind="warning">{days.problem}</Notice>
      )}
    </>
  );
}

function Found({
  context: { session, app },
  type,
  range,
}: {
  context: AppContext;
  type: EventType | undefined;
  range: Range;
}): ReactElement {
  const open = useCallback(
    () =>
      session.client.pages('/merchant/apps/{appId}/events', {
        path: { appId: app.id },
        query: { ...(type !== undefined && { type: [type] }), ...range },
      }),
    [session, app.id, type, range],
  );
  const list = usePages(open, LIVE_MS);
  return (
    <ListOf
      list={list}
      empty={
        <>
          <strong>No events</strong>
          <span>Each change of a subscription is an event, also while you have no webhook.</span>
        </>
      }
    >
      <Table
        label="Events"
        rows={list.rows}
        columns={[
          {
            head: 'Event',
            cell: ({ id, type: of }) => <a href={`#/events/${id}`}>{typeText(of)}</a>,
          },
          {
            head: 'Tells that',
            cell: ({ type: of }) => <span className="muted">{meaningOf(of)}</span>,
          },
          {
            head: 'Subscription',
            cell: ({ subscriptionId }) =>
              subscriptionId === null ? (
                '–'
              ) : (
                <a href={`#/subscriptions/${subscriptionId}`}>
                  <code>…{subscriptionId.slice(-8)}</code>
                </a>
              ),
          },
          { head: 'Number', isNumber: true, cell: ({ sequence }) => sequence ?? '–' },
          { head: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
        ]}
      />
    </ListOf>
  );
}
