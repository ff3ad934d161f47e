import { type ReactElement, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Dialog, Notice } from '../../shared/parts.tsx';
import type { Session } from '../../shared/session.ts';
import { Brand } from '../../shared/sign-in.tsx';
import type { App } from '../parts/app-context.ts';

interface Making {
  session: Session;
  onMade: (app: App) => void;
}

/** The screen of a merchant who has no app yet. */
export function FirstApp(making: Making): ReactElement {
  return (
    <>
      <header className="top">
        <span className="brand">
          <Brand text="billing" />
        </span>
      </header>
      <main className="column narrow">
        <h1>Name your app</h1>
        <p className="muted">
          An app is what customers subscribe to: a product, a site, a club. Its plans, subscriptions
          and webhook belong to it. You can add more later.
        </p>
        <AppForm {...making} />
      </main>
    </>
  );
}

export function NewApp({ onClose, ...making }: Making & { onClose: () => void }): ReactElement {
  return (
    <Dialog title="New app" onClose={onClose}>
      <AppForm {...making} onCancel={onClose} />
    </Dialog>
  );
}

function AppForm({ session, onMade, onCancel }: Making & { onCancel?: () => void }): ReactElement {
  const [name, setName] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const make = () => {
    setBusy(true);
    session.client.post('/merchant/apps', { body: { name } }).then(onMade, (error: unknown) => {
      setProblem(wordsOf(error));
      setBusy(false);
    });
  };
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        make();
      }}
    >
      <label>
        Name
        <input
          value={name}
          maxLength={120}
          required
          autoFocus
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
      <div className="actions end">
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button kind="primary" type="submit" busy={busy}>
          Create app
        </Button>
      </div>
    </form>
  );
}
