import type { ReactElement } from 'react';
import { formatExact } from '../../shared/money.ts';
import { everyPeriod } from '../../shared/period.ts';
import type { Plan } from '../../shared/session.ts';
import { foreign } from '../../shared/text.ts';

/** A select box of plans with their prices. */
export function PlanSelect({
  label,
  plans,
  value,
  onChange,
}: {
  label: string;
  plans: readonly Plan[];
  value: string | undefined;
  onChange: (planId: string) => void;
}): ReactElement {
  return (
    <label>
      {label}
      <select value={value} required autoFocus onChange={({ target }) => onChange(target.value)}>
        {plans.map((plan) => (
          <option key={plan.id} value={plan.id}>
            {foreign(plan.name, 60)} · {formatExact(plan.amount)} USDC{' '}
            {everyPeriod(plan.periodHours)}
          </option>
        ))}
      </select>
    </label>
  );
}
