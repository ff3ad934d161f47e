import { type ReactElement, type ReactNode, useEffect, useState } from 'react';
import { discountText } from '../shared/discount.ts';
import { explain, type Explanation } from '../shared/errors.ts';
import { Fill } from '../shared/fill.tsx';
import { words } from '../shared/language.ts';
import { Line } from '../shared/line.tsx';
import { NotApproved } from '../shared/other-approval.tsx';
import {
  Address,
  Button,
  Explained,
  Notice,
  Spinner,
  SubscriptionBadge,
  Usdc,
} from '../shared/parts.tsx';
import { everyPeriod } from '../shared/period.ts';
import { SellerLinks } from '../shared/seller.tsx';
import {
  type Payment,
  type PublicPlan,
  type Session,
  type Standing,
  type Subscription,
} from '../shared/session.ts';
import { isLive } from '../shared/status.ts';
import { foreign } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { act, doneText, readStanding, type Verb } from './actions.ts';
import { ChangePlan } from './change-plan.tsx';
import { CreditKept } from './credit-kept.tsx';
import { History } from './history.tsx';

/** Plans by the ids of their subscriptions. */
const plans = new Map<string, Promise<PublicPlan>>();

/** Reads a plan as its subscriber, who can also read it while its merchant is suspended. */
function planOf({ client }: Session, { id: subscriptionId }: Subscription): Promise<PublicPlan> {
  let plan = plans.get(subscriptionId);
  if (plan === undefined) {
    plan = client.get('/subscriber/subscriptions/{subscriptionId}/plan', {
      path: { subscriptionId },
    });
    plan.catch(() => plans.delete(subscriptionId));
    plans.set(subscriptionId, plan);
  }
  return plan;
}

/** Shows one subscription with its price, its next charge and the possible actions. */
export function SubscriptionCard({
  session,
  initial,
  onChanged,
}: {
  session: Session;
  initial: Subscription;
  onChanged: () => void;
}): ReactElement {
  const [subscription, setSubscription] = useState(initial);
  const [read, setStanding] = useState<Standing>();
  const [plan, setPlan] = useState<PublicPlan>();
  const [lastFailure, setLastFailure] = useState<Payment['failureReason']>(null);
  const [busy, setBusy] = useState<{ verb: Verb; step: 'preparing' | 'confirm' | 'waiting' }>();
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; say: () => Explanation }>();
  const [open, setOpen] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const { planId, status } = subscription;
  const ending = status === 'active' && subscription.cancelRequestedAt !== null;
  const standing = ownStanding(read, subscription);

  useEffect(() => {
    let live = true;
    planOf(session, initial).then(
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
  }, [session, initial]);

  useEffect(() => {
    if (status !== 'past_due') return;
    let live = true;
    const path = { subscriptionId: initial.id };
    session.client
      .get('/subscriber/subscriptions/{subscriptionId}/transactions', { path, query: { limit: 1 } })
      .then(
        ([latest]) => live && setLastFailure(latest?.failureReason ?? null),
        () => undefined,
      );
    return () => {
      live = false;
    };
  }, [session, initial.id, status]);

  // The wallet that paid the rent gets it back when the account is closed. Without an account on
  // chain, `rentPayer` is null.
  const ownsDeposit = standing?.rentPayer === session.address;
  const run = (verb: Verb) => {
    setMessage(undefined);
    setBusy({ verb, step: 'preparing' });
    const shownState = { before: subscription, shown: standing, verb };
    act(session, shownState, (step) => setBusy({ verb, step })).then(
      (acted) => {
        setBusy(undefined);
        setSubscription(acted.subscription);
        setStanding(acted.standing);
        const done = () => ({ text: doneText(verb, ownsDeposit, acted.subscription) });
        setMessage(
          acted.problem === undefined
            ? { kind: 'success', say: done }
            : { kind: 'warning', say: acted.problem },
        );
      },
      (error: unknown) => {
        setBusy(undefined);
        setMessage({ kind: 'warning', say: () => explain(error) });
      },
    );
  };

  const text = words.account;
  const title = plan === undefined ? words.account.subscription : foreign(plan.name, 120);
  const button = (verb: Verb, label: string, kind: 'primary' | 'plain' | 'danger' = 'plain') => (
    <Button
      kind={kind}
      busy={busy?.verb === verb}
      disabled={busy !== undefined}
      aria-label={`${label}: ${title}`}
      onClick={() =>
        verb === 'cancel' && subscription.credit !== '0' ? setAsking(true) : run(verb)
      }
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
      <State subscription={subscription} standing={standing} lastFailure={lastFailure} />
      {busy !== undefined && (
        <Spinner>{busy.step === 'preparing' ? words.preparing : text[busy.step]}</Spinner>
      )}
      {message !== undefined && <Explained kind={message.kind} of={message.say()} />}
      <div className="actions">
        {needsApproval(standing) && button('repair', words.panel.approve, 'primary')}
        {standing?.onChain === 'cancelled' &&
          ending &&
          subscription.replacedBy === null &&
          button('resume', text.resume, 'primary')}
        {canSubscribeAgain(standing, subscription) && (
          <a className="button primary" href={`/s/${planId}`}>
            {words.panel.resume}
          </a>
        )}
        {standing?.onChain === 'ended' &&
          button('close', ownsDeposit ? text.close : text.closeOnly)}
        {standing?.onChain === 'live' && button('cancel', text.cancel, 'danger')}
        <Button kind="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? text.hidePayments : text.payments}
        </Button>
        {isChangeable(subscription) && (
          <ChangePlan
            session={session}
            subscription={subscription}
            named={needsApproval(standing) ? standing.replaces?.delegate : undefined}
            onChanged={onChanged}
          />
        )}
      </div>
      {isAsking && (
        <CreditKept
          subscription={subscription}
          onClose={() => setAsking(false)}
          onCancel={() => {
            setAsking(false);
            run('cancel');
          }}
        />
      )}
      {open && <History session={session} subscription={subscription} />}
      {plan !== undefined && <SellerLinks plan={plan} />}
      {open && plan !== undefined && (
        <p className="muted small">
          <Fill
            text={text.paidTo}
            merchant={<Address of={subscription.merchantWallet} label={words.merchantWallet} />}
            subscription={
              <Address of={subscription.subscriptionPda} label={words.subscriptionAddress} />
            }
          />
        </p>
      )}
    </article>
  );
}

