// Checks at the end: the sandbox's invariants on money and events, and that no payment is collected
// after a cancel. Each returns its breaches in words.
import bs58 from 'bs58';
import { tokenAccountIn } from '../../src/chain/program/accounts.ts';
import { tokenAccountAddress } from '../../src/chain/program/addresses.ts';
import {
  type EventRecord,
  type PaymentRecord,
  readEvents,
  readPayments,
} from '../../src/db/operating/sandbox.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { checkMoney } from '../../src/local/sandbox/invariants.ts';
import type { Offer } from './cast.ts';
import type { Ground } from './ground.ts';
import type { Refunded } from './terms.ts';
import type { SeenPull, SeenTurn, Witness } from './witness.ts';

export interface Attempt {
  subscriptionPda: string;
  subscriptionId: string;
  signature: string;
  state: string;
  /** Unix ms, as the times of ReportedEvent. */
  createdAt: number;
}

export interface ReportedEvent {
  subscriptionId: string;
  subscriptionPda: string;
  type: string;
  final: boolean;
  at: number;
}

/** A refund requested by a merchant. */
export interface Refund {
  id: string;
  paymentId: string;
  merchantWallet: string;
  amount: bigint;
  status: string;
  /** All that is recorded as refunded of the payment. */
  amountRefunded: bigint;
}

/**
 * Time after the event of a cancel in which a transaction may still be sent: rows are read at most
 * 100 ms before a send, plus delays of a busy machine.
 */
const SENT_BEFORE_MS = 3000;
/**
 * Time after a finalized cancel in which a keeper may still act on an older read: the maximum wait
 * of an RPC call and the lag.
 */
const UNSEEN_MS = 15_000;
/** Transactions that commit at the same moment may have begun in another order. */
const SAME_MOMENT_MS = 1000;

interface Span {
  from: number;
  to: number;
  /** Lower bound of the time of the action. */
  notBefore: number;
}

/** All recorded data of the run. */
export interface Books {
  pulls: readonly SeenPull[];
  turns: readonly SeenTurn[];
  payments: PaymentRecord[];
  events: EventRecord[];
  attempts: readonly Attempt[];
  reported: readonly ReportedEvent[];
  refunds: readonly Refund[];
  /** Refunds that landed and whose record a failover lost. */
  lostRefunds: readonly Refunded[];
  /** The merchant of each plan's subscriptions, by the subscription's address. */
  owners: ReadonlyMap<string, string>;
  /** The amount of each subscription's plan, by the subscription's address. */
  planAmounts: ReadonlyMap<string, bigint>;
  /** When each transaction was sent for the last time, in Unix ms, by signature. */
  lastSends: ReadonlyMap<string, number>;
  /** Lamports that transactions on chain cost, by signature. */
  fees: ReadonlyMap<string, bigint>;
  treasuryBalance: bigint;
  merchantBalances: ReadonlyMap<string, bigint>;
  /** Unix ms, less the time in which the machine was suspended. */
  awake: (unixMs: number) => number;
}

/** Reads the data of the database, and adds the data of the witness. */
export async function readBooks(
  ground: Ground,
  offers: readonly Offer[],
  { pulls, turns, fees }: Pick<Witness, 'pulls' | 'turns' | 'fees'>,
  awake: Books['awake'],
): Promise<Books> {
  const { sql } = ground;
  const appIds = offers.map(({ appId }) => appId);
  const [payments, events, attempts, reported, refunds, owners] = await Promise.all([
    readPayments(sql, appIds),
    readEvents(sql, appIds),
    readAttempts(sql),
    readReported(sql),
    readRefunds(sql),
    readOwners(sql),
  ]);
  const merchantBalances = new Map<string, bigint>();
  for (const { merchant } of offers)
    merchantBalances.set(merchant.address, await balanceOf(ground, merchant.address));
  const treasuryBalance = await balanceOf(ground, ground.treasury);
  return {
    pulls,
    turns,
    payments,
    events,
    attempts,
    reported,
    refunds,
    lostRefunds:
      ground.pair === undefined
        ? []
        : ground.refunded.filter((one) => !refunds.some(({ id }) => id === one.id)),
    owners: new Map(owners.map(({ subscriptionPda, owner }) => [subscriptionPda, owner])),
    planAmounts: new Map(owners.map((one) => [one.subscriptionPda, one.amount])),
    lastSends: ground.badNodes.lastSends,
    fees,
    treasuryBalance,
    merchantBalances,
    awake,
  };
}

