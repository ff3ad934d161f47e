// Lists the app's subscriptions. With the choice `unregistered`, the page lists the subscriptions
// on chain that are not registered.
import { type ReactElement, useCallback } from 'react';
import type { components } from '../../../client/openapi.ts';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Notice, SubscriptionBadge, Usdc } from '../../shared/parts.tsx';
import type { Plan } from '../../shared/session.ts';
import { Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useChoice, usePlans } from '../parts/app-context.ts';
import { Customer } from '../parts/customer.tsx';
import type { Range } from '../parts/days.ts';
import { DaysFilter, PlanFilter, StatusFilter, useDays, usePlanChoice } from '../parts/filters.tsx';
import { failureText } from '../parts/reasons.ts';
import { Unregistered, UnregisteredNotice } from './unregistered.tsx';

type Subscription = components['schemas']['Subscription'];
type Status = Subscription['status'];

const statuses = ['active', 'past_due', 'cancelled', 'expired'] as const;
/**
 * The choices of the status filter. `unregistered` chooses the subscriptions on chain that are not
 * registered.
 */
const choices = [...statuses, 'unregistered'] as const;

/**
 * The screen of the app's subscriptions. `unregistered` is the number of subscriptions on chain
 * that are not registered.
 */
export function Subscriptions({
  context,
  unregistered,
}: {
  context: AppContext;
  unregistered: number;
}): ReactElement {
  const [choice, setChoice] = useChoice('status', choices);
  const [planId, setPlanId] = usePlanChoice();
  const days = useDays();
  const plans = usePlans(context);
  return (
    <>
      <div className="view-head">
        <h1>Subscriptions</h1>
      </div>
      {choice !== 'unregistered' && <UnregisteredNotice count={unregistered} />}
      <div className="filters">
        <StatusFilter statuses={choices} value={choice} onChange={setChoice} />
        {choice !== 'unregistered' && (
          <>
            <PlanFilter plans={plans} value={planId} onChange={setPlanId} />
            <DaysFilter days={days} />
          </>
        )}
      </div>
      {choice === 'unregistered' ? (
        <Unregistered context={context} plans={plans} />
      ) : days.problem === undefined ? (
        <Found context={context} plans={plans} status={choice} planId={planId} range={days.range} />
      ) : (
        <Notice kind="warning">{days.problem}</Notice>
      )}
    </>
  );
}

function Found({
  context: { session, app },
  plans,
  status,
  planId,
  range,
}: {
  context: AppContext;
  plans: readonly Plan[];
  status: Status | undefined;
  planId: string | undefined;
  range: Range;
}): ReactElement {
  const open = useCallback(
    () =>
      session.client.pages('/merchant/apps/{appId}/subscriptions', {
        path: { appId: app.id },
        query: {
          ...(status !== undefined && { status: [status] }),
          ...(planId !== undefined && { planId }),
          ...range,
        },
      }),
    [session, app.id, status, planId, range],
  );
  const list = usePages(open, LIVE_MS);
  const isFiltered = [status, planId, range.since, range.until].some((one) => one !== undefined);
  const nameOf = (id: string) => plans.find((plan) => plan.id === id)?.name ?? '';
  return (
    <ListOf
      list={list}
      empty={
        isFiltered ? (
          <strong>No subscription matches.</strong>
        ) : (
          <>
            <strong>No subscriptions yet</strong>
            <span>Share a plan’s link. Subscriptions appear here as they are made.</span>
          </>
        )
      }
    >
      <Table
        label="Subscriptions"
        rows={list.rows}
        columns={[
          {
            head: 'Customer',
            cell: (row) => <Customer of={row} href={`#/subscriptions/${row.id}`} />,
          },
          { head: 'Plan', cell: (row) => <bdi>{foreign(nameOf(row.planId), 60)}</bdi> },
          {
            head: 'Status',
            cell: (row) => (
              <>
                <SubscriptionBadge of={row} />
                {row.lastFailureReason !== null && (
                  <span className="muted small reason">{failureText(row.lastFailureReason)}</span>
                )}
              </>
            ),
          },
          ...(status === 'past_due'
            ? [
                {
                  head: 'Unpaid since',
                  cell: ({ pastDueSince }: Subscription) =>
                    pastDueSince === null ? '–' : <Time at={pastDueSince} />,
                },
              ]
            : []),
          { head: 'Amount', isNumber: true, cell: ({ amount }) => <Usdc units={amount} /> },
          {
            head: status === 'past_due' ? 'Next try' : 'Next payment',
            cell: ({ nextPaymentDue, cancelRequestedAt }) =>
              nextPaymentDue === null || cancelRequestedAt !== null ? (
                '–'
              ) : (
                <Time at={nextPaymentDue} />
              ),
          },
          { head: 'Since', cell: ({ createdAt }) => <Time at={createdAt} dateOnly /> },
        ]}
      />
    </ListOf>
  );
}
