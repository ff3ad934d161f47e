import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import type { AppContext } from '../parts/app-context.ts';

/** Switches e-mails about failures on and off. */
export function Mails({
  context: { session },
  profile: { email, emailConfirmed, mails },
  onChanged,
}: {
  context: AppContext;
  profile: components['schemas']['Profile'];
  onChanged: () => void;
}): ReactElement {
  const [problem, setProblem] = useState<string>();
  const [asked, setAsked] = useState(false);
  const change = async (body: { mails: boolean } | { email: string }) => {
    setProblem(undefined);
    try {
      await session.client.patch('/merchant/profile', { body });
      onChanged();
    } catch (error) {
      setProblem(wordsOf(error));
    }
  };
  return (
    <section className="card form">
      <div>
        <h2>E-mails</h2>
        <p className="muted small">
          {email === null
            ? 'Give your address above to get them.'
            : `They go to ${foreign(email, 100)}, if the operator of this service sends e-mail.`}
        </p>
      </div>
      {email !== null && !emailConfirmed && mails && (
        <Notice kind="info">
          The address is not confirmed yet: open the link in the e-mail that was sent to it.{' '}
          {asked ? (
            'It is sent again, at most three times a day.'
          ) : (
            <Button kind="link" onClick={() => void change({ email }).then(() => setAsked(true))}>
              Send it again
            </Button>
          )}
        </Notice>
      )}
      <label className="choice">
        <input
          type="checkbox"
          checked={mails}
          onChange={({ target }) => void change({ mails: target.checked })}
        />
        <span>
          When a webhook fails or is disabled, when a plan’s payments cannot be collected, and once
          a day about failed payments
        </span>
      </label>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
    </section>
  );
}
