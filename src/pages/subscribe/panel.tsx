import { type ReactElement, type ReactNode, useEffect, useRef } from 'react';
import { fill } from '../../words/fill.ts';
import { Fill } from '../shared/fill.tsx';
import { clusterName } from '../shared/installation.ts';
import { words } from '../shared/language.ts';
import { formatExact, formatToCent } from '../shared/money.ts';
import { NotApproved, OtherApproval } from '../shared/other-approval.tsx';
import { Address, Button, Explained, Notice, Spinner } from '../shared/parts.tsx';
import { perPeriod, span } from '../shared/period.ts';
import type { Checkout, PublicPlan, Session, Standing } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { WalletChoice } from '../shared/wallet-choice.tsx';
import { useWallets } from '../shared/wallets.ts';
import { Done } from './done.tsx';
import type { Flow } from './flow.ts';
import { textOf } from './problems.ts';
import { Short } from './short.tsx';
import { STAGES } from './sponsored.ts';
import type { Step, View } from './view.ts';

/**
 * Returns why the plan or the checkout session accepts no subscribers, or undefined if it accepts
 * them.
 */
export function closedWhy(
  { available, status, blocked }: PublicPlan,
  checkout: Checkout | undefined,
): string | undefined {
  if (checkout !== undefined && checkout.status !== 'open') return words.panel[checkout.status];
  if (!available) return words.panel.suspended;
  if (status !== 'active') return words.panel[status];
  return blocked ? words.panel.blocked : undefined;
}

/** The right side of the page, with the user's next action. */
export function Panel({
  plan,
  checkout,
  closed: why,
  flow,
}: {
  plan: PublicPlan;
  checkout: Checkout | undefined;
  closed: string | undefined;
  flow: Flow;
}): ReactElement {
  const wallets = useWallets();
  const { view, session } = flow;
  // Without the summary, which is hidden for a suspended merchant, this is the page's first
  // heading.
  const Heading = plan.available ? 'h2' : 'h1';
  const screen = useRef<HTMLDivElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // The focus moves to the new screen, so that a screen reader starts reading there.
    if (!first.current) screen.current?.focus();
    first.current = false;
  }, [view.at]);

  return (
    <div className="panel" ref={screen} tabIndex={-1}>
      {why !== undefined && view.at === 'offer' ? (
        <>
          <Heading>
            {checkout?.status === 'complete' ? words.panel.completeTitle : words.panel.unavailable}
          </Heading>
          <Notice kind={checkout?.status === 'complete' ? 'success' : 'info'}>{why}</Notice>
          {checkout?.status === 'complete' && <Back to={checkout.successUrl} plan={plan} />}
          <p>
            <a href="/account">{words.panel.seeMine}</a>
          </p>
        </>
      ) : (
        <Screen plan={plan} checkout={checkout} flow={flow}>
          <WalletChoice
            verb="subscribe"
            role="subscriber"
            wallets={wallets}
            onChoose={flow.start}
          />
        </Screen>
      )}
      {!['closed', 'done'].includes(view.at) && why === undefined && (
        <Promises plan={plan} isChange={(checkout?.change ?? null) !== null} />
      )}
      {view.at !== 'done' && checkout?.status !== 'complete' && (
        <Back to={checkout?.cancelUrl ?? null} plan={plan} />
      )}
      {session !== undefined && <SignedInAs session={session} />}
    </div>
  );
}

