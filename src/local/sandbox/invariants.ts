// Invariants that the sandbox checks after a run of the scenario. Each invariant returns one
// sentence for each breach that it finds.
import { contractEventTypes } from '../../db/delivering/events.ts';
import type { Evidence } from './evidence.ts';
import type { SubscriberRole, Subscriber } from './subscribers.ts';

type Invariant = (
  evidence: Evidence,
  play: { subscribers: readonly Subscriber[]; periods: number; treasuryBefore: bigint },
) => string[];

/**
 * The data that the money invariants compare. A money invariant holds for any database, not only
 * for the database of a sandbox.
 */
export type MoneyEvidence = Pick<
  Evidence,
  'pulls' | 'payments' | 'events' | 'treasuryBalance' | 'merchantBalances'
>;
type MoneyInvariant = (evidence: MoneyEvidence, play: { treasuryBefore: bigint }) => string[];

const sum = (amounts: bigint[]) => amounts.reduce((total, amount) => total + amount, 0n);
const pullKey = (signature: string | null, subscriptionPda: string) =>
  `${signature ?? 'none'} of ${subscriptionPda}`;

/**
 * The key of a payment that is recorded or reported. A period that credit paid has no signature.
 */
const paymentKey = (signature: string | null, subscriptionPda: string, periodStart: string) =>
  pullKey(signature ?? `credit for ${periodStart}`, subscriptionPda);

function repeated(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}

/**
 * For each subscriber role, the status and the number of paid periods that a subscription must end
 * with. `at` is the number of the period in which the subscriber takes the action of its role.
 */
const endings: Record<
  SubscriberRole,
  (at: number, periods: number) => { status: string; paid: number }
> = {
  steady: (_at, periods) => ({ status: 'active', paid: periods }),
  topsUp: (_at, periods) => ({ status: 'active', paid: periods }),
  staysDry: (at) => ({ status: 'expired', paid: at }),
  revokes: (_at, periods) => ({ status: 'active', paid: periods }),
  cancels: (at) => ({ status: 'cancelled', paid: at + 1 }),
  merchantCancels: (at) => ({ status: 'cancelled', paid: at + 1 }),
  merchantForces: (at) => ({ status: 'cancelled', paid: at + 1 }),
  resumes: (_at, periods) => ({ status: 'active', paid: periods }),
};

const moneyInvariants: Record<string, MoneyInvariant> = {
  chainPaymentsRecordedOnce({ pulls, payments }) {
    const rows = payments
      .filter(({ status, source }) => status === 'succeeded' && source !== 'credit')
      .map((row) => pullKey(row.txSignature, row.subscriptionPda));
    const recorded = new Set(rows);
    const onChain = new Set(pulls.map((pull) => pullKey(pull.signature, pull.subscriptionPda)));
    return [
      ...repeated(rows).map((key) => `recorded twice: ${key}`),
      ...rows.filter((key) => !onChain.has(key)).map((key) => `recorded, but not on chain: ${key}`),
      ...[...onChain]
        .filter((key) => !recorded.has(key))
        .map((key) => `on chain, but not recorded: ${key}`),
    ];
  },
  onePaymentPerPeriod({ pulls, payments }) {
    return [
      ...repeated(
        pulls.map((pull) => `${pull.subscriptionPda} at ${pull.periodStart.toString()}`),
      ).map((key) => `collected twice on chain: ${key}`),
      ...repeated(
        payments
          // Another puller may pull in a period that credit has paid: the chain allows it.
          .filter(
            ({ status, source, further }) =>
              status === 'succeeded' && !(further && source === 'foreign'),
          )
          .map((row) => `${row.subscriptionId} at ${row.periodStart.toISOString()}`),
      ).map((key) => `recorded twice: ${key}`),
    ];
  },
  amountsAddUp({ pulls, payments }) {
    const moved = new Map(
      pulls.map((pull) => [pullKey(pull.signature, pull.subscriptionPda), pull]),
    );
    return payments.flatMap((row) => {
      const key = pullKey(row.txSignature, row.subscriptionPda);
      const pull = row.status === 'succeeded' ? moved.get(key) : undefined;
      return [
        ...(row.amountGross === row.platformFee + row.amountNet
          ? []
          : [`gross is not fee + net: ${key}`]),
        ...(pull === undefined ||
        (pull.gross === row.amountGross &&
          pull.fee === row.platformFee &&
          pull.net === row.amountNet)
          ? []
          : [`recorded amounts differ from the chain's transfers: ${key}`]),
      ];
    });
  },
  balancesEqualSums({ payments, treasuryBalance, merchantBalances }, { treasuryBefore }) {
    const paid = payments.filter(({ status }) => status === 'succeeded');
    const fees = sum(paid.map(({ platformFee }) => platformFee));
    return [
      ...(treasuryBalance - treasuryBefore === fees
        ? []
        : [`the treasury got ${treasuryBalance - treasuryBefore}, recorded fees are ${fees}`]),
      ...[...merchantBalances].flatMap(([wallet, balance]) => {
        const net = sum(
          paid
            .filter(({ merchantWallet }) => merchantWallet === wallet)
            .map(({ amountNet }) => amountNet),
        );
        return balance === net ? [] : [`merchant ${wallet} has ${balance}, recorded net is ${net}`];
      }),
    ];
  },
  sequencesGapless({ events }) {
    const last = new Map<string, bigint>();
    return events.flatMap(({ subscriptionId, sequence }) => {
      if (subscriptionId === null || sequence === null) return [];
      const expected = (last.get(subscriptionId) ?? 0n) + 1n;
      last.set(subscriptionId, sequence);
      return sequence === expected
        ? []
        : [`subscription ${subscriptionId} goes from event ${expected - 1n} to ${sequence}`];
    });
  },
  paymentsAndEventsAgree({ events, payments }) {
    const reported = new Map<string, number>();
    for (const { type, body } of events) {
      if (type !== 'payment_success') continue;
      const { data } = JSON.parse(body) as {
        data: { txSignature: string | null; subscriptionPda: string; periodStart: string };
      };
      const key = paymentKey(data.txSignature, data.subscriptionPda, data.periodStart);
      reported.set(key, (reported.get(key) ?? 0) + 1);
    }
    const told = payments.filter(({ status, further }) => status === 'succeeded' && !further);
    const paid = new Set(
      told.map((row) =>
        paymentKey(row.txSignature, row.subscriptionPda, row.periodStart.toISOString()),
      ),
    );
    return [
      ...[...paid]
        .filter((key) => reported.get(key) !== 1)
        .map((key) => `${reported.get(key) ?? 0} events of the payment ${key}`),
      ...[...reported.keys()]
        .filter((key) => !paid.has(key))
        .map((key) => `an event, but no payment: ${key}`),
    ];
  },
  renewalsAnnouncedOnce({ events }) {
    const cancelled = new Set<string>();
    const announced = events.flatMap(({ subscriptionId, type, body }) => {
      if (subscriptionId === null) return [];
      if (type === 'cancel_requested' || type === 'cancel_forced') cancelled.add(subscriptionId);
      if (type === 'subscription_resumed') cancelled.delete(subscriptionId);
      if (type !== 'renewal_upcoming') return [];
      const { data } = JSON.parse(body) as { data: { dueAt: string } };
      const key = `${subscriptionId} due at ${data.dueAt}`;
      return [{ key, isCancelled: cancelled.has(subscriptionId) }];
    });
    return [
      ...repeated(announced.map(({ key }) => key)).map((key) => `announced twice: ${key}`),
      ...announced
        .filter(({ isCancelled }) => isCancelled)
        .map(({ key }) => `announced after a cancellation: ${key}`),
    ];
  },
};

