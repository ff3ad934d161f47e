import { type ReactElement, type ReactNode, useEffect, useState } from 'react';
import { discountText } from '../shared/discount.ts';
import { wordsOf } from '../shared/errors.ts';
import { Address, Button, Notice, Spinner, SubscriptionBadge, Usdc } from '../shared/parts.tsx';
import { everyPeriod } from '../shared/period.ts';
import {
  anonymous,
  type PublicPlan,
  type Session,
  type Standing,
  type Subscription,
} from '../shared/session.ts';
import { foreign } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { act, done, readStanding, type Verb } from './actions.ts';
import { Payments } from './payments.tsx';

const plans = new Map<string, Promise<PublicPlan>>();

function planOf(id: string): Promise<PublicPlan> {
  let plan = plans.get(id);
  if (plan === undefined) {
    plan = anonymous.get('/plans/{planId}', { path: { planId: id } });
    plan.catch(() => plans.delete(id));
    plans.set(id, plan);
  }
  return plan;
}

/** Shows one subscription with its price, its next charge and the possible actions. */
export function SubscriptionCard({
  session,
  initial,
}: {
  session: Session;
  initial: Subscription;
}): ReactElement {
  const [subscription, setSubscription] = useState(initial);
  const [standing, setStanding] = useState<Standing>();
  const [plan, setPlan] = useState<PublicPlan>();
  const [busy, setBusy] = useState<{ verb: Verb; text: string }>();
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();
  const [open, setOpen] = useState(false);
  const { planId, status } = subscription;
  const ending = status === 'active' && subscription.cancelRequestedAt !== null;

  useEffect(() => {
    let live = true;
    planOf(planId).then(
      (found) => live && setPlan(found),
      () => undefined,
    );
    readStanding(session, initial).then(
      (found) => live && setStanding(found),
      () => undefined,
    );
    return () => {
      live = false;
    };
  }, [session, initial, planId]);

  const run = (verb: Verb) => {
    setMessage(undefined);
    setBusy({ verb, text: 'Preparing…' });
    act(session, subscription, verb, (text) => setBusy({ verb, text })).then(
      (acted) => {
        setBusy(undefined);
        setSubscription(acted.subscription);
        setStanding(acted.standing);
        setMessage(
          acted.problem === undefined
            ? { kind: 'success', text: done[verb] }
            : { kind: 'warning', text: acted.problem },
        );
      },
      (error: unknown) => {
        setBusy(undefined);
        setMessage({ kind: 'warning', text: wordsOf(error) });
      },
    );
  };

  const title = plan === undefined ? 'Subscription' : foreign(plan.name, 120);
  const button = (verb: Verb, label: string, kind: 'primary' | 'plain' | 'danger' = 'plain') => (
    <Button
      kind={kind}
      busy={busy?.verb === verb}
      disabled={busy !== undefined}
      aria-label={`${label}: ${title}`}
      onClick={() => run(verb)}
    >
      {label}
    </Button>
  );

  return (
    <article className="card" aria-label={title}>
      <div className="card-head">
        <div>
          <h2>
            <bdi>{title}</bdi>
          </h2>
          <p className="muted">
            {plan !== undefined && (
              <>
                <bdi>{foreign(plan.merchantName ?? plan.appName, 80)}</bdi> ·{' '}
              </>
            )}
            <Usdc units={subscription.amount} /> {everyPeriod(subscription.periodHours)}
            {subscription.discount !== null && <>, {discountText(subscription.discount)}</>}
          </p>
        </div>
        <SubscriptionBadge of={subscription} />
      </div>
      <State subscription={subscription} standing={standing} />
      {busy !== undefined && <Spinner>{busy.text}</Spinner>}
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      <div className="actions">
        {standing?.onChain === 'live' &&
          standing.approval === 'missing' &&
          button('repair', 'Approve payments again', 'primary')}
        {standing?.onChain === 'cancelled' && ending && button('resume', 'Resume', 'primary')}
        {standing?.onChain === 'ended' && button('close', 'Close and get the deposit back')}
        {standing?.onChain === 'live' && button('cancel', 'Cancel subscription', 'danger')}
        <Button kind="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Hide payments' : 'Payments'}
        </Button>
      </div>
      {open && <Payments session={session} subscription={subscription} />}
      {open && plan !== undefined && (
        <p className="muted small">
          Paid to <Address of={subscription.merchantWallet} label="merchant’s wallet" /> ·
          subscription <Address of={subscription.subscriptionPda} label="subscription’s address" />
        </p>
      )}
    </article>
  );
}

function State({
  subscription,
  standing,
}: {
  subscription: Subscription;
  standing: Standing | undefined;
}): ReactElement {
  const { status, paidThrough, nextPaymentDue, cancelRequestedAt } = subscription;
  const { trialEndsAt, pausedAt, nextAmount } = subscription;
  const inTrial = status === 'active' && trialEndsAt !== null && new Date(trialEndsAt) > new Date();
  const line = (name: string, value: ReactNode) => (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
  return (
    <>
      <dl className="lines">
        {status === 'active' &&
          cancelRequestedAt === null &&
          nextPaymentDue !== null &&
          line(
            'Next payment',
            <>
              {nextAmount !== null && (
                <>
                  <Usdc units={nextAmount} partOf={subscription.amount} />,{' '}
                </>
              )}
              <Time at={nextPaymentDue} />
            </>,
          )}
        {inTrial && line('Free until', <Time at={trialEndsAt} />)}
        {pausedAt !== null && line('Paused by the merchant', <Time at={pausedAt} dateOnly />)}
        {status === 'past_due' &&
          nextPaymentDue !== null &&
          line('Payment was due', <Time at={nextPaymentDue} />)}
        {paidThrough !== null &&
          line(cancelRequestedAt === null ? 'Paid until' : 'Ends', <Time at={paidThrough} />)}
        {line('Since', <Time at={subscription.createdAt} dateOnly />)}
      </dl>
      {status === 'past_due' && (
        <Notice kind="warning" title="The last payment failed.">
          Make sure that the wallet has enough USDC. The payment is tried again automatically.
        </Notice>
      )}
      {standing?.onChain === 'live' && standing.approval === 'missing' && (
        <Notice kind="warning" title="Payments are not approved.">
          Your wallet took its approval back, so the next payment will fail. Approve again to go on.
        </Notice>
      )}
      {standing?.onChain === 'live' && standing.approval === 'replaced' && (
        <Notice kind="warning" title="This subscription cannot be paid any more.">
          Your wallet replaced the approval that it was made with. Cancel it, then subscribe again.
        </Notice>
      )}
    </>
  );
}