function Screen({
  plan,
  checkout,
  flow,
  children,
}: {
  plan: PublicPlan;
  checkout: Checkout | undefined;
  flow: Flow;
  children: ReactNode;
}): ReactElement {
  const { view, session } = flow;
  const text = words.panel;
  const isChange = (checkout?.change ?? null) !== null;
  const retry = (label: string) =>
    session === undefined ? (
      children
    ) : (
      <Button kind="primary" onClick={flow.again}>
        {label}
      </Button>
    );
  switch (view.at) {
    case 'offer':
      return (
        <>
          <h2>{text.pay}</h2>
          {retry(text.subscribe)}
        </>
      );
    case 'busy':
      return (
        <>
          <h2>{text.pay}</h2>
          <Spinner>{fill(words.step[view.step], { wallet: foreign(view.wallet, 40) })}</Spinner>
          <Progress step={view.step} />
          {['connect', 'signIn', 'sign', 'look'].includes(view.step) && (
            <Button onClick={flow.stop}>{words.stopWaiting}</Button>
          )}
        </>
      );
    case 'problem': {
      const problem = textOf(view);
      return (
        <>
          <h2>{text.pay}</h2>
          <Explained kind={problem.kind} title={problem.title} of={problem} />
          {retry(words.tryAgain)}
        </>
      );
    }
    case 'wrongNetwork':
      return (
        <>
          <h2>{text.otherNetwork}</h2>
          <Notice
            kind="warning"
            title={fill(text.notOn, { wallet: foreign(view.wallet, 40), network: clusterName })}
          >
            {fill(text.switchNetwork, { network: clusterName })}
          </Notice>
          {children}
        </>
      );
    case 'switched':
      return (
        <>
          <h2>{text.switched}</h2>
          <Notice kind="info">{text.switchedText}</Notice>
          {children}
        </>
      );
    case 'closed':
      return (
        <>
          <h2>{text.cannot}</h2>
          <Notice kind="warning">{text[view.why]}</Notice>
          {view.why === 'planBlocked' && retry(words.tryAgain)}
          {['ownWallet', 'frozen'].includes(view.why) && children}
          {['endedByMerchant', 'planClosed', 'second'].includes(view.why) && (
            <p>
              <a href="/account">{text.seeMine}</a>
            </p>
          )}
        </>
      );
    case 'otherTerms':
      return (
        <>
          <h2>{isChange ? words.change.title : text.otherTerms}</h2>
          <Notice kind={isChange ? 'info' : 'warning'}>{termsFor(plan, view.standing)}</Notice>
          {retry(text.subscribe)}
        </>
      );
    case 'unregistered':
      return (
        <>
          <h2>{text.open}</h2>
          <Notice kind="warning">
            {view.standing.usdcNeeded === '0'
              ? text.openFree
              : fill(text.openText, { amount: formatToCent(view.standing.usdcNeeded) })}
          </Notice>
          {retry(
            view.standing.usdcNeeded === '0'
              ? text.openRegister
              : fill(text.openPay, { amount: formatToCent(view.standing.usdcNeeded) }),
          )}
        </>
      );
    case 'otherApproval':
      return (
        <>
          <h2>{text.otherApproval}</h2>
          <Notice kind="warning">
            <OtherApproval approval={view.approval} text={text.otherApprovalText} />
          </Notice>
          {retry(text.subscribe)}
        </>
      );
    case 'short':
      return session === undefined ? (
        <>{children}</>
      ) : (
        <Short {...view} session={session} flow={flow} />
      );
    case 'subscribed':
      return (
        <Subscribed {...view} flow={flow}>
          {children}
        </Subscribed>
      );
    case 'done':
      return (
        <Done
          plan={plan}
          session={view.session}
          subscription={view.subscription}
          successUrl={checkout?.successUrl ?? null}
        />
      );
  }
}

/** Shows how far a sponsored transaction has come. Shows nothing before it was sent. */
function Progress({ step }: { step: Step }): ReactElement {
  const reached = STAGES.findIndex((stage) => stage === step);
  if (reached === -1) return <></>;
  return (
    <ol className="stages">
      {STAGES.map((stage, index) => (
        <li
          key={stage}
          className={index <= reached ? 'reached' : ''}
          aria-current={index === reached ? 'step' : undefined}
        >
          {words.stage[stage]}
        </li>
      ))}
    </ol>
  );
}

/** Explains why the wallet's terms differ from the plan's terms, and what the wallet pays today. */
function termsFor(plan: PublicPlan, standing: Standing): ReactNode {
  const { trialHours, usdcNeeded, change, onChain, endsAt } = standing;
  const text = words.panel;
  const amount = formatToCent(usdcNeeded);
  if (change !== null) return words.change.terms;
  if (trialHours !== null) return fill(text.hasTrial, { span: span(trialHours) });
  if (onChain === 'cancelled' && endsAt !== null) {
    const date = <Time at={endsAt} />;
    return usdcNeeded === '0' ? (
      <Fill text={text.runsPaid} date={date} />
    ) : (
      <Fill text={text.runs} date={date} amount={amount} />
    );
  }
  return fill(plan.trialHours === null ? text.otherToday : text.noTrial, { amount });
}

