import { type ReactElement, useState } from 'react';
import type { components } from '../../client/openapi.ts';
import { wordsOf } from '../shared/errors.ts';
import { Notice } from '../shared/parts.tsx';
import { foreign } from '../shared/text.ts';
import type { Place } from './place.ts';

/** Switches e-mails about failures on and off. */
export function Mails({
  place: { session },
  profile: { email, mails },
  onChanged,
}: {
  place: Place;
  profile: components['schemas']['Profile'];
  onChanged: () => void;
}): ReactElement {
  const [problem, setProblem] = useState<string>();
  const change = (on: boolean) => {
    setProblem(undefined);
    session.client
      .patch('/merchant/profile', { body: { mails: on } })
      .then(onChanged, (error: unknown) => setProblem(wordsOf(error)));
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
      <label className="choice">
        <input type="checkbox" checked={mails} onChange={({ target }) => change(target.checked)} />
        <span>
          When a webhook fails or is disabled, when a plan’s payments cannot be collected, and once
          a day about failed payments
        </span>
      </label>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
    </section>
  );
}
