import { type ReactElement, useEffect, useState } from 'react';
import { Fill } from '../shared/fill.tsx';
import { fill, words } from '../shared/language.ts';
import { formatExact } from '../shared/money.ts';
import { Button, Notice, Signature, Spinner, Usdc } from '../shared/parts.tsx';
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
 * The screen after subscribing. The screen follows the first payment until this payment has
 * succeeded or failed.
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

  const text = words.done;
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
      <h2>{text.title}</h2>
      <p>
        <Fill
          text={text.thanks}
          plan={<bdi>{foreign(plan.name, 80)}</bdi>}
          app={<bdi>{foreign(plan.appName, 80)}</bdi>}
        />
      </p>
      {!settled && <Spinner>{text.collecting}</Spinner>}
      {current.status === 'past_due' && (
        <Notice kind="warning" title={text.failed}>
          {words.unpaid[payment?.failureReason ?? 'unknown']}
        </Notice>
      )}
      {trial && current.trialEndsAt !== null && (
        <dl className="lines">
          <div>
            <dt>{text.freeUntil}</dt>
            <dd>
              <Time at={current.trialEndsAt} />
            </dd>
          </div>
          {current.nextAmount !== null && (
            <div>
              <dt>{text.firstPayment}</dt>
              <dd>
                <Usdc units={current.nextAmount} partOf={current.amount} />
              </dd>
            </div>
          )}
        </dl>
      )}
      {current.paidThrough !== null && (
        <dl className="lines">
          <div>
            <dt>{text.paid}</dt>
            <dd>{formatExact(payment?.amountGross ?? current.amount)} USDC</dd>
          </div>
          <div>
            <dt>{text.paidUntil}</dt>
            <dd>
              <Time at={current.paidThrough} />
            </dd>
          </div>
          {current.nextPaymentDue !== null && current.nextAmount !== null && (
            <div>
              <dt>
                {text.next}, <Time at={current.nextPaymentDue} dateOnly />
              </dt>
              <dd>
                <Usdc units={current.nextAmount} partOf={current.amount} />
              </dd>
            </div>
          )}
          {typeof payment?.txSignature === 'string' && (
            <div>
              <dt>{text.payment}</dt>
              <dd>
                <Signature of={payment.txSignature} />
              </dd>
            </div>
          )}
        </dl>
      )}
      {back === undefined ? (
        <Button kind="primary" onClick={() => location.assign('/account')}>
          {words.panel.seeMine}
        </Button>
      ) : (
        <Button kind="primary" onClick={() => location.assign(back)}>
          {fill(text.goOn, { app: foreign(plan.appName, 80) })}
        </Button>
      )}
    </>
  );
}