/** Judges everything; the breaches by name, and figures. Pure. */
export function judge(books: Books) {
  const { pulls, turns, payments, events, attempts, owners, treasuryBalance, awake } = books;
  const recorded = new Set(payments.flatMap(({ txSignature }) => txSignature ?? []));
  const times = inAwakeTime(books);
  // Pulls of a merchant without a live registration are not checked.
  const unregistered = new Set(
    pulls.filter(
      (pull) =>
        pull.source === 'foreign' &&
        !recorded.has(pull.signature) &&
        !isRegistered({ ...pull, seenAt: awake(pull.seenAt) }, times.reported, times.turns),
    ),
  );
  const merchantBalances = new Map(books.merchantBalances);
  for (const { subscriptionPda, gross } of unregistered) {
    const owner = owners.get(subscriptionPda) ?? '';
    merchantBalances.set(owner, (merchantBalances.get(owner) ?? 0n) - gross);
  }
  // Refunded amounts were received before. The record of a refund may be lost in a failover.
  const sent = books.refunds.filter(({ status }) => status === 'succeeded');
  for (const { merchantWallet, amount } of [...sent, ...books.lostRefunds])
    merchantBalances.set(merchantWallet, (merchantBalances.get(merchantWallet) ?? 0n) + amount);
  const known = pulls.filter((pull) => !unregistered.has(pull));
  const breaches: Record<string, string[]> = {
    ...checkMoney(
      { pulls: known, payments, events, treasuryBalance, merchantBalances },
      { treasuryBefore: 0n },
    ),
    nothingAfterCancel: afterCancel(times),
    nothingWhilePaused: whilePaused(times),
    refundsAddUp: wrongRefunds(books),
    everyAttemptEnded: attempts
      .filter(({ state }) => state === 'open')
      .map(({ signature }) => `still open: ${signature}`),
    landedAttemptsRecorded: attempts
      .filter(({ state, signature }) => state === 'landed' && !recorded.has(signature))
      .map(({ signature }) => `landed, but not recorded: ${signature}`),
  };
  return {
    breaches,
    figures: {
      payments: {
        succeeded: payments.filter(({ status }) => status === 'succeeded').length,
        failed: payments.filter(({ status }) => status === 'failed').length,
        foreign: payments.filter(({ source }) => source === 'foreign').length,
        byCredit: payments.filter(({ source }) => source === 'credit').length,
      },
      pullsBooked: known.filter(({ signature }) => recorded.has(signature)).length,
      cheapPayments: payments.filter(
        ({ status, source, subscriptionPda, amountGross }) =>
          status === 'succeeded' &&
          source !== 'credit' &&
          5n * amountGross <= 2n * (books.planAmounts.get(subscriptionPda) ?? 0n),
      ).length,
      pullsOnChain: pulls.length,
      foreignPullsUnregistered: unregistered.size,
      attempts: countBy(attempts.map(({ state }) => state)),
      ...costs(books),
      events: countBy(events.map(({ type }) => type)),
      refunds: countBy(books.refunds.map(({ status }) => status)),
      turnsOnChain: countBy(turns.map(({ kind }) => kind)),
    },
  };
}

/**
 * Cost of the keepers' transactions: lamports of landed and failed ones per succeeded payment, and
 * payments per landed transaction.
 */
function costs({ attempts, payments, fees }: Books) {
  // A transaction has failed if one of its payments has, whatever was known of the others.
  const failedLast = [...attempts].sort(
    (a, b) => Number(a.state === 'failed') - Number(b.state === 'failed'),
  );
  const states = new Map(failedLast.map(({ signature, state }) => [signature, state]));
  const paid = payments.filter((one) => one.status === 'succeeded' && one.source === 'keeper');
  const landed = new Set(paid.map(({ txSignature }) => txSignature));
  const lamports = [...states.keys()].reduce(
    (sum, signature) => sum + (fees.get(signature) ?? 0n),
    0n,
  );
  return {
    transactions: countBy([...states.values()]),
    lamportsPerPayment: Math.round(Number(lamports) / paid.length),
    paymentsPerTransaction: Math.round((10 * paid.length) / landed.size) / 10,
  };
}

type Times = Pick<Books, 'attempts' | 'reported' | 'turns' | 'lastSends'>;

/** The same, with every moment in time that was not slept through. */
function inAwakeTime({ attempts, reported, turns, lastSends, awake }: Books): Times {
  const seen = <T extends { notBefore: number; seenAt: number }>(one: T): T => ({
    ...one,
    notBefore: awake(one.notBefore),
    seenAt: awake(one.seenAt),
  });
  return {
    attempts: attempts.map((one) => ({ ...one, createdAt: awake(one.createdAt) })),
    reported: reported.map((one) => ({ ...one, at: awake(one.at) })),
    turns: turns.map(seen),
    lastSends: new Map([...lastSends].map(([signature, at]) => [signature, awake(at)])),
  };
}

