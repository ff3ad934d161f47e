// /account: a wallet's subscriptions to all merchants of this installation.
import { type ReactElement, type ReactNode, useCallback, useState } from 'react';
import { LanguageSwitch } from '../shared/language-switch.tsx';
import { words } from '../shared/language.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Address, Button, Notice } from '../shared/parts.tsx';
import { Report } from '../shared/report.tsx';
import type { Session } from '../shared/session.ts';
import { Brand, SignIn, Switched, useSession } from '../shared/sign-in.tsx';
import { isLive } from '../shared/status.ts';
import { ZoneSwitch } from '../shared/zone-switch.tsx';
import { Approval } from './approval.tsx';
import { SubscriptionCard } from './subscription-card.tsx';

export function AccountPage(): ReactElement {
  const signIn = useSession('subscriber');
  const { session } = signIn;
  return (
    <>
      <header className="top">
        <a className="brand" href="/account">
          <Brand text={words.mySubscriptions} />
        </a>
        <span className="actions">
          <LanguageSwitch />
          {session !== undefined && (
            <>
              <ZoneSwitch />
              <Address of={session.address} label={words.yourAddress} />
              <Button kind="link" onClick={session.end}>
                {words.signOut}
              </Button>
            </>
          )}
        </span>
      </header>
      {session === undefined ? (
        <SignIn
          role="subscriber"
          title={words.account.title}
          text={words.account.text}
          place={signIn}
        >
          <Footer />
        </SignIn>
      ) : (
        <Subscriptions session={session}>
          <Switched place={signIn} />
        </Subscriptions>
      )}
    </>
  );
}

function Subscriptions({
  session,
  children,
}: {
  session: Session;
  children: ReactNode;
}): ReactElement {
  const open = useCallback(() => session.client.pages('/subscriber/subscriptions'), [session]);
  const list = usePages(open);
  const { refresh } = list;
  // The service reports the wallet's approval only for a subscription whose account is on chain. A
  // live subscription is therefore preferred.
  const first = list.rows.find(({ status }) => isLive(status)) ?? list.rows[0];
  const [isChanged, setChanged] = useState(false);
  const changed = useCallback(() => {
    setChanged(true);
    refresh();
  }, [refresh]);
  return (
    <main className="column">
      <h1>{words.account.heading}</h1>
      {children}
      {isChanged && <Notice kind="success">{words.change.changed}</Notice>}
      <ListOf
        list={list}
        empty={
          <>
            <strong>{words.account.none}</strong>
            <span>{words.account.noneText}</span>
          </>
        }
      >
        {list.rows.map((subscription) => (
          <SubscriptionCard
            key={`${subscription.id} ${subscription.updatedAt}`}
            session={session}
            initial={subscription}
            onChanged={changed}
          />
        ))}
      </ListOf>
      {first !== undefined && (
        <Approval
          session={session}
          subscription={first}
          hasCredit={list.rows.some(({ credit }) => credit !== '0')}
        />
      )}
      <Footer />
    </main>
  );
}

function Footer(): ReactElement {
  return (
    <footer className="muted small">
      <Report />
    </footer>
  );
}
