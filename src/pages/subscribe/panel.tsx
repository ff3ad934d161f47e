import { type ReactElement, type ReactNode, useEffect, useRef } from 'react';
import { clusterName } from '../shared/installation.ts';
import { formatExact } from '../shared/money.ts';
import { Address, Button, Notice, Spinner } from '../shared/parts.tsx';
import { perPeriod, span } from '../shared/period.ts';
import type { Checkout, PublicPlan, Session, Standing } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { WalletChoice } from '../shared/wallet-choice.tsx';
import { useWallets } from '../shared/wallets.ts';
import { Done } from './done.tsx';
import type { Flow, Step } from './flow.ts';
import { Short } from './short.tsx';

const closed: Readonly<Record<string, string>> = {
  pending: 'The merchant has not published this plan yet. Come back later.',
  sunset: 'This plan takes no new subscriptions. Those that it has go on.',
  ended: 'This plan has ended.',
};

const overs = {
  complete: 'This checkout is complete. It cannot be used twice.',
  expired: 'This checkout has expired. Ask the merchant for a new link.',
};

const steps: Readonly<Record<Step, string>> = {
  connect: 'Connect in {wallet}…',
  signIn: 'Sign in with {wallet}. This costs nothing.',
  check: 'Reading your balances…',
  sign: 'Confirm the subscription in {wallet}…',
  send: 'Sending your transaction…',
  confirm: 'Waiting for the network to confirm…',
};

/** The right side of the page, with the user's next action. */
export function Panel({
  plan,
  checkout,
  flow,
}: {
  plan: PublicPlan;
  checkout: Checkout | undefined;
  flow: Flow;
}): ReactElement {
  const wallets = useWallets();
  const { view, session } = flow;
  const place = useRef<HTMLDivElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // The focus moves to the new screen, so that a screen reader starts reading there.
    if (!first.current) place.current?.focus();
    first.current = false;
  }, [view.at]);
  const over =
    checkout === undefined || checkout.status === 'open' ? undefined : overs[checkout.status];
  const why = over ?? closed[plan.status];

  return (
    <div className="panel" ref={place} tabIndex={-1}>
      {why !== undefined && view.at === 'offer' ? (
        <>
          <h2>Not available</h2>
          <Notice kind="info">{why}</Notice>
          {checkout?.status === 'complete' && <Back to={checkout.successUrl} plan={plan} />}
          <p>
            <a href="/account">See my subscriptions</a>
          </p>
        </>
      ) : (
        <Screen plan={plan} flow={flow} successUrl={checkout?.successUrl ?? null}>
          <WalletChoice
            verb="Subscribe"
            role="subscriber"
            wallets={wallets}
            onChoose={flow.start}
          />
        </Screen>
      )}
      {view.at !== 'done' && why === undefined && <Promises plan={plan} />}
      {view.at !== 'done' && checkout?.status !== 'complete' && (
        <Back to={checkout?.cancelUrl ?? null} plan={plan} />
      )}
      {session !== undefined && <SignedInAs session={session} />}
    </div>
  );
}

function Screen({
  plan,
  flow,
  successUrl,
  children,
}: {
  plan: PublicPlan;
  flow: Flow;
  successUrl: string | null;
  children: ReactNode;
}): ReactElement {
  const { view, session } = flow;
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
          <h2>Pay with USDC</h2>
          {retry('Subscribe')}
        </>
      );
    case 'busy':
      return (
        <>
          <h2>Pay with USDC</h2>
          <Spinner>{steps[view.step].replace('{wallet}', foreign(view.wallet, 40))}</Spinner>
          {['connect', 'signIn', 'sign'].includes(view.step) && (
            <Button onClick={flow.stop}>Stop waiting</Button>
          )}
        </>
      );
    case 'problem':
      return (
        <>
          <h2>Pay with USDC</h2>
          <Notice kind={view.kind} title={view.title}>
            {view.text}
          </Notice>
          {retry('Try again')}
        </>
      );
    case 'wrongNetwork':
      return (
        <>
          <h2>Another network</h2>
          <Notice kind="warning" title={`${foreign(view.wallet, 40)} is not on ${clusterName}.`}>
            Switch the wallet to {clusterName} in its settings, or use another wallet.
          </Notice>
          {children}
        </>
      );
    case 'switched':
      return (
        <>
          <h2>You switched accounts</h2>
          <Notice kind="info">
            Your wallet shows this page another account now. Nothing was paid.
          </Notice>
          {children}
        </>
      );
    case 'closed':
      return (
        <>
          <h2>You cannot subscribe</h2>
          <Notice kind="warning">{view.why}</Notice>
          {children}
        </>
      );
    case 'otherTerms':
      return (
        <>
          <h2>Other terms for this wallet</h2>
          <Notice kind="warning">{termsFor(view.standing)} Nothing was paid.</Notice>
          {retry('Subscribe')}
        </>
      );
    case 'short':
      return <Short standing={view.standing} again={flow.again} />;
    case 'subscribed':
      return <Subscribed standing={view.standing} note={view.note} flow={flow} />;
    case 'done':
      return session === undefined ? (
        <></>
      ) : (
        <Done
          plan={plan}
          session={session}
          subscription={view.subscription}
          successUrl={successUrl}
        />
      );
  }
}