/**
 * Breaches: attempts signed during a cancellation by the events (exactly) or by the chain (after
 * UNSEEN_MS), and transactions sent after the event of a cancellation. Transactions sent earlier
 * may land while their blockhash is valid.
 */
export function afterCancel({ attempts, reported, turns, lastSends }: Times): string[] {
  const cancelled = new Map<string, Span[]>();
  const registered = new Map<string, number>();
  // A resumption may be taken back by a fork after a keeper has seen it: the finalized chain never
  // has it.
  const resumed = new Map<string, Span[]>();
  for (const { subscriptionId, type, at } of reported) {
    if (type === 'subscription_created') registered.set(subscriptionId, at);
    if (type === 'cancel_requested' || type === 'cancel_forced')
      open(cancelled, subscriptionId, at + SAME_MOMENT_MS);
    if (type === 'subscription_resumed') {
      close(cancelled, subscriptionId, at - SAME_MOMENT_MS);
      open(resumed, subscriptionId, at - SAME_MOMENT_MS);
      close(resumed, subscriptionId, at + UNSEEN_MS);
    }
  }
  const onChain = new Map<string, Span[]>();
  for (const { subscriptionPda, kind, notBefore, seenAt } of turns) {
    if (kind === 'cancelled') open(onChain, subscriptionPda, seenAt + UNSEEN_MS, notBefore);
    // Resumed or recreated: keepers may have seen it before it was finalized.
    else close(onChain, subscriptionPda, notBefore - UNSEEN_MS);
  }
  const within = (spans: readonly Span[] | undefined, at: number) =>
    (spans ?? []).some(({ from, to }) => at > from && at < to);
  return attempts.flatMap(({ subscriptionId, subscriptionPda, signature, createdAt }) => {
    // A registration after the cancel means that the account was recreated, even if a fork then
    // reverted that.
    const standing = onChain
      .get(subscriptionPda)
      ?.filter(({ notBefore }) => notBefore >= (registered.get(subscriptionId) ?? 0));
    const late = cancelled
      .get(subscriptionId)
      ?.map((span) => ({ ...span, from: span.from - SAME_MOMENT_MS + SENT_BEFORE_MS }));
    return [
      ...(within(cancelled.get(subscriptionId), createdAt)
        ? [`signed after the cancel of ${subscriptionId} was reported: ${signature}`]
        : []),
      ...(within(standing, createdAt) && !within(resumed.get(subscriptionId), createdAt)
        ? [`signed long after the on-chain cancel of ${subscriptionPda}: ${signature}`]
        : []),
      ...(within(late, lastSends.get(signature) ?? -Infinity)
        ? [`sent after the cancel of ${subscriptionId} was reported: ${signature}`]
        : []),
    ];
  });
}

/** Attempts signed, and transactions sent, while a subscription was paused. */
function whilePaused({ attempts, reported, lastSends }: Times): string[] {
  const paused = new Map<string, Span[]>();
  for (const { subscriptionId, type, at } of reported) {
    if (type === 'subscription_paused') open(paused, subscriptionId, at + SAME_MOMENT_MS);
    if (type === 'subscription_unpaused') close(paused, subscriptionId, at - SAME_MOMENT_MS);
  }
  return attempts.flatMap(({ subscriptionId, signature, createdAt }) => {
    const spans = paused.get(subscriptionId) ?? [];
    const sentAt = lastSends.get(signature) ?? -Infinity;
    const late = SENT_BEFORE_MS - SAME_MOMENT_MS;
    return [
      ...(spans.some(({ from, to }) => createdAt > from && createdAt < to)
        ? [`signed while ${subscriptionId} was paused: ${signature}`]
        : []),
      ...(spans.some(({ from, to }) => sentAt > from + late && sentAt < to)
        ? [`sent while ${subscriptionId} was paused: ${signature}`]
        : []),
    ];
  });
}

