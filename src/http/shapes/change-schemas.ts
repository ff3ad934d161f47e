// Response fields for the costs of a change of plan: their schema and their values.
import { Type } from '@sinclair/typebox';
import type { ChangeAmounts } from '../../domain/change/change.ts';
import { Amount, nullable, oneOf, Time } from './fields.ts';
import { Schedule } from './schedule.ts';

export const changeWhen = oneOf(
  ['now', 'period_end'],
  "now: the subscription ends when the transaction lands, and the unused part of its paid period (by seconds, rounded up to whole cents where the replaced plan's amount is whole cents) is a credit. period_end: the first payment is deferred to the end of what is paid.",
);

const OnePayment = (title: string, description: string) =>
  nullable(Type.Object({ amount: Amount, dueAt: Time }, { title, description }));

export const changeFields = {
  when: changeWhen,
  asOf: {
    ...Time,
    description:
      'The amounts are those of a transaction that lands at this time; a second later the credit is smaller by that second. Of a sponsored change "today" is exact: this time is later than its landing, and the credit of the seconds between pays for the next payment.',
  },
  endsAt: { ...Time, description: 'End of the replaced subscription.' },
  startsAt: nullable({
    ...Time,
    description: 'The first payment is deferred to this time; null: it is due at once.',
  }),
  credit: {
    ...Amount,
    description:
      'Credit of the customer after the change, base units: the unused part of the paid period, and what is not spent yet. The next payments take it; it is never paid out and cannot be refunded.',
  },
  today: { ...Amount, description: 'Paid when the transaction lands, base units.' },
  next: OnePayment('NextPayment', 'The payment after that.'),
  after: OnePayment('PaymentAfterNext', 'The payment after the next one.'),
  schedule: Schedule,
};

export const ChangePreview = Type.Object(changeFields, { title: 'ChangePreview' });

/** Returns the fields of ChangePreview. */
export const changeView = (when: 'now' | 'period_end', amounts: ChangeAmounts) => ({
  when,
  ...amounts,
  schedule: [...amounts.schedule],
});
