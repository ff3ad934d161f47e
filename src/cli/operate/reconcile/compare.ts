// The comparison of `billing reconcile`: (1) each recorded payment must be on chain, (2) each pull
// on chain must be recorded, by a keeper or by another puller (on-chain.ts, missing.ts), (3) the
// sums in the statements must equal the sums on chain (statements.ts), (4) the journal must say of
// each transaction what it has moved (journal.ts). With `repair`, missing payments are recorded and
// credit is mended (credits.ts, unexplained.ts). No recorded payment is changed or deleted.
import bs58 from 'bs58';
import type { FoundTransaction } from '../../../chain/rpc/responses.ts';
import type { Rpc } from '../../../chain/rpc/rpc.ts';
import { readListed } from '../../../chain/rpc/transactions.ts';
import { timeOf, unixSeconds } from '../../../chain/time.ts';
import {
  listRecorded,
  listTreasuries,
  type RecordedPayment,
} from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import type { Pull } from '../../../domain/collecting/chain-view.ts';
import {
  decoded,
  type Difference,
  differenceOf,
  unreadableRecord,
} from '../../../domain/collecting/differences.ts';
import { pullsIn } from '../../../domain/collecting/transaction-pulls.ts';
import { each } from '../../../each.ts';
import { compareCredits, type RecordRepair } from './credits.ts';
import { compareJournal, type PaidRefund } from './journal.ts';
import { compareOnChain, nameUnknown } from './missing.ts';
import { byPlans, pullsOnChain, type ReadTransactions } from './on-chain.ts';
import { registerLost, type Unregistered } from './registrations.ts';
import { compareRefunds, compareStatements, ShownDays } from './statements.ts';
import { compareUnexplained } from './unexplained.ts';

export interface Reconciliation {
  /** Number of recorded payments that were compared with the chain. */
  recorded: number;
  /** Number of pulls on chain, of keepers and others, that were looked up in the payments. */
  onChain: number;
  /**
   * Payments that keepers pulled for plans that are not in this database. Such payments occur when
   * another installation (a cell, docs/operators.md) uses the same keeper wallets. These payments
   * are not compared.
   */
  elsewhere: { pulls: number; plans: number };
  differences: Difference[];
  /**
   * With `repair`: subscription accounts on chain that were not registered, for example because a
   * restore of the database lost the registrations.
   */
  unregistered: Unregistered[];
}

export interface Reconciler {
  sql: Sql;
  rpc: Rpc;
  programId: string;
  /** The current and all former keeper wallets. */
  keepers: readonly string[];
  /** Base URL of the pages. If undefined, differences name only the path of a page. */
  publicUrl?: string;
  /** Records each repair of credit. Default: nothing is recorded. */
  recordRepair?: RecordRepair;
}

const PAGE = 500;
const AT_ONCE = 16;
export interface Range {
  since: Date;
  until: Date;
  repair: boolean;
  /**
   * Called after each step. `onChain` counts the pulls read so far, `recorded` the recorded
   * payments compared so far.
   */
  onProgress?: (progress: { onChain: number; recorded: number }) => void;
}

/**
 * Compares all payments from `since` (inclusive) to `until` (exclusive), by block time. With
 * `repair`, registers lost subscriptions and records missing payments with their events. Reports a
 * transaction as `unreadable` when no endpoint returns the transaction in a readable form.
 */