/** Recorded refunds of which the payment's sum or the event says something else. */
function wrongRefunds({ refunds, events }: Pick<Books, 'refunds' | 'events'>): string[] {
  const recorded = refunds.filter(({ status }) => status === 'succeeded');
  const reported = events.flatMap(({ type, body }) =>
    type === 'refund_recorded'
      ? [(JSON.parse(body) as { data: { refundId: string } }).data.refundId]
      : [],
  );
  const sumOf = (payment: string) =>
    recorded.reduce(
      (sum, { paymentId, amount }) => (paymentId === payment ? sum + amount : sum),
      0n,
    );
  const times = countBy(reported);
  return [
    ...refunds
      .filter(({ id, status }) => (times[id] ?? 0) !== (status === 'succeeded' ? 1 : 0))
      .map(({ id, status }) => `${status}, and reported ${times[id] ?? 0} times: refund ${id}`),
    ...refunds
      .filter(({ paymentId, amountRefunded }) => amountRefunded !== sumOf(paymentId))
      .map(
        ({ paymentId, amountRefunded }) =>
          `${amountRefunded} refunded of ${paymentId}, recorded ${sumOf(paymentId)}`,
      ),
  ];
}

function open(spans: Map<string, Span[]>, id: string, from: number, notBefore = from): void {
  const known = spans.get(id) ?? [];
  // Forced after a cancel at the period's end: the cancellation is in force since the first
  // request.
  if (known.at(-1)?.to !== Infinity) known.push({ from, to: Infinity, notBefore });
  spans.set(id, known);
}

function close(spans: Map<string, Span[]>, id: string, to: number): void {
  const last = spans.get(id)?.at(-1);
  if (last?.to === Infinity) last.to = to;
}

/**
 * Whether a registration of the account was live when a pull was finalized, with a tolerance around
 * its end. An account closed and recreated at the same address is another subscription, without a
 * registration until the old one has ended.
 */
export function isRegistered(
  { subscriptionPda, seenAt }: Pick<SeenPull, 'subscriptionPda' | 'seenAt'>,
  reported: readonly ReportedEvent[],
  turns: readonly SeenTurn[],
): boolean {
  const lives = new Map<string, Omit<Span, 'notBefore'>>();
  for (const { subscriptionId, subscriptionPda: pda, type, final, at } of reported) {
    if (pda !== subscriptionPda) continue;
    if (type === 'subscription_created') lives.set(subscriptionId, { from: at, to: Infinity });
    const life = lives.get(subscriptionId);
    if (life !== undefined && (type === 'cancel_finalized' || type === 'cancel_forced' || final))
      life.to = Math.min(life.to, at);
  }
  const opened = turns.flatMap((turn) =>
    turn.subscriptionPda === subscriptionPda && turn.kind === 'created' ? [turn.notBefore] : [],
  );
  return [...lives.values()].some(({ from, to }) => {
    const isAnother = opened.some((at) => at > from + UNSEEN_MS && at < seenAt);
    return !isAnother && seenAt > from + UNSEEN_MS && seenAt < to - UNSEEN_MS;
  });
}

async function readAttempts(sql: Sql): Promise<Attempt[]> {
  const rows = await sql<(Omit<Attempt, 'signature'> & { signature: Buffer })[]>`
    select s.subscription_pda, a.subscription_id, t.signature, a.state, (extract(epoch from a.created_at) * 1000)::float8 as created_at
    from payment_attempts a join transactions t on t.id = a.transaction_id join subscriptions s on s.id = a.subscription_id`;
  return rows.map((row) => ({ ...row, signature: bs58.encode(row.signature) }));
}

async function readReported(sql: Sql): Promise<ReportedEvent[]> {
  return sql<ReportedEvent[]>`
    select e.subscription_id, s.subscription_pda, e.type, coalesce((e.body::json #>> '{data,final}') = 'true', false) as final,
      (extract(epoch from e.created_at) * 1000)::float8 as at
    from events e join subscriptions s on s.id = e.subscription_id
    where e.type not in ('payment_success', 'delegation_revoked', 'renewal_upcoming') order by e.subscription_id, e.sequence`;
}

async function readRefunds(sql: Sql): Promise<Refund[]> {
  return sql<Refund[]>`
    select r.id, r.payment_id, l.owner as merchant_wallet, r.amount, r.status, p.amount_refunded
    from refunds r join payments p on p.id = r.payment_id join plans l on l.id = p.plan_id`;
}

/** The merchant and the amount of each on-chain subscription that was ever registered. */
function readOwners(
  sql: Sql,
): Promise<{ subscriptionPda: string; owner: string; amount: bigint }[]> {
  return sql<{ subscriptionPda: string; owner: string; amount: bigint }[]>`
    select distinct s.subscription_pda, p.owner, p.amount from subscriptions s join plans p on p.id = s.plan_id`;
}

async function balanceOf({ rpc, mint }: Ground, owner: string): Promise<bigint> {
  const { accounts } = await rpc.getMultipleAccounts([tokenAccountAddress(owner, mint).address]);
  return tokenAccountIn(accounts[0] ?? null)?.amount ?? 0n;
}

function countBy(values: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values.toSorted()) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}
