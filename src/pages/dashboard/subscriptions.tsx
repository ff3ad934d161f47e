import { type ReactElement, useCallback, useState } from 'react';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { SubscriptionBadge, Usdc } from '../shared/parts.tsx';
import { Table } from '../shared/table.tsx';
import { foreign, shortAddress } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { PlanFilter, StatusFilter } from './filters.tsx';
import { LIVE_MS, type Place, usePlans } from './place.ts';

const statuses = ['active', 'past_due', 'cancelled', 'expired'] as const;
const walletPattern = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

/** Lists the app's subscriptions, newest first. */
export function Subscriptions({ place }: { place: Place }): ReactElement {
  const { session, app } = place;
  const [status, setStatus] = useState<(typeof statuses)[number]>();
  const [planId, setPlanId] = useState<string>();
  const [wallet, setWallet] = useState('');
  const plans = usePlans(place);
  const subscriberWallet = walletPattern.test(wallet.trim()) ? wallet.trim() : undefined;
  const open = useCallback(
    () =>
      session.client.pages('/merchant/apps/{appId}/subscriptions', {
        path: { appId: app.id },
        query: {
          ...(status !== undefined && { status: [status] }),
          ...(planId !== undefined && { planId }),
          ...(subscriberWallet !== undefined && { subscriberWallet }),
        },
      }),
    [session, app.id, status, planId, subscriberWallet],
  );
  const list = usePages(open, LIVE_MS);
  const filtered = status !== undefined || planId !== undefined || subscriberWallet !== undefined;
  const nameOf = (id: string) => plans.find((plan) => plan.id === id)?.name ?? '';
  return (
    <>
      <div className="view-head">
        <h1>Subscriptions</h1>
      </div>
      <div className="filters">
        <StatusFilter statuses={statuses} value={status} onChange={setStatus} />
        <PlanFilter plans={plans} value={planId} onChange={setPlanId} />
        <label>
          Wallet
          <input
            value={wallet}
            placeholder="Any address"
            spellCheck={false}
            aria-invalid={wallet.trim() !== '' && subscriberWallet === undefined}
            onChange={({ target }) => setWallet(target.value)}
          />
        </label>
      </div>
      <ListOf
        list={list}
        empty={
          filtered ? (
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
              head: 'Wallet',
              cell: ({ id, subscriberWallet: address }) => (
                <a href={`#/subscriptions/${id}`} title={address}>
                  <code>{shortAddress(address)}</code>
                </a>
              ),
            },
            { head: 'Plan', cell: (row) => <bdi>{foreign(nameOf(row.planId), 60)}</bdi> },
            {
              head: 'Status',
              cell: (row) => <SubscriptionBadge of={row} />,
            },
            { head: 'Amount', isNumber: true, cell: ({ amount }) => <Usdc units={amount} /> },
            {
              head: 'Next payment',
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
    </>
  );
}