/** Whether the wallet has to approve payments again. A frozen wallet cannot. */
const needsApproval = (standing: Standing | undefined): standing is Standing =>
  standing?.onChain === 'live' && standing.approval === 'missing' && !standing.frozen;

/**
 * Returns `standing`, or undefined if the account on chain now belongs to a newer subscription.
 * Then the card of the newer subscription shows the actions for the account.
 */
const ownStanding = (standing: Standing | undefined, { id }: Subscription) =>
  (standing?.subscriptionId ?? id) === id ? standing : undefined;

/**
 * Whether the user can subscribe again with the same account: the service no longer collects
 * payments from the account, and the account is live on chain or cancelled but not expired. The
 * user subscribes again on the plan's page, which shows the costs.
 */
const canSubscribeAgain = (standing: Standing | undefined, { status, replacedBy }: Subscription) =>
  standing !== undefined &&
  (standing.onChain === 'live'
    ? !isLive(status)
    : standing.onChain === 'cancelled' && status !== 'active') &&
  standing.planOpen &&
  !standing.endedByMerchant &&
  replacedBy === null;

const isChangeable = ({ status, replacedBy, cancelRequestedBy }: Subscription) =>
  isLive(status) && replacedBy === null && cancelRequestedBy !== 'merchant';

function State({
  subscription,
  standing,
  lastFailure,
}: {
  subscription: Subscription;
  standing: Standing | undefined;
  lastFailure: Payment['failureReason'];
}): ReactElement {
  const { status, paidThrough, nextPaymentDue, cancelRequestedAt } = subscription;
  const { trialEndsAt, pausedAt, nextAmount, credit, replacedAt } = subscription;
  const text = words.account;
  const inTrial = status === 'active' && trialEndsAt !== null && new Date(trialEndsAt) > new Date();
  // If the last payment failed with `authority_closed` or `authority_replaced`, the notice about
  // this payment already says that the subscription cannot be paid any more. The notice `replaced`
  // is then left out.
  const tellsEnd = status === 'past_due' && /^authority_/.test(lastFailure ?? '');
  const endName = !isLive(status)
    ? text.ended
    : cancelRequestedAt === null
      ? text.paidUntil
      : text.ends;
  // A subscription that cannot be paid any more has no next payment.
  const isPayable = standing?.approval !== 'replaced' && !tellsEnd;
  const line = (name: string, value: ReactNode) => <Line name={name}>{value}</Line>;
  return (
    <>
      <dl className="lines">
        {status === 'active' &&
          isPayable &&
          cancelRequestedAt === null &&
          nextPaymentDue !== null &&
          line(
            text.next,
            <>
              {nextAmount !== null && (
                <>
                  <Usdc units={nextAmount} partOf={subscription.amount} />,{' '}
                </>
              )}
              <Time at={nextPaymentDue} />
            </>,
          )}
        {inTrial && line(text.freeUntil, <Time at={trialEndsAt} />)}
        {credit !== '0' &&
          line(text.creditLeft, <Usdc units={credit} partOf={subscription.amount} />)}
        {replacedAt !== null && line(words.change.replaced, <Time at={replacedAt} />)}
        {pausedAt !== null && line(text.paused, <Time at={pausedAt} dateOnly />)}
        {status === 'past_due' &&
          isPayable &&
          nextPaymentDue !== null &&
          line(text.wasDue, <Time at={nextPaymentDue} />)}
        {paidThrough !== null && replacedAt === null && line(endName, <Time at={paidThrough} />)}
        {line(text.since, <Time at={subscription.createdAt} dateOnly />)}
      </dl>
      {status === 'past_due' && (
        <Notice kind="warning" title={text.lastFailed}>
          {words.unpaid[lastFailure ?? 'unknown']}
        </Notice>
      )}
      {standing?.onChain === 'live' && standing.frozen && lastFailure !== 'account_frozen' && (
        <Notice kind="warning">{words.unpaid.account_frozen}</Notice>
      )}
      {needsApproval(standing) && !(status === 'past_due' && lastFailure === 'account_closed') && (
        <NotApproved standing={standing} />
      )}
      {standing?.onChain === 'live' && standing.approval === 'replaced' && !tellsEnd && (
        <Notice kind="warning" title={words.panel.replaced}>
          {text.replacedText}
        </Notice>
      )}
    </>
  );
}
