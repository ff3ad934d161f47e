// /dashboard: a merchant's apps, plans, subscriptions, payments, keys and webhooks.
import { type ReactElement, useCallback, useEffect, useRef, useState } from 'react';
import { isCode, wordsOf } from '../shared/errors.ts';
import { Address, Button, Notice, Spinner } from '../shared/parts.tsx';
import type { Session } from '../shared/session.ts';
import { Brand, SignIn, useSession } from '../shared/sign-in.tsx';
import { foreign } from '../shared/text.ts';
import { FirstApp, NewApp } from './apps.tsx';
import { ApiKeys } from './api-keys.tsx';
import { Delivery } from './delivery.tsx';
import { Overview } from './overview.tsx';
import { Payments } from './payments.tsx';
import { Plans } from './plans.tsx';
import type { App, Place } from './place.ts';
import { useHash } from './place.ts';
import { Settings } from './settings.tsx';
import { Subscription } from './subscription.tsx';
import { Subscriptions } from './subscriptions.tsx';
import { Webhook } from './webhook.tsx';

const views = [
  ['', 'Overview'],
  ['plans', 'Plans & links'],
  ['subscriptions', 'Subscriptions'],
  ['payments', 'Payments'],
  ['webhook', 'Webhook'],
  ['keys', 'API keys'],
  ['settings', 'Settings'],
] as const;

export function DashboardPage(): ReactElement {
  const { session, note, begin, end } = useSession();
  if (session === undefined)
    return (
      <>
        <header className="top">
          <a className="brand" href="/dashboard">
            <Brand text="billing" />
          </a>
        </header>
        <SignIn
          role="merchant"
          title="Your dashboard"
          text="Sign in with the wallet that receives your payments. The first sign-in makes your account."
          note={note}
          onSession={begin}
        />
      </>
    );
  return <SignedIn session={session} end={end} />;
}

function SignedIn({
  session,
  end,
}: {
  session: Session;
  end: (note?: string) => void;
}): ReactElement {
  const [apps, setApps] = useState<App[]>();
  const [appId, setAppId] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [making, setMaking] = useState(false);

  const load = useCallback(async () => {
    try {
      const found: App[] = [];
      for await (const app of session.client.list('/merchant/apps', { query: { limit: 100 } }))
        found.push(app);
      setApps(found);
      setError(undefined);
    } catch (failure) {
      setError(failure);
    }
  }, [session]);
  useEffect(() => void load(), [load]);

  if (error !== undefined && isCode(error, 'UNAUTHORIZED'))
    return (
      <main className="boot">
        <Notice kind="info">You were signed out after an hour.</Notice>
        <Button kind="primary" onClick={() => end()}>
          Sign in again
        </Button>
      </main>
    );
  if (apps === undefined)
    return (
      <main className="boot">
        {error === undefined ? (
          <Spinner>Loading your apps…</Spinner>
        ) : (
          <>
            <Notice kind="error">{wordsOf(error)}</Notice>
            <Button kind="primary" onClick={() => void load()}>
              Try again
            </Button>
          </>
        )}
      </main>
    );
  const made = (app: App) => {
    setApps([app, ...apps]);
    setAppId(app.id);
    setMaking(false);
  };
  const app = apps.find(({ id }) => id === appId) ?? apps[0];
  if (app === undefined) return <FirstApp session={session} onMade={made} />;
  return (
    <>
      <Shell
        place={{ session, app }}
        apps={apps}
        onApp={setAppId}
        onNew={() => setMaking(true)}
        onChanged={() => void load()}
        end={end}
      />
      {making && <NewApp session={session} onMade={made} onClose={() => setMaking(false)} />}
    </>
  );
}

function Shell({
  place,
  apps,
  onApp,
  onNew,
  onChanged,
  end,
}: {
  place: Place;
  apps: readonly App[];
  onApp: (id: string) => void;
  onNew: () => void;
  onChanged: () => void;
  end: () => void;
}): ReactElement {
  const [view = '', id] = useHash();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [view, id]);
  return (
    <div className="shell">
      <header className="side">
        <span className="brand">
          <Brand text="billing" />
        </span>
        <label className="small">
          <span className="visually-hidden">App</span>
          <select
            value={place.app.id}
            onChange={({ target }) => (target.value === '' ? onNew() : onApp(target.value))}
          >
            {apps.map((app) => (
              <option key={app.id} value={app.id}>
                {foreign(app.name, 60)}
              </option>
            ))}
            <option value="">New app…</option>
          </select>
        </label>
        <nav aria-label="Dashboard">
          {views.map(([name, text]) => (
            <a key={name} href={`#/${name}`} aria-current={view === name ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <div className="foot muted">
          <Address of={place.session.address} label="your wallet" />
          <a href="/docs">API reference</a>
          <Button kind="link" onClick={() => end()}>
            Sign out
          </Button>
        </div>
      </header>
      <main className="view" ref={main} tabIndex={-1} key={place.app.id}>
        <View place={place} view={view} id={id} onChanged={onChanged} />
      </main>
    </div>
  );
}

function View({
  place,
  view,
  id,
  onChanged,
}: {
  place: Place;
  view: string;
  id: string | undefined;
  onChanged: () => void;
}): ReactElement {
  switch (view) {
    case 'plans':
      return <Plans place={place} />;
    case 'subscriptions':
      return id === undefined ? (
        <Subscriptions place={place} />
      ) : (
        <Subscription key={id} place={place} id={id} />
      );
    case 'payments':
      return <Payments place={place} />;
    case 'webhook':
      return id === undefined ? (
        <Webhook place={place} />
      ) : (
        <Delivery key={id} place={place} reference={id} />
      );
    case 'keys':
      return <ApiKeys place={place} />;
    case 'settings':
      return <Settings place={place} onChanged={onChanged} />;
    default:
      return <Overview place={place} />;
  }
}
