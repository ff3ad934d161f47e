// /dashboard: a merchant's apps, plans, subscriptions, payments, keys and webhooks.
import { type ReactElement, useCallback, useEffect, useRef, useState } from 'react';
import { wordsOf } from '../shared/errors.ts';
import { Address, Button, Notice, Spinner } from '../shared/parts.tsx';
import type { Session } from '../shared/session.ts';
import { Brand, SignIn, Switched, useSession } from '../shared/sign-in.tsx';
import { foreign } from '../shared/text.ts';
import { ZoneSwitch } from '../shared/zone-switch.tsx';
import { CustomerView } from './customers/customer-view.tsx';
import { Search, SearchBox } from './customers/search.tsx';
import { type App, type AppContext, useHash } from './parts/app-context.ts';
import { formatHash, type Hash } from './parts/hash.ts';
import { Overview } from './payments/overview.tsx';
import { Payment } from './payments/payment.tsx';
import { Payments } from './payments/payments.tsx';
import { Statements } from './payments/statements.tsx';
import { FirstApp, NewApp } from './plans/apps.tsx';
import { Links } from './plans/links.tsx';
import { Plans } from './plans/plans.tsx';
import { ApiKeys } from './settings/api-keys.tsx';
import { Settings } from './settings/settings.tsx';
import { AttentionBanner, NavLink, useAttention } from './subscriptions/attention.tsx';
import { Subscription } from './subscriptions/subscription.tsx';
import { Subscriptions } from './subscriptions/subscriptions.tsx';
import { Delivery } from './webhook/delivery.tsx';
import { Event } from './webhook/event.tsx';
import { Events } from './webhook/events.tsx';
import { Webhook } from './webhook/webhook.tsx';

const views = [
  ['', 'Overview', 'M2 13.5h12M4 11V7.5M8 11V3M12 11V5.5'],
  ['plans', 'Plans', 'M2.5 4.5 8 2l5.5 2.5L8 7ZM2.5 8 8 10.5 13.5 8M2.5 11.5 8 14l5.5-2.5'],
  [
    'links',
    'Checkout links',
    'M6.5 9.5l3-3M7 4.5l1.6-1.6a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5l-1.6 1.6a2.8 2.8 0 0 1-4-4L5 7.5',
  ],
  [
    'subscriptions',
    'Subscriptions',
    'M3 6.5A5.3 5.3 0 0 1 12.5 5M13 9.5A5.3 5.3 0 0 1 3.5 11M12.8 2.5V5h-2.5M3.2 13.5V11h2.5',
  ],
  ['payments', 'Payments', 'M2 4.5h12v7.5H2ZM2 7.2h12M4.5 9.7h2.5'],
  ['statements', 'Statements', 'M4 2h8v12H4ZM6.5 5.5h3M6.5 8h3M6.5 10.5h3'],
  ['webhook', 'Webhook', 'M9 2 4 9h4l-1 5 5-7H8Z'],
  ['events', 'Events', 'M3 3.5h10M3 8h10M3 12.5h6'],
  ['keys', 'API keys', 'M10.5 8.5a3 3 0 1 0-2.7-1.7L2.5 12v1.8h2.2v-1.5h1.5v-1.5h1.3l1.2-1.3'],
  ['settings', 'Settings', 'M2 4.5h7M12 4.5h2M2 11.5h2M7 11.5h7M10.5 3v3M5.5 10v3'],
] as const;

export function DashboardPage(): ReactElement {
  const signIn = useSession('merchant');
  const { session } = signIn;
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
          place={signIn}
        />
      </>
    );
  return (
    <>
      <Switched place={signIn} />
      <SignedIn session={session} />
    </>
  );
}

