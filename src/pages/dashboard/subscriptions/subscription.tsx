import { type ReactElement, useCallback, useMemo } from 'react';
import type { components } from '../../../client/openapi.ts';
import { discountText } from '../../shared/discount.ts';
import { Line } from '../../shared/line.tsx';
import { usePages } from '../../shared/pages.ts';
import { Address, Button, SubscriptionBadge, Usdc } from '../../shared/parts.tsx';
import { everyPeriod } from '../../shared/period.ts';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useResponse } from '../parts/app-context.ts';
import { customerName, customerPage } from '../parts/customer.tsx';
import { Loading } from '../parts/loading.tsx';
import { Metadata } from '../parts/metadata.tsx';
import { endText, failureText } from '../parts/reasons.ts';
import { Invoices } from '../payments/invoices.tsx';
import { PaymentTable } from '../payments/payment-table.tsx';
import { SubscriptionActions } from './subscription-actions.tsx';
import { Timeline } from './timeline.tsx';

type Subscription = components['schemas']['Subscription'];

export function Subscription({ context, id }: { context: AppContext; id: string }): ReactElement {
  const { session, app } = context;
  const ask = useCallback(async () => {
    const path = { appId: app.id, subscriptionId: id };
    const [subscription, timeline] = await Promise.all([
      session.client.get('/merchant/apps/{appId}/subscriptions/{subscriptionId}', {
        path,
        query: { expand: ['plan'] },
      }),
      session.client.get('/merchant/apps/{appId}/subscriptions/{subscriptionId}/timeline', {
        path,
      }),
    ]);
    return { subscription, timeline };
  }, [session, app.id, id]);
  const { data, error, again } = useResponse(ask, LIVE_MS);
  const open = useCallback(
    () =>
      session.client.pages('/merchant/apps/{appId}/transactions', {
        path: { appId: app.id },
        query: { subscriptionId: id },
      }),
    [session, app.id, id],
  );
  const payments = usePages(open, LIVE_MS);
  const selection = useMemo(() => ({ subscriptionId: id }), [id]);
  const changed = () => {
    again();
    payments.refresh();
  };

  const back = (
    <p>
      <a href="#/subscriptions">All subscriptions</a>
    </p>
  );
  if (data === undefined)
    return (
      <>
        {back}
        <Loading error={error} />
      </>
    );
  const { subscription, timeline } = data;
  return (
    <>
      {back}
      <div className="view-head">
        <h1>
          <bdi>{customerName(subscription)}</bdi>
        </h1>
        <SubscriptionActions context={context} subscription={subscription} onDone={changed} />
      </div>
      <Facts subscription={subscription} />
      {Object.keys(subscription.metadata).length > 0 && (
        <>
          <h2>Metadata</h2>
          <Metadata of={subscription.metadata} />
        </>
      )}
      <h2>Invoices</h2>
      <Invoices context={context} selection={selection} onChanged={changed} />
      {payments.rows.length > 0 && (
        <>
          <h2>Payments</h2>
          <PaymentTable
            context={context}
            label="Payments"
            rows={payments.rows}
            onChanged={changed}
          />
          {payments.more && (
            <div>
              <Button busy={payments.busy} onClick={payments.next}>
                Show more
              </Button>
            </div>
          )}
        </>
      )}
      <h2>What happened</h2>
      <Timeline entries={timeline} />
    </>
  );
}

function Facts({ subscription }: { subscription: Subscription }): ReactElement {
  const { discount, plan, endReason, nextPaymentDue, nextAmount } = subscription;
  return (
    <dl className="lines card">
      <Line name="Status">
        <SubscriptionBadge of={subscription} />
        {endReason !== null && <span className="muted"> {endText(endReason)}</span>}
      </Line>
      <Line name="Wallet">
        <Address of={subscription.subscriberWallet} label="subscriber’s wallet" />
      </Line>
      <Line name="Customer">
        <a href={customerPage(subscription)}>
          <bdi>{customerName(subscription)}</bdi>
        </a>
        {subscription.externalId === null && (
          <span className="muted"> Without an id of yours.</span>
        )}
      </Line>
      {plan !== undefined && (
        <Line name="Plan">
          <bdi>{foreign(plan.name, 60)}</bdi>
        </Line>
      )}
      <Line name="Pays">
        <Usdc units={subscription.amount} /> {everyPeriod(subscription.periodHours)}
        {discount !== null && <>, {discountText(discount)}</>}
      </Line>
      {subscription.trialEndsAt !== null && (
        <Line name="Trial ends">
          <Time at={subscription.trialEndsAt} />
        </Line>
      )}
      {subscription.startsAt !== null && (
        <Line name="First payment, after the change of plan">
          <Time at={subscription.startsAt} />
        </Line>
      )}
      <Changes of={subscription} />
      {subscription.pausedAt !== null && (
        <Line name="Paused since">
          <Time at={subscription.pausedAt} />
        </Line>
      )}
      <Line name="Paid through">
        {subscription.paidThrough === null ? '–' : <Time at={subscription.paidThrough} />}
      </Line>
      {subscription.accessUntil !== null && (
        <Line name="Access until">
          <Time at={subscription.accessUntil} />
        </Line>
      )}
      {subscription.delegationRevokedAt !== null && (
        <Line name="Approval lost">
          <Time at={subscription.delegationRevokedAt} />
          <span className="muted"> The next payment fails unless the wallet approves again.</span>
        </Line>
      )}
      {subscription.pastDueSince !== null && (
        <Line name="Unpaid since">
          <Time at={subscription.pastDueSince} />
          {subscription.lastFailureReason !== null && (
            <span className="muted"> {failureText(subscription.lastFailureReason)}</span>
          )}
        </Line>
      )}
      {nextPaymentDue !== null && (
        <Line name={subscription.status === 'past_due' ? 'Next try' : 'Next payment'}>
          {nextAmount !== null && <Usdc units={nextAmount} partOf={subscription.amount} />}{' '}
          <Time at={nextPaymentDue} />
        </Line>
      )}
      {subscription.reinstatedAt !== null && (
        <Line name="May subscribe again since">
          <Time at={subscription.reinstatedAt} />
        </Line>
      )}
      <Line name="Since">
        <Time at={subscription.createdAt} />
      </Line>
      <Line name="Id">
        <Address of={subscription.id} label="subscription’s id" />
      </Line>
    </dl>
  );
}

/**
 * Shows the credit that is left. Links to the subscriptions before and after a change of plan, and
 * to another subscription of the same customer.
 */
function Changes({ of }: { of: Subscription }): ReactElement {
  const { replaces, replacedBy, replacedAt, duplicateOf, credit } = of;
  return (
    <>
      {replaces !== null && (
        <Line name="Changed from">
          <a href={`#/subscriptions/${replaces}`}>The earlier subscription</a>
        </Line>
      )}
      {replacedBy !== null && (
        <Line name="Changed to">
          <a href={`#/subscriptions/${replacedBy}`}>The later subscription</a>
          {replacedAt !== null && (
            <>
              {' '}
              from <Time at={replacedAt} />
            </>
          )}
        </Line>
      )}
      {credit !== '0' && (
        <Line name="Credit left">
          <Usdc units={credit} /> <span className="muted">of the customer</span>
          <span className="muted"> The next payments take less by it.</span>
        </Line>
      )}
      {duplicateOf !== null && (
        <Line name="Second of this customer">
          <a href={`#/subscriptions/${duplicateOf}`}>The other one</a>
          <span className="muted"> Cancel one of them.</span>
        </Line>
      )}
    </>
  );
}
