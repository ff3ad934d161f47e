import type { ReactElement } from 'react';
import type { Plan } from '../../shared/session.ts';
import { orNull } from '../parts/typed.ts';

/** The off-chain terms of a plan, as typed. An empty text means the default. */
export interface TypedTerms {
  name: string;
  description: string;
  trialDays: string;
  graceHours: string;
  retryHours: string;
  pastDueDays: string;
  noticeHours: string;
}

export const noTerms: TypedTerms = {
  name: '',
  description: '',
  trialDays: '',
  graceHours: '',
  retryHours: '',
  pastDueDays: '',
  noticeHours: '',
};

/** Converts a plan's terms to the texts of the form. */
export function typedTerms(plan: Plan): TypedTerms {
  return {
    name: plan.name,
    description: plan.description ?? '',
    trialDays: plan.trialHours === null ? '' : String(plan.trialHours / 24),
    graceHours: plan.graceHours?.toString() ?? '',
    retryHours: plan.retryHours?.join(', ') ?? '',
    pastDueDays: plan.pastDueDays?.toString() ?? '',
    noticeHours: plan.noticeHours?.join(', ') ?? '',
  };
}

/**
 * Converts a trial in days to hours. Returns null for an empty text, and undefined if the result is
 * not a whole number above 0.
 */
export function trialHoursOf(days: string): number | null | undefined {
  if (days.trim() === '') return null;
  const hours = Number(days.trim()) * 24;
  return Number.isInteger(hours) && hours >= 1 ? hours : undefined;
}

function wholeOf(text: string, label: string): number | null {
  if (text.trim() === '') return null;
  if (!/^\d{1,4}$/.test(text.trim())) throw new Error(`${label} is a whole number.`);
  return Number(text);
}

function wholesOf(text: string, label: string): number[] | null {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  if (parts.some((part) => !/^\d{1,4}$/.test(part)))
    throw new Error(`${label} are whole numbers of hours, such as 1, 6, 24.`);
  return parts.length === 0 ? null : parts.map(Number);
}

/**
 * Converts a trial in days to hours. Returns null for an empty text. Throws an Error for an invalid
 * text.
 */
export function trialOf(days: string): number | null {
  const hours = trialHoursOf(days);
  if (hours === undefined)
    throw new Error('The trial is a number of days in whole hours, such as 7 or 0.5.');
  return hours;
}

/** Converts the typed terms for the API. Throws an Error that names an invalid field. */
export function termsOf(typed: TypedTerms) {
  return {
    name: typed.name.trim(),
    description: orNull(typed.description),
    trialHours: trialOf(typed.trialDays),
    graceHours: wholeOf(typed.graceHours, 'Hours of access while a payment is due'),
    retryHours: wholesOf(typed.retryHours, 'Hours of the retries'),
    pastDueDays: wholeOf(typed.pastDueDays, 'Days until an unpaid subscription expires'),
    noticeHours: wholesOf(typed.noticeHours, 'Hours of the notices'),
  };
}

const fields = [
  ['trialDays', 'Free trial, days', 'None'],
  ['graceHours', 'Access while a payment is due, hours', 'A tenth of the period'],
  ['retryHours', 'Retries after a failure, hours', '1, 6, 24, 72, 120'],
  ['pastDueDays', 'Unpaid subscriptions expire after, days', '7'],
  ['noticeHours', 'Notices before a payment, hours', 'Once'],
] as const;

/** Inputs for all terms in TypedTerms except the name. */
export function TermFields({
  value,
  onChange,
}: {
  value: TypedTerms;
  onChange: (terms: TypedTerms) => void;
}): ReactElement {
  return (
    <>
      <label>
        Description
        <textarea
          value={value.description}
          rows={2}
          maxLength={2000}
          placeholder="Shown to subscribers"
          onChange={({ target }) => onChange({ ...value, description: target.value })}
        />
      </label>
      <div className="form-row">
        {fields.map(([name, label, example]) => (
          <label key={name}>
            {label}
            <input
              value={value[name]}
              placeholder={example}
              onChange={({ target }) => onChange({ ...value, [name]: target.value })}
            />
          </label>
        ))}
      </div>
    </>
  );
}