/**
 * Links back to the merchant's site. The service allows only URLs whose origin is in the app's
 * settings.
 */
function Back({ to, plan }: { to: string | null; plan: PublicPlan }): ReactElement {
  const url = safeUrl(to);
  if (url === undefined) return <></>;
  return (
    <p>
      <a href={url}>
        <Fill text={words.panel.backTo} app={<bdi>{foreign(plan.appName, 80)}</bdi>} />
      </a>
    </p>
  );
}

function Subscribed({
  standing,
  note,
  unpaid,
  flow,
  children,
}: Pick<Extract<View, { at: 'subscribed' }>, 'standing' | 'note' | 'unpaid'> & {
  flow: Flow;
  /** Shown after the wallet has switched to another account. */
  children: ReactNode;
}): ReactElement {
  const { onChain, subscriptionId, endsAt } = standing;
  // A frozen account can neither approve nor pay, so the page says nothing else about its approval.
  const frozen = standing.frozen && standing.approval !== 'replaced';
  const approval = frozen ? 'none' : standing.approval;
  const text = words.panel;
  const restore = (how: 'repair' | 'resume', label: string) =>
    subscriptionId !== null &&
    flow.session !== undefined && (
      <Button kind="primary" onClick={() => flow.restore(standing, how)}>
        {label}
      </Button>
    );
  return (
    <>
      <h2>{text.already}</h2>
      {note !== undefined && <Notice kind="success">{text[note]}</Notice>}
      {onChain === 'cancelled' && (
        <>
          <Notice kind="warning" title={text.cancelled}>
            {endsAt !== null && <Fill text={text.runsUntil} date={<Time at={endsAt} />} />}
          </Notice>
          {restore('resume', text.resume)}
        </>
      )}
      {onChain === 'live' && frozen && (
        <Notice kind="warning">{words.unpaid.account_frozen}</Notice>
      )}
      {onChain === 'live' && approval === 'missing' && (
        <>
          <NotApproved standing={standing} />
          {restore('repair', text.approve)}
        </>
      )}
      {onChain === 'live' && approval === 'replaced' && (
        <Notice kind="warning" title={text.replaced}>
          {text.replacedText}
        </Notice>
      )}
      {onChain === 'live' && approval === 'given' && unpaid !== undefined && (
        <Notice kind="warning" title={words.account.lastFailed}>
          {words.unpaid[unpaid]}
        </Notice>
      )}
      {onChain === 'live' && approval === 'given' && (note ?? unpaid) === undefined && (
        <Notice kind="success">{text.allGood}</Notice>
      )}
      <p>
        <a href="/account">{text.manage}</a>
      </p>
      {flow.session === undefined && children}
    </>
  );
}

/** Explains what the approval permits and how to cancel. */
function Promises({ plan, isChange }: { plan: PublicPlan; isChange: boolean }): ReactElement {
  // A change of plan may leave a credit, which stays after a later cancellation.
  const cancelText = isChange ? words.panel.cancelTextCredit : words.panel.cancelText;
  return (
    <ul className="promises">
      <li>
        <strong>{words.panel.promise}</strong>{' '}
        {fill(words.panel.promiseText, {
          amount: formatExact(plan.amount),
          period: perPeriod(plan.periodHours),
        })}
      </li>
      <li>
        <strong>{words.panel.cancelAny}</strong>{' '}
        <Fill text={cancelText} link={<a href="/account">{words.mySubscriptions}</a>} />
      </li>
    </ul>
  );
}

function SignedInAs({ session }: { session: Session }): ReactElement {
  return (
    <p className="muted small">
      <Fill
        text={words.panel.signedInAs}
        address={<Address of={session.address} label={words.yourAddress} />}
        wallet={<bdi>{foreign(session.wallet.name, 40)}</bdi>}
      />{' '}
      <Button kind="link" onClick={session.end}>
        {words.useAnother}
      </Button>
    </p>
  );
}
