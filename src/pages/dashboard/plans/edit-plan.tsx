import { type ReactElement, useState } from 'react';
import type { Plan } from '../../shared/session.ts';
import type { AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { TermFields, termsOf, typedTerms } from './plan-terms.tsx';

/** Edits the off-chain terms of a plan. */
export function EditPlan({
  context: { session, app },
  plan,
  onClose,
  onDone,
}: {
  context: AppContext;
  plan: Plan;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [terms, setTerms] = useState(() => typedTerms(plan));
  const run = async () => {
    await session.client.patch('/merchant/apps/{appId}/plans/{planId}', {
      path: { appId: app.id, planId: plan.id },
      body: termsOf(terms),
    });
  };
  return (
    <Confirm title="Edit the plan" button="Save" run={run} onClose={onClose} onDone={onDone}>
      <label>
        Name
        <input
          value={terms.name}
          maxLength={120}
          required
          autoFocus
          onChange={({ target }) => setTerms({ ...terms, name: target.value })}
        />
      </label>
      <TermFields value={terms} onChange={setTerms} />
      <p className="muted small">
        Amount, period and end are on chain and cannot change: publish another plan for other ones.
        A new trial is for new subscribers.
      </p>
    </Confirm>
  );
}
