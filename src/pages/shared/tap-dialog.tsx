// The dialog that asks for a tap before a wallet app of the phone is opened.
import type { ReactElement } from 'react';
import { declined } from './errors.ts';
import { words } from './language.ts';
import { Button, Dialog } from './parts.tsx';
import { createSlot } from './slot.ts';

/**
 * What follows the tap. `allow`: the browser asks for its permission. `open`: the wallet app opens.
 */
type Purpose = 'allow' | 'open';

interface Request {
  readonly purpose: Purpose;
  readonly tapped: () => void;
  readonly refused: () => void;
}

const dialog = createSlot<Request>();

/** Shows the dialog. Resolves after the tap. Rejects when the user closes the dialog. */
export function askTap(purpose: Purpose): Promise<void> {
  dialog.current?.refused();
  return new Promise<void>((resolve, reject) => {
    dialog.show({
      purpose,
      tapped() {
        dialog.show(undefined);
        resolve();
      },
      refused() {
        dialog.show(undefined);
        reject(declined());
      },
    });
  });
}

/** Renders the dialog while a request to a wallet app waits for a tap. */
export function TapDialog(): ReactElement {
  const request = dialog.useCurrent();
  if (request === undefined) return <></>;
  const text = words.phone[request.purpose];
  return (
    <Dialog key={request.purpose} title={text.title} onClose={request.refused}>
      <p>{text.text}</p>
      <div className="actions end">
        <Button onClick={request.refused}>{words.stopWaiting}</Button>
        <Button kind="primary" onClick={request.tapped}>
          {text.button}
        </Button>
      </div>
    </Dialog>
  );
}
