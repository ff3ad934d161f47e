import { type ReactElement, useMemo } from 'react';
import type { Plan } from '../../shared/session.ts';
import { foreign } from '../../shared/text.ts';
import { changeFilters, useHash } from './app-context.ts';
import { type ListDays, readDays } from './days.ts';
import { typeText } from './event-types.ts';

const words: Readonly<Record<string, string>> = {
  past_due: 'Past due',
  unregistered: 'Not registered',
};

const title = (status: string) =>
  words[status] ?? `${status.charAt(0).toUpperCase()}${status.slice(1)}`;

/** A select box with one entry for each option and one entry for all options. */
function SelectFilter<T extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  options: readonly (readonly [value: T, text: string])[];
  value: T | undefined;
  onChange: (value: T | undefined) => void;
}): ReactElement {
  return (
    <label>
      {label}
      <select
        value={value ?? ''}
        onChange={({ target }) => onChange(options.find(([one]) => one === target.value)?.[0])}
      >
        <option value="">All</option>
        {value !== undefined && !options.some(([one]) => one === value) && (
          <option value={value}>{foreign(value, 60)}</option>
        )}
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Filters a list by status. */
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
    <SelectFilter
      label="Status"
      options={statuses.map((status) => [status, title(status)])}
      value={value}
      onChange={onChange}
    />
  );
}

/** Filters a list by plan. */
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
    <SelectFilter
      label="Plan"
      options={plans.map(({ id, name }) => [id, foreign(name, 60)])}
      value={value}
      onChange={onChange}
    />
  );
}

/**
 * Returns the id of the plan by which a list is filtered, and a function that changes it. The URL's
 * fragment stores the id.
 */
export function usePlanChoice(): readonly [
  planId: string | undefined,
  choose: (planId: string | undefined) => void,
] {
  return [useHash().filters.plan, (plan) => changeFilters({ plan })];
}

/** Filters a list by event type. */
export function TypeFilter<T extends string>({
  types,
  value,
  onChange,
}: {
  types: readonly T[];
  value: T | undefined;
  onChange: (type: T | undefined) => void;
}): ReactElement {
  return (
    <SelectFilter
      label="Event"
      options={types.map((type) => [type, typeText(type)])}
      value={value}
      onChange={onChange}
    />
  );
}

/** Returns the days by which a list is filtered. The URL's fragment stores the days. */
export function useDays(): ListDays {
  const { from, to } = useHash().filters;
  return useMemo(() => readDays({ from, to }), [from, to]);
}

/** Filters a list by a first and a last day, in UTC. */
export function DaysFilter({ days }: { days: ListDays }): ReactElement {
  const isWrong = days.problem !== undefined;
  return (
    <>
      <DayFilter label="From" name="from" value={days.first} isWrong={isWrong} />
      <DayFilter label="To" name="to" value={days.last} isWrong={isWrong} />
    </>
  );
}

/** Selects a day in UTC. The URL's fragment stores the day under `name`. */
export function DayFilter({
  label,
  name,
  value,
  isWrong,
}: {
  label: string;
  name: 'from' | 'to';
  value: string;
  isWrong: boolean;
}): ReactElement {
  return (
    <label>
      <span>
        {label} <span className="muted small">UTC</span>
      </span>
      <input
        type="date"
        value={value}
        aria-invalid={isWrong}
        onChange={({ target }) =>
          changeFilters({ [name]: target.value === '' ? undefined : target.value })
        }
      />
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
