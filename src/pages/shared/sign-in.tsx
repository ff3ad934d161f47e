import { type ReactElement, useEffect, useRef, useState } from 'react';
import { wordsOf } from './errors.ts';
import { clusterName } from './installation.ts';
import { Button, Notice, Spinner } from './parts.tsx';
import { openSession, type Role, type Session } from './session.ts';
import { foreign } from './text.ts';
import { WalletChoice } from './wallet-choice.tsx';
import { knowsNetwork, onSwitch, type SolanaWallet, useWallets } from './wallets.ts';

/** A card for signing in with a wallet. `note` explains why the user must sign in again. */
export function SignIn({
  role,
  title,
  text,
  note,
  onSession,
}: {
  role: Role;
  title: string;
  text: string;
  note?: string | undefined;
  onSession: (session: Session) => void;
}): ReactElement {
  const wallets = useWallets();
  const [step, setStep] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const runs = useRef(0);

  const choose = (wallet: SolanaWallet) => {
    setProblem(undefined);
    const name = foreign(wallet.name, 40);
    if (!knowsNetwork(wallet)) {
      setProblem(`${name} is not on ${clusterName}. Switch its network, or use another wallet.`);
      return;
    }
    runs.current += 1;
    const mine = runs.current;
    openSession(wallet, role, (next) => {
      if (runs.current === mine)
        setStep(
          next === 'connect' ? `Connect in ${name}…` : `Sign in with ${name}. This costs nothing.`,
        );
    }).then(
      (session) => runs.current === mine && onSession(session),
      (error: unknown) => {
        if (runs.current !== mine) return;
        setStep(undefined);
        setProblem(wordsOf(error));
      },
    );
  };

  return (
    <main className="column narrow">
      <h1>{title}</h1>
      <p className="muted">{text}</p>
      {note !== undefined && problem === undefined && <Notice kind="info">{note}</Notice>}
      {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
      {step === undefined ? (
        <WalletChoice verb="Sign in" role={role} wallets={wallets} onChoose={choose} />
      ) : (
        <>
          <Spinner>{step}</Spinner>
          <Button
            onClick={() => {
              runs.current += 1;
              setStep(undefined);
            }}
          >
            Stop waiting
          </Button>
        </>
      )}
    </main>
  );
}

/** Returns the session of a page. The session ends when the wallet switches accounts. */
export function useSession(): {
  session: Session | undefined;
  note: string | undefined;
  begin: (session: Session) => void;
  end: (note?: string) => void;
} {
  const [session, begin] = useState<Session>();
  const [note, setNote] = useState<string>();
  const end = (why?: string) => {
    begin(undefined);
    setNote(why);
  };
  useEffect(() => {
    if (session === undefined) return;
    return onSwitch(session, () => end('Your wallet switched accounts: sign in with the new one.'));
  }, [session]);
  return { session, note, begin, end };
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
