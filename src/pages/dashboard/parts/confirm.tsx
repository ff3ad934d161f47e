import { type ReactElement, type ReactNode, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Dialog, Notice } from '../../shared/parts.tsx';

/**
 * A dialog with a form or a question. Its button runs one action. If the action fails, the dialog
 * shows why.
 */
export function Confirm<Result>({
  title,
  button,
  leave = 'Leave it',
  isDangerous = false,
  run,
  onClose,
  onDone,
  children,
}: {
  title: string;
  /** Text of the button that runs the action. */
  button: string;
  /** Text of the button that closes the dialog. */
  leave?: string;
  isDangerous?: boolean;
  run: () => Promise<Result>;
  onClose: () => void;
  onDone: (result: Result) => void;
  children: ReactNode;
}): ReactElement {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="form"
        // A problem refers to the sent input, so the message is removed when the input changes.
        onInput={() => setProblem(undefined)}
        onSubmit={(event) => {
          event.preventDefault();
          setBusy(true);
          setProblem(undefined);
          run().then(onDone, (error: unknown) => {
            setBusy(false);
            setProblem(wordsOf(error));
          });
        }}
      >
        {children}
        {problem !== undefined && <Notice kind="error">{problem}</Notice>}
        <div className="actions end">
          <Button onClick={onClose}>{leave}</Button>
          <Button kind={isDangerous ? 'danger' : 'primary'} type="submit" busy={busy}>
            {button}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
