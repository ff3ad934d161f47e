import type { ReactElement } from 'react';
import { Fill } from '../shared/fill.tsx';
import { words } from '../shared/language.ts';
import { Button, Dialog, Usdc } from '../shared/parts.tsx';
import type { Subscription } from '../shared/session.ts';

/** Asks before a cancellation that leaves credit, and names the credit. */
export function CreditKept({
  subscription,
  onCancel,
  onClose,
}: {
  subscription: Subscription;
  onCancel: () => void;
  onClose: () => void;
}): ReactElement {
  const { credit, amount } = subscription;
  const text = words.account;
  return (
    <Dialog title={text.cancel} onClose={onClose}>
      <p>
        <Fill text={text.creditStays} amount={<Usdc units={credit} partOf={amount} />} />
      </p>
      <div className="actions end">
        <Button onClick={onClose}>{text.staySubscribed}</Button>
        <Button kind="danger" onClick={onCancel}>
          {text.cancel}
        </Button>
      </div>
    </Dialog>
  );
}
