// The books against the chain: each recorded payment must be on chain as it is recorded, and each pull of our keeper on chain must be recorded.
// Differences are named; `record` writes what is missing. Nothing is ever deleted or changed.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { ConfirmedTransaction } from '../chain/answers.ts';
import { programEvents } from '../chain/events.ts';
import type { Rpc } from '../chain/rpc.ts';
import { RpcError } from '../chain/rpc-errors.ts';
import type { Sql } from '../db/connect.ts';
import { claimOne, listKnown, listRecorded, listRegistrations, listTreasuries, type RecordedPayment } from '../db/reconciliation.ts';
import { readPaidPeriods } from '../db/payments.ts';
import type { Pull } from '../domain/chain-view.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { settle } from '../domain/settlement.ts';
import { applyPayment, draftOf, isLive } from '../domain/transitions.ts';
import { each } from '../each.ts';
import { pullsIn } from './pulls.ts';

export interface Difference {
  kind: 'not_on_chain' | 'failed_on_chain' | 'other_amounts' | 'other_period' | 'not_recorded' | 'no_subscription' | 'not_readable';
  signature: string;
  /** Empty when it is not known. */
  subscriptionPda: string;
  /** In words: what is recorded and what the chain has. */
  detail: string;
  /** Whether it was put right. */
  repaired: boolean;
}

export interface Reconciliation {
  /** Recorded payments that were compared. */
  recorded: number;
  /** Pulls of our keeper on chain that were compared. */
  onChain: number;
  differences: Difference[];
}

export interface Reconciler {
  sql: Sql;
  rpc: Rpc;
  programId: string;
  keeper: string;
}

const PAGE = 500;
const AT_ONCE = 16;

export interface Range {
  since: Date;
  until: Date;
  repair: boolean;
  /** Told now and then how many pulls were read and how many recorded payments compared. */
  onProgress?: (progress: { onChain: number; recorded: number }) => void;
}

/** Compares everything from `since` (inclusive) to `until` (exclusive), by block time. With `repair`, what is missing is recorded and told. */
export async function reconcile(reconciler: Reconciler, { since, until, repair, onProgress }: Range): Promise<Reconciliation> {
  const seen = new Map<string, ConfirmedTransaction>();
  const { pulls: ours, unread } = await keeperPulls(reconciler, seen, since, until, (onChain) => onProgress?.({ onChain, recorded: 0 }));
  const { recorded, differences } = await compareRecorded(reconciler, seen, since, until, (count) =>
    onProgress?.({ onChain: ours.length, recorded: count }),
  );
  differences.push(...(await compareOnChain(reconciler, ours, repair)));
  differences.push(...(await nameUnread(reconciler, unread)));
  return { recorded, onChain: ours.length, differences };
}

interface KeeperPull {
  subscriptionPda: string;
  pull: Pull;
}

/**
 * Every pull that the keeper made in the range, from the transactions that it signed, also where no endpoint tells when that was; and those that no
 * endpoint has any more.
 */
