import type { ReactElement } from 'react';
import type { Plan } from '../shared/session.ts';
import { foreign } from '../shared/text.ts';

const words: Readonly<Record<string, string>> = { past_due: 'Past due' };

const title = (status: string) =>
  words[status] ?? `${status.charAt(0).toUpperCase()}${status.slice(1)}`;

/** Selects one status or all statuses for a list. */
export function StatusFilter<T extends string>({
  statuses,
  value,
  onChange,
}: {
  statuses: readonly T[];
  value: T | undefined;
  onChange: (status: T | undefined) => void;
}): ReactElement {
  return (
    <label>
      Status
      <select
        value={value ?? ''}
        onChange={({ target }) => onChange(statuses.find((status) => status === target.value))}
      >
        <option value="">All</option>
        {statuses.map((status) => (
          <option key={status} value={status}>
            {title(status)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Selects one plan or all plans for a list. */
export function PlanFilter({
  plans,
  value,
  onChange,
}: {
  plans: readonly Plan[];
  value: string | undefined;
  onChange: (planId: string | undefined) => void;
}): ReactElement {
  return (
    <label>
      Plan
      <select
        value={value ?? ''}
        onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
      >
        <option value="">All</option>
        {plans.map((plan) => (
          <option key={plan.id} value={plan.id}>
            {foreign(plan.name, 60)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Selects the first or the last day of a list's time range, in the reader's time zone. */
export function DayFilter({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (day: string) => void;
}): ReactElement {
  return (
    <label>
      {label}
      <input type="date" value={value} onChange={({ target }) => onChange(target.value)} />
    </label>
  );
}

/**
 * Returns the start of the day that is `days` days after `day`, in the reader's time zone. Returns
 * undefined when `day` is not a date.
 */
export function instantOf(day: string, days = 0): string | undefined {
  if (!/^\d{4}-\d\d-\d\d$/.test(day)) return undefined;
  const start = new Date(`${day}T00:00:00`);
  start.setDate(start.getDate() + days);
  return start.toISOString();
}
