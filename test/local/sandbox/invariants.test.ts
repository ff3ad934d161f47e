// The sandbox's invariants are only worth something if each of them can be broken.
import t from 'tap';
import type { Evidence } from '../../../src/local/sandbox/evidence.ts';
import { checkInvariants } from '../../../src/local/sandbox/invariants.ts';
import type { Merchant } from '../../../src/local/sandbox/merchants.ts';
import type { Subscriber } from '../../../src/local/sandbox/subscribers.ts';
import { walletFromSeed } from '../../../src/local/sandbox/wallet.ts';

const wallet = walletFromSeed(Buffer.alloc(32, 1));
const start = new Date('2026-01-01T00:00:00Z');
const seconds = BigInt(start.getTime() / 1000);

const types = [
  'subscription_created',
  'payment_success',
  'payment_failed',
  'delegation_revoked',
  'cancel_requested',
  'cancel_finalized',
  'cancel_forced',
] as const;

const body = (type: string) =>
  JSON.stringify({ type, data: { txSignature: 'signature', subscriptionPda: 'pda' } });

/**
 * One subscriber that paid its first period and then cancelled, with the data for every event type.
 */
function sound(): Evidence {
  const events = types.map((type, index) => ({
    id: `event-${index}`,
    subscriptionId: 's',
    sequence: BigInt(index + 1),
    type,
    body: body(type),
  }));
  return {
    pulls: [
      {
        signature: 'signature',
        subscriptionPda: 'pda',
        gross: 100n,
        fee: 1n,
        net: 99n,
        periodStart: seconds,
        blockTime: seconds,
      },
    ],
    turns: [{ subscriptionPda: 'pda', kind: 'cancelled', slot: 9n, blockTime: seconds + 10n }],
    treasuryBalance: 6n,
    merchantBalances: new Map([['merchant', 99n]]),
    payments: [
      {
        subscriptionId: 's',
        subscriptionPda: 'pda',
        merchantWallet: 'merchant',
        status: 'succeeded',
        source: 'keeper',
        periodStart: start,
        amountGross: 100n,
        platformFee: 1n,
        amountNet: 99n,
        txSignature: 'signature',
        occurredAt: start,
        further: false,
      },
    ],
    events,
    subscriptions: [{ id: 's', status: 'cancelled' }],
    deliveries: { delivered: events.length, failed: 0, pending: 0, attempts: events.length },
    received: new Map(events.map((event) => [event.id, { ...event }])),
    refused: 0,
    altered: 0,
  };
}

const play = {
  subscribers: [
    {
      wallet,
      token: '',
      merchant: {} as Merchant,
      role: 'cancels',
      at: 0,
      subscriptionId: 's',
      subscriptionPda: 'pda',
    },
  ] satisfies Subscriber[],
  periods: 4,
  treasuryBefore: 5n,
};

const broken = (evidence: Evidence) =>
  Object.entries(checkInvariants(evidence, play))
    .filter(([, breaches]) => breaches.length > 0)
    .map(([name]) => name);

void t.test('records of a correct sandbox scenario break no invariant', (t) => {
  t.same(broken(sound()), []);
  t.end();
});

void t.test('each kind of corrupted record violates exactly its invariant', (t) => {
  const harm = (name: string, change: (evidence: Evidence) => void) => {
    const evidence = sound();
    change(evidence);
    t.ok(broken(evidence).includes(name), name);
  };
  const first = <T>(items: readonly T[]) => items[0]!;
  harm('chainPaymentsRecordedOnce', (e) =>
    e.payments.push({ ...first(e.payments), periodStart: new Date(0) }),
  );
  harm('chainPaymentsRecordedOnce', (e) => (e.payments = []));
  harm('chainPaymentsRecordedOnce', (e) => (e.pulls = []));
  harm('onePaymentPerPeriod', (e) => e.pulls.push({ ...first(e.pulls), signature: 'another' }));
  harm('onePaymentPerPeriod', (e) =>
    e.payments.push({ ...first(e.payments), txSignature: 'another' }),
  );
  harm('amountsAddUp', (e) => (first(e.payments).amountNet = 98n));
  harm('amountsAddUp', (e) => Object.assign(first(e.pulls), { fee: 2n, net: 98n }));
  harm('balancesEqualSums', (e) => (e.treasuryBalance = 7n));
  harm('balancesEqualSums', (e) => e.merchantBalances.set('merchant', 98n));
  harm('everyEventDelivered', (e) => (e.received = new Map([...e.received].slice(1))));
  harm(
    'everyEventDelivered',
    (e) =>
      (e.received = new Map([...e.received, ['unknown', { id: 'unknown', type: 'x', body: '' }]])),
  );
  harm('everyEventDelivered', (e) => (first(e.events).body = '{}'));
  harm('everyEventDelivered', (e) => (e.deliveries.pending = 1));
  harm('signaturesValid', (e) => (e.refused = 1));
  harm('signaturesValid', (e) => (e.altered = 1));
  harm('sequencesGapless', (e) => e.events.splice(2, 1));
  const announce = (id: string, sequence: bigint) => ({
    ...sound().events[0]!,
    id,
    sequence,
    type: 'renewal_upcoming' as const,
    body: JSON.stringify({ data: { dueAt: '2026-03-01T00:00:00.000Z' } }),
  });
  harm('renewalsAnnouncedOnce', (e) =>
    e.events.splice(1, 0, announce('first', 2n), announce('again', 3n)),
  );
  harm('renewalsAnnouncedOnce', (e) => e.events.push(announce('late', 9n)));
  harm('paymentsAndEventsAgree', (e) => e.events.push({ ...e.events[1]!, id: 'again' }));
  harm(
    'paymentsAndEventsAgree',
    (e) => (e.events = e.events.filter(({ type }) => type !== 'payment_success')),
  );
  harm('nothingAfterCancel', (e) =>
    e.pulls.push({ ...first(e.pulls), signature: 'late', blockTime: seconds + 11n }),
  );
  harm('nothingAfterCancel', (e) => e.events.push({ ...e.events[1]!, id: 'late', sequence: 8n }));
  harm('rolesEndAsTheyShould', (e) => (first(e.subscriptions).status = 'active'));
  harm(
    'allEventTypesSeen',
    (e) => (e.events = e.events.filter(({ type }) => type !== 'delegation_revoked')),
  );
  t.end();
});
