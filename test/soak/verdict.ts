// What must hold at the end: the sandbox's invariants on money and events, and that nothing is collected after a cancel. Each gives its breaches
// in words.
import { tokenAccountIn } from '../../src/chain/accounts.ts';
import { tokenAccountAddress } from '../../src/chain/addresses.ts';
import { readEvents, readPayments } from '../../src/db/sandbox.ts';
import type { Sql } from '../../src/db/connect.ts';
import { checkMoney } from '../../src/sandbox/invariants.ts';
import type { Offer } from './cast.ts';
import type { Ground } from './ground.ts';
import type { SeenPull, SeenTurn, Witness } from './witness.ts';

export interface Attempt {
  subscriptionPda: string;
  subscriptionId: string;
  signature: string;
  state: string;
  /** Unix ms, as the times of Told are. */
  createdAt: number;
}

export interface Told {
  subscriptionId: string;
  subscriptionPda: string;
  type: string;
  final: boolean;
  at: number;
}

/** How long after a cancel that is final on chain a keeper may still have acted on an older read: an RPC call's longest wait and the lag. */
const UNSEEN_MS = 15_000;
/** Transactions that commit at the same moment may have begun in another order. */
const SAME_MOMENT_MS = 1000;

interface Span {
  from: number;
  to: number;
}

/** Judges everything; the breaches by name, and figures. */
export async function judge(ground: Ground, offers: readonly Offer[], { pulls, turns }: Witness) {
  const { sql } = ground;
  const appIds = offers.map(({ appId }) => appId);
  const [payments, events, attempts, told] = await Promise.all([
    readPayments(sql, appIds),
    readEvents(sql, appIds),
    readAttempts(sql),
    readTold(sql),
  ]);
  const recorded = new Set(payments.flatMap(({ txSignature }) => txSignature ?? []));
  // What a merchant pulls when nobody is registered is none of our business.
  const unheard = pulls.filter((pull) => pull.source === 'foreign' && !recorded.has(pull.signature) && !isRegistered(pull, told));
  const merchantBalances = new Map<string, bigint>();
  const foreign = (wallet: string) =>
    unheard.filter(({ signature }) => merchantOf.get(signature) === wallet).reduce((sum, { gross }) => sum + gross, 0n);
  const merchantOf = await ownersOf(sql, unheard);
  for (const { merchant } of offers) {
    merchantBalances.set(merchant.address, (await balanceOf(ground, merchant.address)) - foreign(merchant.address));
  }
  const heard = pulls.filter((pull) => !unheard.includes(pull));
  const evidence = { pulls: heard, payments, events, treasuryBalance: await balanceOf(ground, ground.treasury), merchantBalances };
  const breaches: Record<string, string[]> = {
    ...checkMoney(evidence, { treasuryBefore: 0n }),
    nothingAfterCancel: afterCancel(attempts, told, turns),
    everyAttemptEnded: attempts.filter(({ state }) => state === 'open').map(({ signature }) => `still open: ${signature}`),
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
      },
      pullsOnChain: pulls.length,
      foreignPullsUnregistered: unheard.length,
      attempts: countBy(attempts.map(({ state }) => state)),
      events: countBy(events.map(({ type }) => type)),
    },
  };
}