export async function reconcile(
  reconciler: Reconciler,
  { since, until, repair, onProgress }: Range,
): Promise<Reconciliation> {
  const treasuries = await listTreasuries(reconciler.sql);
  const transactionsRead: ReadTransactions = {
    treasuries,
    transactions: new Map(),
    unreadable: new Map(),
    reached: new Map(),
  };
  const all = await pullsOnChain(reconciler, transactionsRead, { since, until }, (onChain) =>
    onProgress?.({ onChain, recorded: 0 }),
  );
  const { ours, elsewhere } = await byPlans(reconciler.sql, all);
  const collected = ours.filter(({ pull }) => pull.source === 'keeper');
  const listed = [...transactionsRead.unreadable.keys()];
  const unregistered = repair ? await registerLost(reconciler, collected) : [];
  const sumsOnChain = new ShownDays();
  const range = { since, until };
  const { recorded, differences } = await compareRecorded(
    reconciler,
    transactionsRead,
    range,
    sumsOnChain,
    (count) => onProgress?.({ onChain: ours.length, recorded: count }),
  );
  const unfounded = new Set(
    differences
      .filter(({ kind }) => kind === 'not_on_chain' || kind === 'failed_on_chain')
      .map(({ signature }) => signature),
  );
  const read = (signature: string) => transactionOf(reconciler.rpc, transactionsRead, signature);
  const { publicUrl = '', rpc, programId, keepers } = reconciler;
  const chain = { rpc, programId, keepers, treasuries, transactionOf: read };
  const how = { repair, publicUrl, unfounded, chain };
  differences.push(...(await compareOnChain(reconciler.sql, ours, how)));
  differences.push(...(await nameUnknown(reconciler.sql, listed)));
  const { reached } = transactionsRead;
  const recordRepair = repair ? (reconciler.recordRepair ?? recordNothing) : undefined;
  const seen = { range, onChain: ours, reached, read, recordRepair };
  differences.push(...(await compareUnexplained(reconciler.sql, seen)));
  differences.push(...(await compareCredits(reconciler.sql, recordRepair)));
  const paid: PaidRefund[] = [];
  const shown = { shown: sumsOnChain, paid };
  differences.push(...(await compareRefunds(reconciler.sql, range, shown, read)));
  const named = new Set(
    differences.filter((one) => !one.repaired).map(({ signature }) => signature),
  );
  differences.push(...(await compareJournal(reconciler.sql, ours, paid, named)));
  // If this run recorded missing payments, the statements already contain these payments, but
  // `sumsOnChain` does not. The statements are therefore compared by the next run.
  if (!differences.some(({ repaired }) => repaired))
    differences.push(...(await compareStatements(reconciler.sql, range, sumsOnChain)));
  return { recorded, onChain: ours.length, elsewhere, differences, unregistered };
}

const recordNothing: RecordRepair = () => Promise.resolve();

async function compareRecorded(
  { sql, rpc, programId, keepers }: Reconciler,
  seen: ReadTransactions,
  { since, until }: { since: Date; until: Date },
  shown: ShownDays,
  onPage: (count: number) => void,
): Promise<{ recorded: number; differences: Difference[] }> {
  const differences: Difference[] = [];
  let recorded = 0;
  let after: string | null = null;
  for (;;) {
    const page: RecordedPayment[] = await listRecorded(sql, { since, until, after, limit: PAGE });
    recorded += page.length;
    await each(page, AT_ONCE, async (payment) => {
      const { treasuries } = seen;
      const { txSignature, subscriptionPda } = payment;
      const transaction = await transactionOf(rpc, seen, txSignature);
      const pulls =
        transaction === null || 'unreadable' in transaction
          ? []
          : decoded(txSignature, () =>
              pullsIn(transaction, { programId, keepers, treasuries, subscriptionPda }),
            );
      const difference =
        'unreadable' in pulls
          ? unreadableRecord(pulls)
          : transaction !== null && 'unreadable' in transaction
            ? unreadableRecord(transaction)
            : differenceOf(payment, transaction, { pulls, treasuries });
      const { appId, occurredAt, periodStart } = payment;
      if (difference === undefined) {
        const pull = 'unreadable' in pulls ? undefined : pulls.find(startingAt(periodStart));
        // If the node no longer has the block, it returns no time. The recorded time is then used.
        const isTimed =
          transaction !== null && 'blockTime' in transaction && transaction.blockTime !== null;
        const at = pull === undefined || !isTimed ? occurredAt : timeOf(pull.at);
        shown.add(appId, at, occurredAt, sumsOf(payment));
        return;
      }
      shown.leave(appId, occurredAt);
      differences.push({
        ...difference,
        signature: txSignature,
        subscriptionPda,
        repaired: false,
      });
    });
    onPage(recorded);
    after = page.at(-1)?.id ?? null;
    if (page.length < PAGE) return { recorded, differences };
  }
}

const startingAt =
  (start: Date) =>
  ({ periodStart }: Pull) =>
    periodStart === unixSeconds(start);

/** Returns the amounts that a payment adds to the sums of its day in the statement. */
const sumsOf = ({ amountGross, platformFee, amountNet }: RecordedPayment) => ({
  gross: amountGross,
  fees: platformFee,
  net: amountNet,
});

/**
 * Returns the transaction of a recorded payment or refund. Returns null when the signature is
 * malformed, or when no endpoint returns a transaction or a status for the signature.
 */
async function transactionOf(
  rpc: Rpc,
  { transactions, unreadable }: ReadTransactions,
  signature: string,
): Promise<FoundTransaction | null> {
  const transaction = transactions.get(signature) ?? unreadable.get(signature);
  if (transaction !== undefined) return transaction;
  if (bs58.decodeUnsafe(signature)?.length !== 64) return null;
  const found = await readListed(rpc, signature);
  if (!('unreadable' in found) || found.unreadable !== 'missing') return found;
  const { statuses } = await rpc.getSignatureStatuses([signature], {
    history: true,
    everywhere: true,
  });
  return (statuses[0] ?? null) === null ? null : found;
}
