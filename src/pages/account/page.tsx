// /account: a wallet's subscriptions to all merchants of this installation.
import { type ReactElement, useCallback } from 'react';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Address, Button } from '../shared/parts.tsx';
import { Report } from '../shared/report.tsx';
import type { Session } from '../shared/session.ts';
import { Brand, SignIn, useSession } from '../shared/sign-in.tsx';
import { ZoneSwitch } from '../shared/time.tsx';
import { SubscriptionCard } from './subscription-card.tsx';

export function AccountPage(): ReactElement {
  const place = useSession('subscriber');
  const { session } = place;
  return (
    <>
      <header className="top">
        <a className="brand" href="/account">
          <Brand text="My subscriptions" />
        </a>
        {session !== undefined && (
          <span className="actions">
            <ZoneSwitch />
            <Address of={session.address} label="your address" />
            <Button kind="link" onClick={session.end}>
              Sign out
            </Button>
          </span>
        )}
      </header>
      {session === undefined ? (
        <SignIn
          role="subscriber"
          title="See and manage your subscriptions"
          text="Sign in with the wallet that pays for them. Signing in costs nothing and moves no money."
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
      <h1>Your subscriptions</h1>
      <ListOf
        list={list}
        empty={
          <>
            <strong>No subscriptions yet</strong>
            <span>
              Subscriptions of this wallet appear here. If you pay with another wallet, sign in with
              that one.
            </span>
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