/** Attempts signed while a cancellation stood: as the service has told it (strictly), or as the chain had it (after UNSEEN_MS). */
export function afterCancel(attempts: readonly Attempt[], told: readonly Told[], turns: readonly SeenTurn[]): string[] {
  const cancelled = new Map<string, Span[]>();
  const registered = new Map<string, number>();
  for (const { subscriptionId, type, at } of told) {
    if (type === 'subscription_created') registered.set(subscriptionId, at);
    if (type === 'cancel_requested' || type === 'cancel_forced') open(cancelled, subscriptionId, at + SAME_MOMENT_MS);
    if (type === 'subscription_resumed') close(cancelled, subscriptionId, at - SAME_MOMENT_MS);
  }
  const onChain = new Map<string, Span[]>();
  for (const { subscriptionPda, kind, notBefore, seenAt } of turns) {
    if (kind === 'cancelled') open(onChain, subscriptionPda, seenAt + UNSEEN_MS);
    // It may have been seen before it was final.
    else close(onChain, subscriptionPda, notBefore - UNSEEN_MS);
  }
  const within = (spans: readonly Span[] | undefined, at: number) => (spans ?? []).some(({ from, to }) => at > from && at < to);
  return attempts.flatMap(({ subscriptionId, subscriptionPda, signature, createdAt }) => {
    // What was registered later was opened anew, also when a fork then took the opening back.
    const standing = onChain.get(subscriptionPda)?.filter(({ from }) => from > (registered.get(subscriptionId) ?? 0));
    return [
      ...(within(cancelled.get(subscriptionId), createdAt) ? [`signed after the cancel of ${subscriptionId} was told: ${signature}`] : []),
      ...(within(standing, createdAt) ? [`signed long after the on-chain cancel of ${subscriptionPda}: ${signature}`] : []),
    ];
  });
}

function open(spans: Map<string, Span[]>, id: string, from: number): void {
  const known = spans.get(id) ?? [];
  // Forced after a cancel at the period's end: it stands since the first.
  if (known.at(-1)?.to !== Infinity) known.push({ from, to: Infinity });
  spans.set(id, known);
}

function close(spans: Map<string, Span[]>, id: string, to: number): void {
  const last = spans.get(id)?.at(-1);
  if (last?.to === Infinity) last.to = to;
}

/** Whether a registration of the account lived when a pull became final, give or take the moment in which it ended. */
export function isRegistered({ subscriptionPda, seenAt }: Pick<SeenPull, 'subscriptionPda' | 'seenAt'>, told: readonly Told[]): boolean {
  const lives = new Map<string, Span>();
  for (const { subscriptionId, subscriptionPda: pda, type, final, at } of told) {
    if (pda !== subscriptionPda) continue;
    if (type === 'subscription_created') lives.set(subscriptionId, { from: at, to: Infinity });
    const life = lives.get(subscriptionId);
    if (life !== undefined && (type === 'cancel_finalized' || type === 'cancel_forced' || final)) life.to = Math.min(life.to, at);
  }
  return [...lives.values()].some(({ from, to }) => seenAt > from + UNSEEN_MS && seenAt < to - UNSEEN_MS);
}

async function readAttempts(sql: Sql): Promise<Attempt[]> {
  return sql<Attempt[]>`
    select s.subscription_pda, a.subscription_id, a.signature, a.state, (extract(epoch from a.created_at) * 1000)::float8 as created_at
    from payment_attempts a join subscriptions s on s.id = a.subscription_id`;
}

async function readTold(sql: Sql): Promise<Told[]> {
  return sql<Told[]>`
    select e.subscription_id, s.subscription_pda, e.type, coalesce((e.body::json #>> '{data,final}') = 'true', false) as final,
      (extract(epoch from e.created_at) * 1000)::float8 as at
    from events e join subscriptions s on s.id = e.subscription_id
    where e.type not in ('payment_success', 'delegation_revoked') order by e.subscription_id, e.sequence`;
}

/** The merchant of each pull's subscription. */
async function ownersOf(sql: Sql, pulls: readonly SeenPull[]): Promise<Map<string, string>> {
  const pdas = [...new Set(pulls.map(({ subscriptionPda }) => subscriptionPda))];
  const rows = await sql<{ subscriptionPda: string; owner: string }[]>`
    select distinct s.subscription_pda, p.owner from subscriptions s join plans p on p.id = s.plan_id where s.subscription_pda = any(${pdas}::text[])`;
  const owners = new Map(rows.map(({ subscriptionPda, owner }) => [subscriptionPda, owner]));
  return new Map(pulls.map(({ signature, subscriptionPda }) => [signature, owners.get(subscriptionPda) ?? '']));
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
