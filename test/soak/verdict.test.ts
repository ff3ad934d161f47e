// The soak is only worth something if its verdict names each kind of harm.
import t from 'tap';
import {
  afterCancel,
  type Attempt,
  type Books,
  isRegistered,
  judge,
  type Refund,
  type ReportedEvent,
} from './verdict.ts';
import type { SeenPull, SeenTurn } from './witness.ts';

const attempt = (createdAt: number): Attempt => ({
  subscriptionPda: 'pda',
  subscriptionId: 's',
  signature: `at ${createdAt}`,
  state: 'landed',
  createdAt,
});
/** The outcome is not relevant. */
const signedLate = (createdAt: number): Attempt => ({ ...attempt(createdAt), state: 'expired' });
const reported = (type: string, at: number): ReportedEvent => ({
  subscriptionId: 's',
  subscriptionPda: 'pda',
  type,
  final: false,
  at,
});
const turn = (kind: SeenTurn['kind'], seenAt: number, notBefore = seenAt - 1000): SeenTurn => ({
  subscriptionPda: 'pda',
  kind,
  notBefore,
  seenAt,
});
const HOUR = 3_600_000;
const pull = (signature: string, seenAt: number): SeenPull => ({
  signature,
  subscriptionPda: 'pda',
  gross: 100n,
  fee: 1n,
  net: 99n,
  periodStart: BigInt(Math.floor(seenAt / HOUR)) * 3600n,
  blockTime: BigInt(seenAt / 1000),
  source: 'keeper',
  notBefore: seenAt - 1000,
  seenAt,
});

const refund: Refund = {
  id: 'refund',
  paymentId: 'payment',
  merchantWallet: 'merchant',
  amount: 10n,
  status: 'expired',
  amountRefunded: 0n,
};

type Harmed = {
  -readonly [K in keyof Books]: Books[K] extends readonly (infer One)[] ? One[] : Books[K];
};

/**
 * Three payments, the last one pulled by the plan's owner; then a cancel, with its transaction and
 * its event.
 */
function sound(): Harmed {
  const [ours, theirs] = [[4 * HOUR, 5 * HOUR], 6 * HOUR];
  const pulls = [
    ...ours.map((at) => pull(`at ${at}`, at)),
    { ...pull('foreign', theirs), source: 'foreign' as const, fee: 0n, net: 100n },
  ];
  const payments = pulls.map(({ signature, periodStart, source, fee, net }) => ({
    subscriptionId: 's',
    subscriptionPda: 'pda',
    merchantWallet: 'merchant',
    status: 'succeeded' as const,
    source,
    periodStart: new Date(Number(periodStart) * 1000),
    amountGross: 100n,
    platformFee: fee,
    amountNet: net,
    txSignature: signature,
    occurredAt: new Date(0),
    further: false,
  }));
  const types = [
    'subscription_created',
    ...pulls.map(() => 'payment_success' as const),
    'cancel_requested',
  ] as const;
  const events = types.map((type, index) => ({
    id: `event ${index}`,
    subscriptionId: 's',
    sequence: BigInt(index + 1),
    type,
    body: JSON.stringify({
      data: { txSignature: pulls[index - 1]?.signature, subscriptionPda: 'pda' },
    }),
  }));
  return {
    pulls,
    turns: [turn('created', 3 * HOUR), turn('cancelled', 7 * HOUR)],
    payments,
    events,
    attempts: ours.map((at) => attempt(at)),
    reported: [reported('subscription_created', 3 * HOUR), reported('cancel_requested', 7 * HOUR)],
    refunds: [],
    lostRefunds: [],
    owners: new Map([['pda', 'merchant']]),
    planAmounts: new Map([['pda', 100n]]),
    lastSends: new Map(ours.map((at) => [`at ${at}`, at])),
    fees: new Map(ours.map((at) => [`at ${at}`, 5_360n])),
    treasuryBalance: 2n,
    merchantBalances: new Map([['merchant', 298n]]),
    awake: (unixMs) => unixMs,
  };
}

