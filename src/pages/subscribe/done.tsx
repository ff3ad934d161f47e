import { type ReactElement, useEffect, useRef, useState } from 'react';
import { fill } from '../../words/fill.ts';
import { Fill } from '../shared/fill.tsx';
import { words } from '../shared/language.ts';
import { Line } from '../shared/line.tsx';
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
 * The screen after subscribing. If the session and the subscription are known, the screen polls the
 * state of the first payment. If one of them is unknown, the first payment is already final.
 */
export function Done({
  plan,
  session,
  subscription,
  successUrl,
}: {
  plan: PublicPlan;
  session: Session | undefined;
  subscription: Subscription | undefined;
  /**
   * Return URL of a checkout session. The page redirects there when the first payment has
   * succeeded, or immediately in a trial.
   */
  successUrl: string | null;
}): ReactElement {
  const isKnown = session !== undefined && subscription !== undefined;
  const [paid, setPaid] = useState(!isKnown);
  const [failed, setFailed] = useState(false);
  const text = words.done;
  const back = safeUrl(successUrl);
  useEffect(() => {
    if (paid && back !== undefined) location.assign(back);
  }, [paid, back]);
  return (
    <>
      {!failed && (
        <div className="tick" aria-hidden="true">
          <svg viewBox="0 0 24 24">
            <path d="m5 12.5 4.5 4.5L19 7.5" />
          </svg>
        </div>
      )}
      <h2>{failed ? text.failed : text.title}</h2>
      <p>
        <Fill
          text={failed ? text.waits : text.thanks}
          plan={<bdi>{foreign(plan.name, 80)}</bdi>}
          app={<bdi>{foreign(plan.appName, 80)}</bdi>}
        />
      </p>
      {isKnown && (
        <FirstPayment
          session={session}
          subscription={subscription}
          onPaid={() => setPaid(true)}
          onFailed={setFailed}
        />
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

/**
 * Follows the first payment until it has succeeded or failed. Calls `onPaid` when it has succeeded,
 * or immediately in a trial, and `onFailed` when it has failed.
 */
function FirstPayment({
  session,
  subscription,
  onPaid,
  onFailed,
}: {
  session: Session;
  subscription: Subscription;
  onPaid: () => void;
  onFailed: (failed: boolean) => void;
}): ReactElement {
  const [current, setCurrent] = useState(subscription);
  const [payment, setPayment] = useState<Payment>();
  const trial = isInTrial(current);
  const settled = trial || current.paidThrough !== null || current.status !== 'active';
  const failed = current.status === 'past_due';

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
  const paid = trial || current.paidThrough !== null;
  const tell = useRef(onPaid);
  tell.current = onPaid;
  useEffect(() => onFailed(failed), [failed, onFailed]);
  useEffect(() => {
    if (paid) tell.current();
  }, [paid]);

  return (
    <>
      {!settled && <Spinner>{text.collecting}</Spinner>}
      {failed && (
        <Notice kind="warning">{words.unpaid[payment?.failureReason ?? 'unknown']}</Notice>
      )}
      {trial && current.trialEndsAt !== null && (
        <dl className="lines">
          <Line name={text.freeUntil}>
            <Time at={current.trialEndsAt} />
          </Line>
          {current.nextAmount !== null && (
            <Line name={text.firstPayment}>
              <Usdc units={current.nextAmount} partOf={current.amount} />
            </Line>
          )}
        </dl>
      )}
      {current.paidThrough !== null && (
        <dl className="lines">
          <Line name={text.paid}>
            <Usdc units={payment?.amountGross ?? current.amount} partOf={current.amount} />
          </Line>
          <Line name={text.paidUntil}>
            <Time at={current.paidThrough} />
          </Line>
          {current.nextPaymentDue !== null && current.nextAmount !== null && (
            <Line
              name={
                <>
                  {text.next}, <Time at={current.nextPaymentDue} dateOnly />
                </>
              }
            >
              <Usdc units={current.nextAmount} partOf={current.amount} />
            </Line>
          )}
          {typeof payment?.txSignature === 'string' && (
            <Line name={text.payment}>
              <Signature of={payment.txSignature} />
            </Line>
          )}
        </dl>
      )}
    </>
  );
}
