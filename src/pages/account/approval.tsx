import { type ReactElement, useState } from 'react';
import { explain, type Explanation, isCode } from '../shared/errors.ts';
import { words } from '../shared/language.ts';
import { Button, Dialog, Explained } from '../shared/parts.tsx';
import { type Session, submit, type Subscription } from '../shared/session.ts';
import { isWithdrawn, problemOf, readStanding, unseenText } from './actions.ts';

/**
 * Thrown when the wallet has no approval to withdraw, for example because closing its last
 * subscription withdrew it.
 */
class NotApproved extends Error {}

/** Lets the subscriber revoke the approval that all subscriptions of the wallet share. */
export function Approval({
  session,
  subscription,
  hasCredit,
}: {
  session: Session;
  /**
   * A subscription of the wallet, if possible a live one. With this subscription, the page asks the
   * service whether the approval is withdrawn.
   */
  subscription: Subscription;
  /** Whether a customer to whom the wallet's subscriptions belong has credit. */
  hasCredit: boolean;
}): ReactElement {
  const [isAsking, setAsking] = useState(false);
  const [closes, setCloses] = useState(false);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; say: () => Explanation }>();
  const text = words.account;

  const revoke = () => {
    setAsking(false);
    setBusy(true);
    setMessage(undefined);
    const submitSeen = async () => {
      const { approval, frozen } = await readStanding(session, subscription);
      const ask = async (sponsored: boolean) => {
        const body = { closeAuthority: closes, sponsored };
        return session.client
          .post('/subscriber/approval/revoke', { body })
          .catch((error: unknown) => {
            throw isCode(error, 'CONFLICT') && !frozen ? new NotApproved() : error;
          });
      };
      const submitted = await submit(session, ask, () => undefined);
      const problem = problemOf(submitted);
      if (problem !== undefined || submitted.status === 'confirmed') return problem;
      const isSeen = approval === 'given' && (await isWithdrawn(session, subscription));
      return isSeen ? undefined : unseenText(submitted);
    };
    submitSeen()
      .catch((error: unknown) => {
        if (!(error instanceof NotApproved)) throw error;
        return undefined;
      })
      .then(
        (problem) => {
          setMessage(
            problem === undefined
              ? { kind: 'success', say: () => ({ text: words.account.revoked }) }
              : { kind: 'warning', say: problem },
          );
        },
        (error: unknown) => setMessage({ kind: 'warning', say: () => explain(error) }),
      )
      .finally(() => setBusy(false));
  };

  const notice = message !== undefined && <Explained kind={message.kind} of={message.say()} />;
  // The approval has been withdrawn, so the button is no longer shown.
  if (message?.kind === 'success') return <section aria-label={text.revoke}>{notice}</section>;
  return (
    <section aria-label={text.revoke}>
      {notice}
      <p className="muted small">{text.revokeText}</p>
      <Button kind="link" busy={busy} onClick={() => setAsking(true)}>
        {text.revoke}
      </Button>
      {isAsking && (
        <Dialog title={text.revokeAsk} onClose={() => setAsking(false)}>
          <p>{text.revokeWarn}</p>
          <label className="check">
            <input
              type="checkbox"
              checked={closes}
              onChange={({ target }) => setCloses(target.checked)}
            />
            {text.revokeClose}
          </label>
          <p>{closes ? text.revokeForGood : text.revokeUndo}</p>
          {closes && hasCredit && <p>{text.revokeCredit}</p>}
          <div className="actions end">
            <Button onClick={() => setAsking(false)}>{text.keep}</Button>
            <Button kind="danger" onClick={revoke}>
              {text.revoke}
            </Button>
          </div>
        </Dialog>
      )}
    </section>
  );
}
