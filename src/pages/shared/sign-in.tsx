import { type ReactElement, type ReactNode, useEffect, useRef, useState } from 'react';
import { fill } from '../../words/fill.ts';
import { explain, type Explanation } from './errors.ts';
import { clusterName } from './installation.ts';
import { words } from './language.ts';
import { Button, Explained, Notice, Spinner } from './parts.tsx';
import { hasSent, openSession, resumeSession, type Session } from './session.ts';
import { foreign } from './text.ts';
import { dropToken, keptToken, type Role } from './token-store.ts';
import { WalletChoice } from './wallet-choice.tsx';
import { knowsNetwork, onSwitch, type SolanaWallet, useWallets } from './wallets.ts';

/** A card for signing in with a wallet, with `children` below. */
export function SignIn({
  role,
  title,
  text,
  place: { isSwitched, resuming, stopResuming, begin },
  children,
}: {
  role: Role;
  title: string;
  text: string;
  place: SignInPlace;
  children?: ReactNode;
}): ReactElement {
  const wallets = useWallets();
  const [step, setStep] = useState<{ name: 'connect' | 'sign'; wallet: string }>();
  const [problem, setProblem] = useState<() => Explanation>();
  const runs = useRef(0);

  const choose = (wallet: SolanaWallet) => {
    setProblem(undefined);
    const name = foreign(wallet.name, 40);
    if (!knowsNetwork(wallet)) {
      const text = () => fill(words.network.other, { wallet: name, network: clusterName });
      setProblem(() => () => ({ text: text() }));
      return;
    }
    runs.current += 1;
    const mine = runs.current;
    openSession(wallet, role, (next) => {
      if (runs.current === mine)
        setStep({ name: next === 'connect' ? next : 'sign', wallet: name });
    }).then(
      (session) => runs.current === mine && begin(session),
      (error: unknown) => {
        if (runs.current !== mine) return;
        setStep(undefined);
        setProblem(() => () => explain(error));
      },
    );
  };

  if (resuming !== undefined)
    return (
      <main className="boot">
        <Spinner>{fill(words.signIn.connecting, { wallet: foreign(resuming.name, 40) })}</Spinner>
        <Button onClick={stopResuming}>{words.useAnother}</Button>
      </main>
    );
  return (
    <main className="column narrow">
      <h1>{title}</h1>
      <p className="muted">{text}</p>
      {isSwitched && problem === undefined && <Notice kind="info">{words.signIn.switched}</Notice>}
      {problem !== undefined && <Explained kind="warning" of={problem()} />}
      {step === undefined ? (
        <WalletChoice verb="signIn" role={role} wallets={wallets} onChoose={choose} />
      ) : (
        <>
          <Spinner>{fill(words.signIn[step.name], step)}</Spinner>
          <Button
            onClick={() => {
              runs.current += 1;
              setStep(undefined);
            }}
          >
            {words.stopWaiting}
          </Button>
        </>
      )}
      {children}
    </main>
  );
}

export interface SignInPlace {
  session: Session | undefined;
  /** True after the wallet has switched accounts, until the user signs in again. */
  isSwitched: boolean;
  /**
   * The wallet whose response the page awaits. If the tab has a token, the page asks the wallet
   * that signed in whether the wallet still shares the account. Undefined if the page awaits no
   * response.
   */
  resuming: SolanaWallet | undefined;
  stopResuming: () => void;
  begin: (session: Session) => void;
}

/**
 * Returns the session of a page. If the tab has a token, the session starts with that token. When
 * the wallet switches accounts, the session ends, unless a transaction may have been sent.
 */
export function useSession(role: Role): SignInPlace {
  const wallets = useWallets();
  const [session, setSession] = useState<Session>();
  const [isSwitched, setSwitched] = useState(false);
  const [tried, setTried] = useState<SolanaWallet>();
  const storedToken = session === undefined ? keptToken(role) : undefined;
  const keptWallet = wallets.find(({ name }) => name === storedToken?.wallet);
  const resuming = keptWallet === tried ? undefined : keptWallet;

  useEffect(() => {
    if (resuming === undefined) return;
    let live = true;
    void resumeSession(resuming, role).then((found) => {
      if (!live) return;
      setTried(resuming);
      setSession(found);
    });
    return () => {
      live = false;
    };
  }, [resuming, role]);

  useEffect(() => {
    if (session === undefined) return;
    const left = () => setSession(undefined);
    session.ended.addEventListener('abort', left);
    const off = onSwitch(session, () => {
      setSwitched(true);
      // If a transaction may have been sent, the page must still show its result. The session is
      // therefore kept until the user signs in with the new account. Only the tab's token is
      // deleted.
      if (hasSent(session)) dropToken(role);
      else session.end();
    });
    return () => {
      session.ended.removeEventListener('abort', left);
      off();
    };
  }, [session, role]);

  return {
    session,
    isSwitched,
    resuming,
    stopResuming: () => setTried(resuming),
    begin(next) {
      setSwitched(false);
      setSession(next);
    },
  };
}

/** Reports that the wallet has switched accounts while the page still shows the earlier account. */
export function Switched({ place: { session, isSwitched } }: { place: SignInPlace }): ReactElement {
  if (session === undefined || !isSwitched) return <></>;
  return (
    <Notice kind="info">
      {words.signIn.switched}{' '}
      <Button kind="link" onClick={session.end}>
        {words.signIn.again}
      </Button>
    </Notice>
  );
}

/** Shows the page's name beside the logo. */
export function Brand({ text }: { text: string }): ReactElement {
  return (
    <>
      <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#0f766e" />
        <path
          d="M9 12.5a8 8 0 0 1 13.6-2.1M23 19.5a8 8 0 0 1-13.6 2.1M23.4 6.8v4.4H19M8.6 25.2v-4.4H13"
          fill="none"
          stroke="#fff"
          strokeWidth="2.6"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
      <span>{text}</span>
    </>
  );
}
