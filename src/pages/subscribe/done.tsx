import { type ReactElement, useEffect, useState } from 'react';
import { formatExact, formatToCent } from '../shared/money.ts';
import { Button, Notice, Signature, Spinner } from '../shared/parts.tsx';
import type { Payment, PublicPlan, Session, Subscription } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';

const POLL_MS = 2000;

/**
 * Returns whether the subscription is in its trial: the next payment is due when the trial ends.
 */
const isInTrial = ({ trialEndsAt, nextPaymentDue }: Subscription) =>
  trialEndsAt !== null && nextPaymentDue === trialEndsAt;

/**
 * The screen after subscribing. It follows the first payment until the payment has succeeded or
 * failed.
 */
export function Done({
  plan,
  session,
  subscription,
  successUrl,
}: {
  plan: PublicPlan;
  session: Session;
  subscription: Subscription;
  /**
   * Return URL of a checkout session. The page redirects there when the first payment has
   * succeeded, or immediately in a trial.
   */
  successUrl: string | null;
}): ReactElement {
  const [current, setCurrent] = useState(subscription);
  const [payment, setPayment] = useState<Payment>();
  const trial = isInTrial(current);
  const settled = trial || current.paidThrough !== null || current.status !== 'active';

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let live = true;
    const path = { subscriptionId: subscription.id };
    const poll = async () => {
      const found = await session.client.get('/subscriber/subscriptions/{subscriptionId}', {
        path,
      });
      if (isInTrial(found)) {
        if (live) setCurrent(found);
        return;
      }
      if (found.paidThrough !== null || found.status !== 'active') {
        const [latest] = await session.client.get(
          '/subscriber/subscriptions/{subscriptionId}/transactions',
          { path, query: { limit: 1 } },
        );
        if (live) setPayment(latest);
      } else if (live) timer = setTimeout(again, POLL_MS);
      if (live) setCurrent(found);
    };
    const again = () => void poll().catch(() => live && (timer = setTimeout(again, POLL_MS * 3)));
    again();
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [session, subscription.id]);

  const back = safeUrl(successUrl);
  const paid = trial || current.paidThrough !== null;
  useEffect(() => {
    if (paid && back !== undefined) location.assign(back);
  }, [paid, back]);

  return (
    <>
      <div className="tick" aria-hidden="true">
        <svg viewBox="0 0 24 24">
          <path d="m5 12.5 4.5 4.5L19 7.5" />
        </svg>
      </div>
      <h2>You are subscribed</h2>
      <p>
        Thank you. <bdi>{foreign(plan.appName, 80)}</bdi> has your subscription to{' '}
        <bdi>{foreign(plan.name, 80)}</bdi>.
      </p>
      {!settled && <Spinner>Collecting the first payment…</Spinner>}
      {current.status === 'past_due' && (
        <Notice kind="warning" title="The first payment failed.">
          Your wallet has too little USDC. It is tried again automatically; top the wallet up.
        </Notice>
      )}
      {trial && current.trialEndsAt !== null && (
        <dl className="lines">
          <div>
            <dt>Free until</dt>
            <dd>
              <Time at={current.trialEndsAt} />
            </dd>
          </div>
          {current.nextAmount !== null && (
            <div>
              <dt>Then the first payment</dt>
              <dd>{formatToCent(current.nextAmount)} USDC</dd>
            </div>
          )}
        </dl>
      )}
      {current.paidThrough !== null && (
        <dl className="lines">
          <div>
            <dt>Paid</dt>
            <dd>{formatExact(payment?.amountGross ?? current.amount)} USDC</dd>
          </div>
          <div>
            <dt>Paid until</dt>
            <dd>
              <Time at={current.paidThrough} />
            </dd>
          </div>
          {typeof payment?.txSignature === 'string' && (
            <div>
              <dt>Payment</dt>
              <dd>
                <Signature of={payment.txSignature} />
              </dd>
            </div>
          )}
        </dl>
      )}
      {back === undefined ? (
        <Button kind="primary" onClick={() => location.assign('/account')}>
          See my subscriptions
        </Button>
      ) : (
        <Button kind="primary" onClick={() => location.assign(back)}>
          Go on to {foreign(plan.appName, 80)}
        </Button>
      )}
    </>
  );
}
