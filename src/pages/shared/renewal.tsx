// The dialog that signs the user in again during an action. When the service refuses a session's
// token, the session's requests wait for this dialog. The requests are then repeated, and the
// action continues.
import { type ReactElement, useState, useSyncExternalStore } from 'react';
import { wordsOf } from './errors.ts';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Button, Dialog, Notice } from './parts.tsx';
import { foreign } from './text.ts';

interface Renewal {
  readonly wallet: string;
  /** Asks the wallet to sign in. */
  readonly renew: () => Promise<void>;
  /** Ends the session. */
  readonly giveUp: () => void;
}

/** The parts of a session that a renewal needs. */
interface Renewable {
  readonly wallet: { readonly name: string };
  readonly ended: AbortSignal;
  readonly end: () => void;
}

let current: Renewal | undefined;
let pending: Promise<boolean> | undefined;
const listeners = new Set<() => void>();

function show(next: Renewal | undefined): void {
  current = next;
  for (const listener of listeners) listener();
}

/**
 * Shows the dialog. Resolves to true when the user has signed in again, and to false when the
 * session has ended. Requests that are refused while the dialog is open share the dialog.
 */
export function askRenewal(session: Renewable, signIn: () => Promise<void>): Promise<boolean> {
  pending ??= new Promise<boolean>((resolve) => {
    const finish = (renewed: boolean) => {
      pending = undefined;
      show(undefined);
      session.ended.removeEventListener('abort', givenUp);
      resolve(renewed);
    };
    const givenUp = () => finish(false);
    session.ended.addEventListener('abort', givenUp);
    show({
      wallet: session.wallet.name,
      renew: async () => {
        await signIn();
        finish(true);
      },
      giveUp: session.end,
    });
  });
  return pending;
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

/**
 * Renders the dialog while a session waits for the user to sign in again. At other times it renders
 * nothing. Every page has this component.
 */
export function RenewalDialog(): ReactElement {
  const renewal = useSyncExternalStore(subscribe, () => current);
  return renewal === undefined ? <></> : <SignInAgain renewal={renewal} />;
}

function SignInAgain({ renewal: { wallet, renew, giveUp } }: { renewal: Renewal }): ReactElement {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const signIn = () => {
    setBusy(true);
    setProblem(undefined);
    renew().catch((error: unknown) => {
      setBusy(false);
      setProblem(error);
    });
  };
  return (
    <Dialog title={words.signIn.again} onClose={giveUp}>
      <p>
        <Fill text={words.signIn.ended} wallet={<bdi>{foreign(wallet, 40)}</bdi>} />
      </p>
      {problem !== undefined && <Notice kind="warning">{wordsOf(problem)}</Notice>}
      <div className="actions end">
        <Button onClick={giveUp}>{words.signOut}</Button>
        <Button kind="primary" busy={busy} onClick={signIn}>
          {words.signIn.again}
        </Button>
      </div>
    </Dialog>
  );
}
