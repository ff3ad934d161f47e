// The English texts of the pages for buyers. Placeholders are in braces; a text that counts has one
// form for `one` and one for `other`.
export const en = {
  period: {
    per: {
      hour: 'per hour',
      day: 'per day',
      week: 'per week',
      twoWeeks: 'per 2 weeks',
      month: 'per month',
      quarter: 'per 3 months',
      halfYear: 'per 6 months',
      year: 'per year',
      other: 'per {span}',
    },
    every: {
      hour: 'every hour',
      day: 'every day',
      week: 'every week',
      twoWeeks: 'every 2 weeks',
      month: 'every month',
      quarter: 'every 3 months',
      halfYear: 'every 6 months',
      year: 'every year',
      other: 'every {span}',
    },
    /** Of a month, 3 months, half a year and a year, which are no calendar months here. */
    exact: 'Counted as {length}, so the day of payment moves a little.',
  },
  discount: {
    each: '{off} off each payment',
    some: { one: '{off} off one payment', other: '{off} off {n} payments' },
  },
  summary: {
    label: 'Your plan',
    title: 'Subscribe to {plan}',
    discount: 'Discount',
    trial: 'Free trial, once per wallet',
    today: 'Today',
    forTime: '{from} to {until}',
    thenEvery: 'Then {every}, from {date}',
    thenTimes: {
      one: 'Then once more, on {date}',
      other: 'Then {n} more times {every}, from {date}',
    },
    noPayment: 'No payment is due before the plan ends.',
    cancelNote: 'Until you cancel',
    endsNote: 'Until the plan ends',
    planEnds: 'The plan ends',
    paidTo: 'Paid to',
    merchantWallet: 'Copy the merchant’s wallet',
    website: 'Website',
  },
} as const;

/** What a catalogue has: each text of the English one. */
export type Words = Texts<typeof en>;
type Texts<T> = { readonly [K in keyof T]: T[K] extends string ? string : Texts<T[K]> };