function termsFor({ trialHours, usdcNeeded }: Standing): string {
  return trialHours === null
    ? `It gets no free trial: ${formatExact(usdcNeeded)} USDC are paid when you subscribe.`
    : `It gets a free trial of ${span(trialHours)}. The first payment is taken after it.`;
}

/** Links back to the merchant's site. The origin of the URL is one that the merchant entered. */
function Back({ to, plan }: { to: string | null; plan: PublicPlan }): ReactElement {
  const url = safeUrl(to);
  if (url === undefined) return <></>;
  return (
    <p>
      <a href={url}>
        Back to <bdi>{foreign(plan.appName, 80)}</bdi>
      </a>
    </p>
  );
}

function Subscribed({
  standing,
  note,
  flow,
}: {
  standing: Standing;
  note: string | undefined;
  flow: Flow;
}): ReactElement {
  const { onChain, approval, subscriptionId, endsAt } = standing;
  const restore = (how: 'repair' | 'resume', label: string) =>
    subscriptionId !== null && (
      <Button kind="primary" onClick={() => flow.restore(standing, how)}>
        {label}
      </Button>
    );
  return (
    <>
      <h2>You are subscribed already</h2>
      {note !== undefined && <Notice kind="success">{note}</Notice>}
      {onChain === 'cancelled' && (
        <>
          <Notice kind="warning" title="You have cancelled.">
            {endsAt !== null && (
              <>
                It runs until <Time at={endsAt} />. After that you can subscribe again.
              </>
            )}
          </Notice>
          {restore('resume', 'Resume the subscription')}
        </>
      )}
      {onChain === 'live' && approval === 'missing' && (
        <>
          <Notice kind="warning" title="Payments are not approved.">
            Your wallet took its approval back. The next payment will fail unless you approve again.
          </Notice>
          {restore('repair', 'Approve payments again')}
        </>
      )}
      {onChain === 'live' && approval === 'replaced' && (
        <Notice kind="warning" title="This subscription cannot be paid any more.">
          Your wallet replaced the approval that it was made with. Cancel it under “My
          subscriptions”, then subscribe again.
        </Notice>
      )}
      {onChain === 'live' && approval === 'given' && note === undefined && (
        <Notice kind="success">This wallet has this plan. There is nothing to do.</Notice>
      )}
      <p>
        <a href="/account">Manage it under My subscriptions</a>
      </p>
    </>
  );
}

/** Explains what the approval permits and how to cancel. */
function Promises({ plan }: { plan: PublicPlan }): ReactElement {
  return (
    <ul className="promises">
      <li>
        <strong>What you approve.</strong> The Subscriptions program on Solana may move at most{' '}
        {formatExact(plan.amount)} USDC {perPeriod(plan.periodHours)} for this plan, to the merchant
        and this service only. Your wallet may show the approval as unlimited: the program holds the
        limit.
      </li>
      <li>
        <strong>Cancel any time</strong> under <a href="/account">My subscriptions</a>. You keep
        what you have paid for. Refunds are the merchant’s to give.
      </li>
    </ul>
  );
}

function SignedInAs({ session }: { session: Session }): ReactElement {
  return (
    <p className="muted small">
      Signed in as <Address of={session.address} label="your address" /> with{' '}
      <bdi>{foreign(session.wallet.name, 40)}</bdi>{' '}
      <Button kind="link" onClick={session.end}>
        Use another wallet
      </Button>
    </p>
  );
}
