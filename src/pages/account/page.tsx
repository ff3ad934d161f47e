// /account: a wallet's subscriptions to all merchants of this installation.
import { type ReactElement, useCallback } from 'react';
import { LanguageSwitch } from '../shared/language-switch.tsx';
import { words } from '../shared/language.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Address, Button } from '../shared/parts.tsx';
import { Report } from '../shared/report.tsx';
import type { Session } from '../shared/session.ts';
import { Brand, SignIn, useSession } from '../shared/sign-in.tsx';
import { ZoneSwitch } from '../shared/zone-switch.tsx';
import { SubscriptionCard } from './subscription-card.tsx';

export function AccountPage(): ReactElement {
  const place = useSession('subscriber');
  const { session } = place;
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
          place={place}
        />
      ) : (
        <Subscriptions session={session} />
      )}
    </>
  );
}

function Subscriptions({ session }: { session: Session }): ReactElement {
  const open = useCallback(() => session.client.pages('/subscriber/subscriptions'), [session]);
  const list = usePages(open);
  return (
    <main className="column">
      <h1>{words.account.heading}</h1>
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
          <SubscriptionCard key={subscription.id} session={session} initial={subscription} />
        ))}
      </ListOf>
      <footer className="muted small">
        <Report />
      </footer>
    </main>
  );
}