/** A period that credit paid whole. `isReported`: with its event. */
function payByCredit(books: Harmed, { isReported }: { isReported: boolean }): void {
  const periodStart = new Date(6.5 * HOUR);
  const none = { amountGross: 0n, platformFee: 0n, amountNet: 0n, txSignature: null };
  books.payments.push({ ...books.payments[0]!, ...none, source: 'credit', periodStart });
  if (!isReported) return;
  const data = { txSignature: null, subscriptionPda: 'pda', periodStart };
  const body = JSON.stringify({ data });
  books.events.push({ ...books.events[1]!, sequence: 6n, body });
}

/** A pull in that period. */
function pullBesideCredit(books: Harmed, source: SeenPull['source']): void {
  const [signature, at] = ['beside', 6.5 * HOUR];
  const pulled = { ...pull(signature, at), periodStart: BigInt(at / 1000), fee: 0n, net: 100n };
  books.pulls.push({ ...pulled, source });
  const amounts = { amountGross: 100n, platformFee: 0n, amountNet: 100n };
  const row = { ...books.payments[0]!, ...amounts, periodStart: new Date(at) };
  books.payments.push({ ...row, txSignature: signature, source, further: true });
  gain(books, 100n);
}

function breached(change: (books: Harmed) => unknown): string[] {
  const books = sound();
  change(books);
  return Object.entries(judge(books).breaches).flatMap(([name, breaches]) =>
    breaches.length > 0 ? [name] : [],
  );
}

const gain = (books: Harmed, amount: bigint) =>
  (books.merchantBalances = new Map([
    ['merchant', (books.merchantBalances.get('merchant') ?? 0n) + amount],
  ]));

/** The event of a grant, which belongs to a customer. */
const granted = {
  ...{ id: 'granted', subscriptionId: null, sequence: null, type: 'credit_changed' as const },
  body: JSON.stringify({ data: { amount: '100' } }),
};

void t.test('for correct books the soak verdict reports no breach', (t) => {
  t.same(
    breached(() => undefined),
    [],
  );
  t.same(
    breached(
      (books) =>
        books.pulls.push({ ...pull('unheard', HOUR), source: 'foreign', fee: 0n }) &&
        gain(books, 100n),
    ),
    [],
    'what its owner pulls while no one is registered need not be recorded',
  );
  t.same(
    breached((books) => {
      books.events.push(granted);
      payByCredit(books, { isReported: true });
    }),
    [],
    'what credit pays is not on the chain',
  );
  t.same(
    breached((books) => {
      payByCredit(books, { isReported: true });
      pullBesideCredit(books, 'foreign');
    }),
    [],
    'its owner may pull in a period that credit has paid',
  );
  t.end();
});

void t.test('the cost of failed transactions is divided among the succeeded payments', (t) => {
  const books = sound();
  books.attempts.push({ ...signedLate(5 * HOUR), signature: 'failed', state: 'failed' });
  books.fees = new Map([...books.fees, ['failed', 5_000n], ["another's", 5_000n]]);
  t.match(judge(books).figures, {
    lamportsPerPayment: 7_860,
    paymentsPerTransaction: 1,
    transactions: { landed: 2, failed: 1 },
  });
  t.end();
});