function SignedIn({ session }: { session: Session }): ReactElement {
  const [apps, setApps] = useState<App[]>();
  const hash = useHash();
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
  const wantedId = hash.app ?? appId;
  const app = apps?.find(({ id }) => id === wantedId) ?? apps?.[0];
  const shownId = app?.id;
  useEffect(() => {
    if (shownId === undefined) return;
    setAppId(shownId);
    if (hash.app !== shownId) history.replaceState(null, '', formatHash({ ...hash, app: shownId }));
  }, [shownId, hash]);

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
  // Opens an app in the current view. In the views `search` and `customers`, the id is a search
  // text or a customer. Both can have results in every app, so the id is kept. In any other view,
  // the id names a row of one app, so the id is dropped.
  const open = (app: string) => {
    const { view, id } = hash;
    const stays = view === 'search' || view === 'customers';
    location.hash = formatHash({ view, id: stays ? id : undefined, app });
  };
  const addApp = (app: App) => {
    setApps([app, ...apps]);
    open(app.id);
    setMaking(false);
  };
  if (app === undefined) return <FirstApp session={session} onMade={addApp} />;
  return (
    <>
      <Shell
        context={{ session, app }}
        hash={hash}
        apps={apps}
        onApp={open}
        onNew={() => setMaking(true)}
        onChanged={() => void load()}
      />
      {making && <NewApp session={session} onMade={addApp} onClose={() => setMaking(false)} />}
    </>
  );
}

function Shell({
  context,
  hash: { view, id },
  apps,
  onApp,
  onNew,
  onChanged,
}: {
  context: AppContext;
  hash: Hash;
  apps: readonly App[];
  onApp: (id: string) => void;
  onNew: () => void;
  onChanged: () => void;
}): ReactElement {
  const attention = useAttention(context);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [view, id]);
  return (
    <div className="shell">
      <header className="side">
        <button type="button" className="button plain skip" onClick={() => main.current?.focus()}>
          Skip to the content
        </button>
        <span className="brand">
          <Brand text="billing" />
        </span>
        <label className="small">
          <span className="visually-hidden">App</span>
          <select
            value={context.app.id}
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
        <SearchBox text={view === 'search' ? id : undefined} />
        <nav aria-label="Dashboard">
          {views.map(([name, text, icon]) => (
            <NavLink key={name} view={name} isCurrent={view === name} attention={attention}>
              <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
                <path d={icon} />
              </svg>
              {text}
            </NavLink>
          ))}
        </nav>
        <div className="foot muted">
          <Address of={context.session.address} label="your wallet" />
          <ZoneSwitch />
          <a href="/docs">API reference</a>
          <Button kind="link" onClick={context.session.end}>
            Sign out
          </Button>
        </div>
      </header>
      <main className="view" ref={main} tabIndex={-1} key={context.app.id}>
        <AttentionBanner attention={attention} />
        <View
          context={context}
          view={view}
          id={id}
          unregistered={attention?.unregistered ?? 0}
          onChanged={onChanged}
        />
      </main>
    </div>
  );
}

function View({
  context,
  view,
  id,
  unregistered,
  onChanged,
}: {
  context: AppContext;
  view: string;
  id: string | undefined;
  unregistered: number;
  onChanged: () => void;
}): ReactElement {
  switch (view) {
    case 'plans':
      return <Plans context={context} />;
    case 'links':
      return <Links context={context} />;
    case 'subscriptions':
      return id === undefined ? (
        <Subscriptions context={context} unregistered={unregistered} />
      ) : (
        <Subscription key={id} context={context} id={id} />
      );
    case 'customers':
      return id === undefined ? (
        <Subscriptions context={context} unregistered={unregistered} />
      ) : (
        <CustomerView key={id} context={context} id={id} />
      );
    case 'payments':
      return id === undefined ? (
        <Payments context={context} />
      ) : (
        <Payment key={id} context={context} id={id} />
      );
    case 'statements':
      return <Statements context={context} />;
    case 'webhook':
      return id === undefined ? (
        <Webhook context={context} />
      ) : (
        <Delivery key={id} context={context} reference={id} />
      );
    case 'events':
      return id === undefined ? (
        <Events context={context} />
      ) : (
        <Event key={id} context={context} id={id} />
      );
    case 'search':
      return <Search key={id} context={context} text={id ?? ''} />;
    case 'keys':
      return <ApiKeys context={context} />;
    case 'settings':
      return <Settings context={context} onChanged={onChanged} />;
    default:
      return <Overview context={context} />;
  }
}
