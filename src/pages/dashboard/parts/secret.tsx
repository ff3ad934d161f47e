import type { ReactElement } from 'react';
import { Button, Copy, Dialog, Notice } from '../../shared/parts.tsx';

/** Shows in a dialog a secret that the service shows only once. */
export function Secret({
  title,
  secret,
  label,
  text,
  onClose,
}: {
  title: string;
  secret: string;
  label: string;
  text: string;
  onClose: () => void;
}): ReactElement {
  return (
    <Dialog title={title} onClose={onClose}>
      <Notice kind="warning">{text}</Notice>
      <Shown text={secret} label={label} />
      <div className="actions end">
        <Button kind="primary" onClick={onClose}>
          I have stored it
        </Button>
      </div>
    </Dialog>
  );
}

/** Shows a text with a button that copies it. */
export function Shown({ text, label }: { text: string; label: string }): ReactElement {
  return (
    <div className="secret">
      <code>{text}</code>
      <Copy text={text} label={label} />
    </div>
  );
}
