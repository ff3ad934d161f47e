// The subscriptions that exist on chain but are not registered here. The service collects no
// payments from such a subscription (docs/contract.md, "Registration of a subscription").
import { type ReactElement, useCallback } from 'react';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Address, Copy, Notice } from '../../shared/parts.tsx';
import type { Plan } from '../../shared/session.ts';
import { Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext } from '../parts/app-context.ts';

/** Warns that `count` subscriptions are not registered. Shows nothing for 0. */
export function UnregisteredNotice({ count }: { count: number }): ReactElement {
  if (count === 0) return <></>;
  const title =
    count === 1
      ? 'One subscription on chain is not registered'
      : `${count >= 1000 ? '1,000 or more' : count} subscriptions on chain are not registered`;
  return (
    <Notice kind="warning" title={title}>
      Nothing is collected from what is not registered.{' '}
      <a href="#/subscriptions?status=unregistered">See what to do</a>
    </Notice>
  );
}

/** Lists the subscriptions that are not registered, with the two ways to register them. */
export function Unregistered({
  context: { session, app },
  plans,
}: {
  context: AppContext;
  plans: readonly Plan[];
}): ReactElement {
  const open = useCallback(
    () => session.client.pages('/merchant/apps/{appId}/unregistered', { path: { appId: app.id } }),
    [session, app.id],
  );
  const list = usePages(open, LIVE_MS);
  const nameOf = (id: string) => plans.find((plan) => plan.id === id)?.name ?? 'Plan';
  return (
    <>
      <div className="card">
        <p>
          These wallets opened a subscription on chain without this service, or two of your checkout
          links fit it, or the wallet changed its plan and resumed the old one on chain. Nothing is
          collected from them, and they give no access here. The chain has no name of the customer.
        </p>
        <p>
          <strong>One by one:</strong> send the wallet’s owner the plan’s page, or a checkout link
          with your customer’s id. The owner connects the same wallet there, which registers the
          subscription without a second one.
        </p>
        <p>
          <strong>All of them, without ids:</strong>{' '}
          {app.registerUnclaimed ? (
            'your app’s rules register them already. What stays here for more than some minutes does not register by itself: two checkout links fit it, its terms are not the plan’s, or its wallet changed to another plan.'
          ) : (
            <>
              switch on “Register subscriptions that this service did not offer” in the{' '}
              <a href="#/settings">settings</a>. It takes some minutes.
            </>
          )}
        </p>
        <p className="muted small">
          A subscription pays from its registration on: the rest of the running period first. It
          leaves this list when it is registered, or when its wallet cancels it.
        </p>
      </div>
      <ListOf
        list={list}
        empty={
          <>
            <strong>All are registered</strong>
            <span>No wallet has a subscription on chain that is missing here.</span>
          </>
        }
      >
        <Table
          label="Not registered"
          rows={list.rows}
          columns={[
            {
              head: 'Wallet',
              cell: ({ subscriberWallet }) => (
                <Address of={subscriberWallet} label="subscriber’s wallet" />
              ),
            },
            {
              head: 'Plan’s page',
              cell: ({ planId }) => {
                const name = foreign(nameOf(planId), 60);
                return (
                  <span className="address">
                    <a href={`/s/${planId}`}>
                      <bdi>{name}</bdi>
                    </a>
                    <Copy
                      text={`${location.origin}/s/${planId}`}
                      label={`Copy the link of ${name}`}
                    />
                  </span>
                );
              },
            },
            {
              head: 'Account on chain',
              cell: ({ subscriptionPda }) => (
                <Address of={subscriptionPda} label="subscription’s account" />
              ),
            },
            { head: 'Seen', cell: ({ createdAt }) => <Time at={createdAt} /> },
          ]}
        />
      </ListOf>
    </>
  );
}