async function keeperPulls(
  { sql, rpc, programId, keeper }: Reconciler,
  seen: Map<string, ConfirmedTransaction>,
  since: Date,
  until: Date,
  onPulls: (count: number) => void,
): Promise<{ pulls: KeeperPull[]; unread: string[] }> {
  const treasuries = await listTreasuries(sql);
  const found: KeeperPull[] = [];
  const unread: string[] = [];
  let before: string | undefined;
  for (;;) {
    const page = await rpc.getSignaturesForAddress(keeper, { before, limit: 1000, commitment: 'finalized', everywhere: true });
    const wanted = page.filter(
      ({ err, blockTime }) => err === null && (blockTime === null || (timeOf(blockTime) >= since && timeOf(blockTime) < until)),
    );
    await each(wanted, AT_ONCE, async ({ signature }) => {
      const transaction = await rpc.getTransaction(signature, { commitment: 'finalized' });
      if (transaction === null) {
        unread.push(signature);
        return;
      }
      seen.set(signature, transaction);
      const pdas = new Set(
        programEvents(transaction, programId).flatMap((event) => (event.kind === 'transfer' ? [event.subscription] : [])),
      );
      for (const subscriptionPda of pdas) {
        // A plan names one treasury; whichever of ours received is the fee's.
        const receivers = programEvents(transaction, programId).flatMap((event) => (event.kind === 'transfer' ? [event.receiver] : []));
        const treasury = treasuries.find((one) => receivers.includes(one)) ?? '';
        const pulls = pullsIn(transaction, { programId, keeper, treasury, subscriptionPda });
        found.push(...pulls.filter(({ source }) => source === 'keeper').map((pull) => ({ subscriptionPda, pull })));
      }
      onPulls(found.length);
    });
    const last = page.at(-1);
    if (last === undefined || page.length < 1000 || (last.blockTime !== null && last.blockTime < unixSeconds(since)))
      return { pulls: found, unread };
    before = last.signature;
  }
}

async function compareRecorded(
  { sql, rpc, programId, keeper }: Reconciler,
  seen: ReadonlyMap<string, ConfirmedTransaction>,
  since: Date,
  until: Date,
  onPage: (count: number) => void,
): Promise<{ recorded: number; differences: Difference[] }> {
  const differences: Difference[] = [];
  let recorded = 0;
  let after: string | null = null;
  for (;;) {
    const page: RecordedPayment[] = await listRecorded(sql, { since, until, after, limit: PAGE });
    recorded += page.length;
    await each(page, AT_ONCE, async (payment) => {
      const { txSignature, subscriptionPda, treasury } = payment;
      const transaction = seen.get(txSignature) ?? (await transactionOf(rpc, txSignature));
      const pulls = transaction === null ? [] : pullsIn(transaction, { programId, keeper, treasury, subscriptionPda });
      const difference = differenceOf(payment, transaction, pulls);
      if (difference !== undefined) differences.push({ ...difference, signature: txSignature, subscriptionPda, repaired: false });
    });
    onPage(recorded);
    after = page.at(-1)?.id ?? null;
    if (page.length < PAGE) return { recorded, differences };
  }
}

/** A transaction; null where there is none, also under what is no signature at all. */
async function transactionOf(rpc: Rpc, signature: string): Promise<ConfirmedTransaction | null> {
  try {
    return await rpc.getTransaction(signature, { commitment: 'finalized' });
  } catch (error) {
    if (error instanceof RpcError) return null;
    throw error;
  }
}

/** How one recorded payment differs from what its transaction moved; undefined when it does not. Pure. */
function differenceOf(
  payment: RecordedPayment,
  transaction: Pick<ConfirmedTransaction, 'err'> | null,
  pulls: readonly Pull[],
): Pick<Difference, 'kind' | 'detail'> | undefined {
  if (transaction === null) return { kind: 'not_on_chain', detail: 'recorded, but no RPC endpoint has the transaction' };
  if (transaction.err !== null) return { kind: 'failed_on_chain', detail: 'recorded as paid, but the transaction failed' };
  if (pulls.length === 0) return { kind: 'not_on_chain', detail: 'recorded, but the transaction moved nothing under this subscription' };
  const pull = pulls.find(({ periodStart }) => periodStart === unixSeconds(payment.periodStart));
  if (pull?.periodEnd !== unixSeconds(payment.periodEnd)) {
    const periods = pulls.map(({ periodStart, periodEnd }) => `${timeOf(periodStart).toISOString()} to ${timeOf(periodEnd).toISOString()}`);
    return {
      kind: 'other_period',
      detail: `recorded ${payment.periodStart.toISOString()} to ${payment.periodEnd.toISOString()}, the chain has ${periods.join(', ')}`,
    };
  }
  // Where the merchant is the treasury, the chain does not tell fee and net apart.
  const isOneWallet = payment.merchantWallet === payment.treasury;
  const of = (gross: bigint, fee: bigint, net: bigint) =>
    isOneWallet ? gross.toString() : `${gross.toString()} = ${fee.toString()} + ${net.toString()}`;
  const books = of(payment.amountGross, payment.platformFee, payment.amountNet);
  const chain = of(pull.gross, pull.fee, pull.net);
  if (books !== chain) return { kind: 'other_amounts', detail: `recorded ${books}, the chain moved ${chain}` };
  if (pull.source !== payment.source) return { kind: 'other_amounts', detail: `recorded as ${payment.source}, pulled by ${pull.source}` };
  return undefined;
}

