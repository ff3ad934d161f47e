// The dialog that signs the user in again during an action. If the service refuses the token of a
// request, the request waits for this dialog and is then repeated.
import { type ReactElement, useState } from 'react';
import { explain } from './errors.ts';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Button, Dialog, Explained } from './parts.tsx';
import { createSlot } from './slot.ts';
import { foreign } from './text.ts';

interface Renewal {
  readonly wallet: string;
  /** Asks the wallet to sign in. */
  readonly renew: () => Promise<void>;
  /** Ends the session, unless the token is valid and only too old for the request. */
  readonly giveUp: () => void;
  /**
   * Whether the token is valid but too old for the request. If the user does not sign in again, the
   * session then continues.
   */
  readonly isTooOld: boolean;
}

/** The parts of a session that a renewal needs. */
interface Renewable {
  readonly wallet: { readonly name: string };
  readonly ended: AbortSignal;
  readonly end: () => void;
}

const dialog = createSlot<Renewal>();
let pending: Promise<boolean> | undefined;

/**
 * Shows the dialog. Resolves to true when the user has signed in again, and to false when the
 * session has ended or the user does not sign in now. Requests that are refused while the dialog is
 * open share the dialog.
 */
export function askRenewal(
  session: Renewable,
  signIn: () => Promise<void>,
  isTooOld: boolean,
): Promise<boolean> {
  pending ??= new Promise<boolean>((resolve) => {
    const finish = (renewed: boolean) => {
      pending = undefined;
      dialog.show(undefined);
      session.ended.removeEventListener('abort', givenUp);
      resolve(renewed);
    };
    const givenUp = () => finish(false);
    session.ended.addEventListener('abort', givenUp);
    dialog.show({
      wallet: session.wallet.name,
      renew: async () => {
        await signIn();
        finish(true);
      },
      giveUp: isTooOld ? givenUp : session.end,
      isTooOld,
    });
  });
  return pending;
}

/**
 * Renders the dialog while a session waits for the user to sign in again. At other times it renders
 * nothing. Every page has this component.
 */
export function RenewalDialog(): ReactElement {
  const renewal = dialog.useCurrent();
  return renewal === undefined ? <></> : <SignInAgain renewal={renewal} />;
}

function SignInAgain({
  renewal: { wallet, renew, giveUp, isTooOld },
}: {
  renewal: Renewal;
}): ReactElement {
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
        <Fill
          text={isTooOld ? words.signIn.tooOld : words.signIn.ended}
          wallet={<bdi>{foreign(wallet, 40)}</bdi>}
        />
      </p>
      {problem !== undefined && <Explained kind="warning" of={explain(problem)} />}
      <div className="actions end">
        <Button onClick={giveUp}>{isTooOld ? words.signIn.notNow : words.signOut}</Button>
        <Button kind="primary" busy={busy} onClick={signIn}>
          {words.signIn.again}
        </Button>
      </div>
    </Dialog>
  );
}