const invariants: Record<string, Invariant> = {
  ...moneyInvariants,
  everyEventDelivered({ events, received, deliveries }) {
    return [
      ...events
        .filter(({ id }) => !received.has(id))
        .map(({ id, type }) => `never received: ${type} ${id}`),
      ...[...received.keys()]
        .filter((id) => !events.some((event) => event.id === id))
        .map((id) => `received, but not in the database: ${id}`),
      ...events
        .filter(({ id, body }) => received.has(id) && received.get(id)?.body !== body)
        .map(({ id }) => `received with other bytes: ${id}`),
      ...(deliveries.failed + deliveries.pending === 0
        ? []
        : [`${deliveries.failed} deliveries failed and ${deliveries.pending} are pending`]),
    ];
  },
  signaturesValid({ refused, altered }) {
    return [
      ...(refused === 0 ? [] : [`${refused} requests had a signature that does not verify`]),
      ...(altered === 0 ? [] : [`${altered} events came again with other bytes`]),
    ];
  },
  nothingAfterCancel({ pulls, turns, events }, { subscribers }) {
    const onChain = subscribers.flatMap(({ subscriptionId, subscriptionPda }) => {
      const latest = turns
        .filter((turn) => turn.subscriptionPda === subscriptionPda)
        .sort((a, b) => Number(b.slot - a.slot))[0];
      if (latest?.kind !== 'cancelled') return [];
      return pulls
        .filter(
          (pull) => pull.subscriptionPda === subscriptionPda && pull.blockTime > latest.blockTime,
        )
        .map(
          ({ signature }) =>
            `collected after the on-chain cancel of ${subscriptionId}: ${signature}`,
        );
    });
    const cancelled = new Set<string>();
    const afterwards = events.flatMap(({ subscriptionId, type, id }) => {
      if (subscriptionId === null) return [];
      if (type === 'cancel_requested' || type === 'cancel_forced') cancelled.add(subscriptionId);
      if (type === 'subscription_resumed') cancelled.delete(subscriptionId);
      return type === 'payment_success' && cancelled.has(subscriptionId)
        ? [`payment ${id} after the cancel of ${subscriptionId}`]
        : [];
    });
    return [...onChain, ...afterwards];
  },
  rolesEndAsTheyShould({ subscriptions, payments }, { subscribers, periods }) {
    return subscribers.flatMap(({ role, at, subscriptionId }) => {
      const expected = endings[role](at, periods);
      const status = subscriptions.find(({ id }) => id === subscriptionId)?.status ?? 'missing';
      const paid = payments.filter(
        (row) => row.subscriptionId === subscriptionId && row.status === 'succeeded',
      ).length;
      return status === expected.status && paid === expected.paid
        ? []
        : [
            `${role} from period ${at + 1}: ${status} with ${paid} payments, not ${expected.status} with ${expected.paid} (${subscriptionId})`,
          ];
    });
  },
  allEventTypesSeen({ events }) {
    return contractEventTypes
      .filter((type) => !events.some((event) => event.type === type))
      .map((type) => `no ${type}`);
  },
};

/** Checks all invariants. Returns the breaches by the invariant's name. */
export function checkInvariants(...play: Parameters<Invariant>): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(invariants).map(([name, check]) => [name, check(...play)]),
  );
}

/**
 * Checks only the money invariants, which hold for any database. Returns the breaches by the
 * invariant's name.
 */
export function checkMoney(...play: Parameters<MoneyInvariant>): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(moneyInvariants).map(([name, check]) => [name, check(...play)]),
  );
}
