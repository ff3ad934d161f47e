import { type ReactElement, type ReactNode, useEffect, useRef } from 'react';
import { Fill } from '../shared/fill.tsx';
import { clusterName } from '../shared/installation.ts';
import { fill, words } from '../shared/language.ts';
import { formatExact } from '../shared/money.ts';
import { Address, Button, Notice, Spinner } from '../shared/parts.tsx';
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

/**
 * Returns why the plan accepts no subscribers. Returns undefined when the plan accepts subscribers.
 */
function closedWhy({ available, status, blocked }: PublicPlan): string | undefined {
  if (!available) return words.panel.suspended;
  if (status !== 'active') return words.panel[status];
  return blocked ? words.panel.blocked : undefined;
}

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
    checkout === undefined || checkout.status === 'open' ? undefined : words.panel[checkout.status];
  const why = over ?? closedWhy(plan);

  return (
    <div className="panel" ref={place} tabIndex={-1}>
      {why !== undefined && view.at === 'offer' ? (
        <>
          <h2>{words.panel.unavailable}</h2>
          <Notice kind="info">{why}</Notice>
          {checkout?.status === 'complete' && <Back to={checkout.successUrl} plan={plan} />}
          <p>
            <a href="/account">{words.panel.seeMine}</a>
          </p>
        </>
      ) : (
        <Screen plan={plan} flow={flow} successUrl={checkout?.successUrl ?? null}>
          <WalletChoice
            verb="subscribe"
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
  const text = words.panel;
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
          {['connect', 'signIn', 'sign'].includes(view.step) && (
            <Button onClick={flow.stop}>{words.stopWaiting}</Button>
          )}
        </>
      );
    case 'problem': {
      const problem = textOf(view);
      return (
        <>
          <h2>{text.pay}</h2>
          <Notice kind={problem.kind} title={problem.title}>
            {problem.text}
          </Notice>
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
          {children}
        </>
      );
    case 'otherTerms':
      return (
        <>
          <h2>{text.otherTerms}</h2>
          <Notice kind="warning">{termsFor(view.standing)}</Notice>
          {retry(text.subscribe)}
        </>
      );
    case 'short':
      return session === undefined ? (
        <></>
      ) : (
        <Short standing={view.standing} session={session} flow={flow} />
      );
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
    ? fill(words.panel.noTrial, { amount: formatExact(usdcNeeded) })
    : fill(words.panel.hasTrial, { span: span(trialHours) });
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
  flow,
}: {
  standing: Standing;
  note: 'approved' | 'resumed' | undefined;
  flow: Flow;
}): ReactElement {
  const { onChain, approval, subscriptionId, endsAt } = standing;
  const text = words.panel;
  const restore = (how: 'repair' | 'resume', label: string) =>
    subscriptionId !== null && (
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
      {onChain === 'live' && approval === 'missing' && (
        <>
          <Notice kind="warning" title={text.notApproved}>
            {text.notApprovedText}
          </Notice>
          {restore('repair', text.approve)}
        </>
      )}
      {onChain === 'live' && approval === 'replaced' && (
        <Notice kind="warning" title={text.replaced}>
          {text.replacedText}
        </Notice>
      )}
      {onChain === 'live' && approval === 'given' && note === undefined && (
        <Notice kind="success">{text.allGood}</Notice>
      )}
      <p>
        <a href="/account">{text.manage}</a>
      </p>
    </>
  );
}

/** Explains what the approval permits and how to cancel. */
function Promises({ plan }: { plan: PublicPlan }): ReactElement {
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
        <Fill text={words.panel.cancelText} link={<a href="/account">{words.mySubscriptions}</a>} />
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