void t.test('each kind of corrupted record is reported by name', (t) => {
  const harm = (what: string, names: string[], change: (books: Harmed) => unknown) => {
    t.same(breached(change).toSorted(), names.toSorted(), what);
  };
  harm(
    'a period that is charged twice on chain, and recorded once',
    ['chainPaymentsRecordedOnce', 'onePaymentPerPeriod', 'balancesEqualSums'],
    (books) => {
      books.pulls.push({ ...pull('again', 4 * HOUR), fee: 0n, net: 100n });
      gain(books, 100n);
    },
  );
  harm(
    'a period that is charged twice, and both are in the books',
    ['onePaymentPerPeriod'],
    (books) => {
      const [first] = books.payments;
      books.pulls.push(pull('again', 4 * HOUR));
      books.payments.push({ ...first!, txSignature: 'again' });
      books.events.push({
        ...books.events[1]!,
        sequence: 6n,
        body: JSON.stringify({ data: { txSignature: 'again', subscriptionPda: 'pda' } }),
      });
      books.treasuryBalance += 1n;
      gain(books, 99n);
    },
  );
  harm(
    'a payment in the books twice',
    ['chainPaymentsRecordedOnce', 'onePaymentPerPeriod', 'balancesEqualSums'],
    (books) => books.payments.push(books.payments[0]!),
  );
  harm(
    'a period that credit paid, and that is not reported',
    ['paymentsAndEventsAgree'],
    (books) => {
      payByCredit(books, { isReported: false });
    },
  );
  harm('a period that credit paid and a keeper pulled', ['onePaymentPerPeriod'], (books) => {
    payByCredit(books, { isReported: true });
    pullBesideCredit(books, 'keeper');
  });
  harm('a recorded payment that the chain lacks', ['chainPaymentsRecordedOnce'], (books) =>
    books.pulls.shift(),
  );
  harm(
    'a payment of a keeper that is not recorded',
    [
      'chainPaymentsRecordedOnce',
      'paymentsAndEventsAgree',
      'balancesEqualSums',
      'landedAttemptsRecorded',
    ],
    (books) => books.payments.shift(),
  );
  harm(
    "the owner's pull under a registration, not recorded",
    ['chainPaymentsRecordedOnce', 'paymentsAndEventsAgree', 'balancesEqualSums'],
    (books) => books.payments.pop(),
  );
  harm('a charge that was signed after the cancel', ['nothingAfterCancel'], (books) =>
    books.attempts.push(signedLate(7 * HOUR + 60_000)),
  );
  harm('a charge that was signed while it was paused', ['nothingWhilePaused'], (books) => {
    const [from, to] = [5 * HOUR + 60_000, 6 * HOUR];
    books.reported.push(
      reported('subscription_paused', from),
      reported('subscription_unpaused', to),
    );
    books.attempts.push(signedLate(from + 60_000));
  });
  harm('a refund on chain that is not recorded', ['balancesEqualSums'], (books) =>
    gain(books, -10n),
  );
  harm('a refund that is recorded and not reported', ['refundsAddUp'], (books) => {
    books.refunds.push({ ...refund, status: 'succeeded', amountRefunded: 10n });
    gain(books, -10n);
  });
  harm('a refund that its payment does not have', ['refundsAddUp'], (books) => {
    books.refunds.push({ ...refund, status: 'succeeded' });
    books.events.push({
      ...books.events[0]!,
      sequence: 6n,
      type: 'refund_recorded',
      body: JSON.stringify({ data: { refundId: refund.id } }),
    });
    gain(books, -10n);
  });
  harm('a refund that came to nothing and is in its payment', ['refundsAddUp'], (books) =>
    books.refunds.push({ ...refund, amountRefunded: 10n }),
  );
  harm(
    'a charge that was signed before the cancel and sent again after it',
    ['nothingAfterCancel'],
    (books) => {
      books.lastSends = new Map([[books.attempts[1]!.signature, 7 * HOUR + 60_000]]);
    },
  );
  harm('a charge after a cancel that only the chain has', ['nothingAfterCancel'], (books) => {
    books.reported.pop();
    books.attempts.push(signedLate(7 * HOUR + 60_000));
  });
  harm('a gap in the events', ['sequencesGapless'], (books) =>
    books.events.splice(4, 1, { ...books.events[4]!, sequence: 6n }),
  );
  harm(
    'an event that was reported twice',
    ['sequencesGapless', 'paymentsAndEventsAgree'],
    (books) => books.events.splice(2, 0, books.events[1]!),
  );
  harm(
    'amounts that are not those of the chain',
    ['amountsAddUp', 'balancesEqualSums'],
    (books) => {
      books.payments[0] = { ...books.payments[0]!, platformFee: 2n, amountNet: 98n };
    },
  );
  harm('a balance that nothing explains', ['balancesEqualSums'], (books) => gain(books, 1n));
  harm('an attempt that never ended', ['everyAttemptEnded'], (books) =>
    books.attempts.push({ ...attempt(1), state: 'open' }),
  );
  t.end();
});

