// Lists the pulls on chain that `billing reconcile` looks up in the recorded payments: those of the
// keeper wallets, and those of the plan's owner or another puller for plans in this database.
import type {
  ConfirmedTransaction,
  SignatureInfo,
  UnreadableTransaction,
} from '../../../chain/rpc/responses.ts';
import type { Rpc } from '../../../chain/rpc/rpc.ts';
import { readListed } from '../../../chain/rpc/transactions.ts';
import { timeOf, unixSeconds } from '../../../chain/time.ts';
import { findPlans, listPublishedPlans } from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import { type PlanPull, planPullsIn } from '../../../domain/collecting/differences.ts';
import { each } from '../../../each.ts';

const AT_ONCE = 16;

interface Parts {
  sql: Sql;
  rpc: Rpc;
  programId: string;
  keepers: readonly string[];
}

/** The treasuries, and the transactions that were read so far, by signature. */
export interface ReadTransactions {
  readonly treasuries: readonly string[];
  readonly transactions: Map<string, ConfirmedTransaction>;
  readonly unreadable: Map<string, UnreadableTransaction>;
  /** The slot of the oldest listed transaction of each address, also if it is not in the range. */
  readonly reached: Map<string, bigint>;
}

/**
 * Splits the pulls into pulls of plans in this database (`ours`) and other pulls, which are only
 * counted.
 */
export async function byPlans(
  sql: Sql,
  pulls: readonly PlanPull[],
): Promise<{ ours: PlanPull[]; elsewhere: { pulls: number; plans: number } }> {
  const plans = new Set(pulls.map(({ planPda }) => planPda));
  const plansHere = await findPlans(sql, [...plans]);
  const ours = pulls.filter(({ planPda }) => plansHere.has(planPda));
  return {
    ours,
    elsewhere: { pulls: pulls.length - ours.length, plans: plans.size - plansHere.size },
  };
}

/**
 * Returns the pulls between `range.since` and `range.until`. A pull names its puller and its plan,
 * so the transactions of the keeper wallets and of the plans are read. Transactions without a block
 * time are included.
 */
export async function pullsOnChain(
  { sql, rpc, programId, keepers }: Parts,
  { treasuries, transactions, unreadable, reached }: ReadTransactions,
  range: { since: Date; until: Date },
  onPulls: (count: number) => void,
): Promise<PlanPull[]> {
  const found: PlanPull[] = [];
  const isRead = new Set<string>();
  const take = async ({ signature }: SignatureInfo) => {
    // A transaction is listed for each address that it names, but is read once.
    if (isRead.has(signature)) return;
    isRead.add(signature);
    const transaction = await readListed(rpc, signature);
    const pulls =
      'unreadable' in transaction
        ? transaction
        : planPullsIn(transaction, { programId, keepers, treasuries });
    if ('unreadable' in pulls) {
      unreadable.set(signature, pulls);
      return;
    }
    if (pulls.length === 0) return;
    if (!('unreadable' in transaction)) transactions.set(signature, transaction);
    found.push(...pulls);
    onPulls(found.length);
  };
  const plans = await listPublishedPlans(sql);
  for (const address of [...keepers, ...plans]) {
    const oldest = await eachListed(rpc, address, range, take);
    if (oldest !== undefined) reached.set(address, oldest);
  }
  return found;
}

/** Tells the pulls of one transaction from different subscriptions apart. */
export const keyOf = (pull: { signature: string; subscriptionPda: string }) =>
  `${pull.signature} ${pull.subscriptionPda}`;

/**
 * Calls `work` for each successful transaction that names `address`. Transactions with a block time
 * before `since`, or at or after `until`, are left out. Returns the slot of the oldest transaction
 * that was listed.
 */
async function eachListed(
  rpc: Rpc,
  address: string,
  { since, until }: { since: Date; until: Date },
  work: (listed: SignatureInfo) => Promise<void>,
): Promise<bigint | undefined> {
  let before: string | undefined;
  let oldest: bigint | undefined;
  for (;;) {
    const page = await rpc.getSignaturesForAddress(address, {
      before,
      limit: 1000,
      commitment: 'finalized',
      everywhere: true,
    });
    const wanted = page.filter(
      ({ err, blockTime }) =>
        err === null &&
        (blockTime === null || (timeOf(blockTime) >= since && timeOf(blockTime) < until)),
    );
    await each(wanted, AT_ONCE, work);
    const last = page.at(-1);
    oldest = last?.slot ?? oldest;
    if (
      last === undefined ||
      page.length < 1000 ||
      (last.blockTime !== null && last.blockTime < unixSeconds(since))
    )
      return oldest;
    before = last.signature;
  }
}