async function compareOnChain(reconciler: Reconciler, pulls: readonly KeeperPull[], repair: boolean): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (let start = 0; start < pulls.length; start += PAGE) {
    const page = pulls.slice(start, start + PAGE);
    const known = await listKnown(
      reconciler.sql,
      page.map(({ pull }) => pull.signature),
    );
    const have = new Set(known.map(({ signature, subscriptionPda }) => `${signature} ${subscriptionPda}`));
    for (const { subscriptionPda, pull } of page) {
      if (have.has(`${pull.signature} ${subscriptionPda}`)) continue;
      const moved = `${pull.gross.toString()} for the period from ${timeOf(pull.periodStart).toISOString()}`;
      const about = { signature: pull.signature, subscriptionPda };
      const id = await ownerOf(reconciler.sql, subscriptionPda, pull.signature);
      if (id === undefined) {
        differences.push({
          ...about,
          kind: 'no_subscription',
          detail: `the keeper pulled ${moved}, and nobody is registered`,
          repaired: false,
        });
        continue;
      }
      const repaired = repair && (await record(reconciler.sql, id, pull));
      differences.push({ ...about, kind: 'not_recorded', detail: `the keeper pulled ${moved}, and it is not recorded`, repaired });
    }
  }
  return differences;
}

/** Of transactions that nobody can read, those that the books do not know: recorded ones are named as such, open ones are still watched. */
async function nameUnread({ sql }: Reconciler, unread: readonly string[]): Promise<Difference[]> {
  const known = new Set((await listKnown(sql, [...unread])).map(({ signature }) => signature));
  return unread
    .filter((signature) => !known.has(signature))
    .map((signature) => ({
      kind: 'not_readable',
      signature,
      subscriptionPda: '',
      detail: 'it names the keeper and succeeded, but no RPC endpoint has it any more: it may be a payment that is not recorded',
      repaired: false,
    }));
}

/** The registration that signed the transaction, or else the newest one. */
async function ownerOf(sql: Sql, subscriptionPda: string, signature: string): Promise<string | undefined> {
  const registrations = await listRegistrations(sql, subscriptionPda);
  return (registrations.find(({ signature: signed }) => signed?.includes(signature)) ?? registrations[0])?.id;
}

/** Records one pull with its event, as the keeper would have. False when the period is paid by another one, or a keeper keeps hold of the subscription. */
async function record(sql: Sql, id: string, pull: Pull): Promise<boolean> {
  const periodStart = timeOf(pull.periodStart);
  if ((await readPaidPeriods(sql, [{ subscriptionId: id, periodStart }])).length > 0) return false;
  const claimId = randomUUID();
  for (let tries = 0; !(await claimOne(sql, { id, claimId, leaseSeconds: 30 })); tries += 1) {
    if (tries >= 60) return false;
    await pause(1000);
  }
  const { written } = await settle(
    sql,
    [{ id, claimId, notices: 0 }],
    { chainNow: timeOf(pull.at), signatures: [pull.signature] },
    (row, isRecorded) => {
      const draft = draftOf(row);
      if (!isRecorded(pull.signature)) applyPayment(draft, pull, timeOf(pull.periodEnd));
      // The keeper looks at once whether something else follows from it.
      if (isLive(draft.state)) draft.state.dueAt = timeOf(pull.at);
      return { draft };
    },
  );
  return written.has(id);
}