void t.test(
  'a payment attempt signed while the subscription is cancelled is a breach; before or after, it is none',
  (t) => {
    const judged = (attempts: Attempt[], events: ReportedEvent[], turns: SeenTurn[] = []) =>
      afterCancel({ attempts, reported: events, turns, lastSends: new Map() });
    const cancel = [
      reported('cancel_requested', 100_000),
      reported('subscription_resumed', 200_000),
    ];
    t.same(judged([attempt(99_000), attempt(201_000)], cancel), []);
    t.equal(judged([attempt(150_000)], cancel).length, 1);
    t.equal(judged([attempt(300_000)], [reported('cancel_forced', 100_000)]).length, 1);
    const sent = (createdAt: number, at: number) =>
      afterCancel({
        attempts: [attempt(createdAt)],
        reported: cancel,
        turns: [],
        lastSends: new Map([[`at ${createdAt}`, at]]),
      }).length;
    t.equal(sent(99_000, 101_000), 0, 'sent with the cancel');
    t.equal(sent(99_000, 104_000), 1, 'sent again after the cancel');
    t.equal(sent(201_000, 204_000), 0, 'sent after the resume');
    const turns = [turn('cancelled', 100_000), turn('resumed', 450_000, 400_000)];
    t.same(
      judged([attempt(110_000), attempt(390_000)], [], turns),
      [],
      'a keeper may not have seen it yet, or have seen the next one',
    );
    t.equal(judged([attempt(150_000)], [], turns).length, 1);
    const resumed = [reported('subscription_resumed', 149_000)];
    t.same(judged([attempt(150_000)], resumed, turns), [], 'a fork took a resumption back');
    t.equal(judged([attempt(170_000)], resumed, turns).length, 1, 'which is seen again soon');
    t.equal(
      judged([attempt(150_000)], [reported('subscription_created', 50_000)], turns).length,
      1,
    );
    t.same(
      judged([attempt(150_000)], [reported('subscription_created', 149_000)], turns),
      [],
      'registered since: a fork may have taken the opening back',
    );
    t.same(
      judged([attempt(120_000)], [reported('subscription_created', 110_000)], turns),
      [],
      'closed and opened anew before the keepers had to know of the cancel: another subscription',
    );
    t.same(
      judged([attempt(120_000)], [reported('subscription_created', 99_500)], turns),
      [],
      'registered before the cancel was seen, perhaps after it',
    );
    const twice = [...turns.slice(0, 1), turn('created', 200_000), turn('cancelled', 300_000)];
    const anew = [reported('subscription_created', 201_000)];
    t.same(judged([attempt(290_000)], anew, twice), [], 'opened anew');
    t.equal(judged([attempt(320_000)], anew, twice).length, 1, 'and cancelled again');
    t.end();
  },
);

void t.test(
  'time during which a keeper was stopped does not count as time to see a cancellation',
  (t) => {
    const cancelOnChain = (books: Harmed) => {
      books.reported.pop();
      books.attempts.push(signedLate(7 * HOUR + 182_000));
    };
    t.same(breached(cancelOnChain), ['nothingAfterCancel']);
    const [from, to] = [7 * HOUR + 1000, 7 * HOUR + 181_000];
    const slept = (unixMs: number) => unixMs - Math.max(0, Math.min(unixMs, to) - from);
    t.same(
      breached((books) => {
        cancelOnChain(books);
        books.awake = slept;
      }),
      [],
    );
    t.same(
      breached((books) => {
        books.attempts.push(signedLate(7 * HOUR + 182_000));
        books.awake = slept;
      }),
      ['nothingAfterCancel'],
      'once it was reported it is',
    );
    t.end();
  },
);

void t.test(
  'a pull counts for the registration that was live at its time, and for no other at the address',
  (t) => {
    const life = [reported('subscription_created', 100_000), reported('cancel_finalized', 500_000)];
    const judged = (seenAt: number, turns: SeenTurn[] = [], subscriptionPda = 'pda') =>
      isRegistered({ subscriptionPda, seenAt }, life, turns);
    t.ok(judged(300_000, [turn('created', 99_000)]));
    t.notOk(judged(90_000));
    t.notOk(judged(600_000));
    t.notOk(judged(300_000, [], 'another'));
    t.notOk(
      judged(300_000, [
        turn('created', 99_000),
        turn('cancelled', 200_000),
        turn('created', 250_000),
      ]),
    );
    t.ok(
      judged(300_000, [
        turn('created', 99_000),
        turn('cancelled', 350_000),
        turn('created', 400_000),
      ]),
    );
    t.end();
  },
);
