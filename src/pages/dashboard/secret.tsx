import type { ReactElement } from 'react';
import { Button, Copy, Dialog, Notice } from '../shared/parts.tsx';

/** A secret that is shown once. */
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
      <div className="secret">
        <code>{secret}</code>
        <Copy text={secret} label={label} />
      </div>
      <div className="actions end">
        <Button kind="primary" onClick={onClose}>
          I have stored it
        </Button>
      </div>
    </Dialog>
  );
}
