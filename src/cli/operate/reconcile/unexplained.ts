// Attempts of which no history shows whether they landed. Their invoices keep their credit until
// the pull is found. If a history that reaches back to the attempt lacks it, it never landed:
// `--repair` closes the attempt, and the credit comes back.
import type { FoundTransaction } from '../../../chain/rpc/responses.ts';
import { closeUnexplained } from '../../../db/operating/journal.ts';
import {
  listKnown,
  listUnexplained,
  type UnexplainedAttempt,
} from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import type { Difference, PlanPull } from '../../../domain/collecting/differences.ts';
import type { RecordRepair } from './credits.ts';
import { keyOf } from './on-chain.ts';

/** By how much the clocks of Postgres and of the chain may differ at most. */
const MARGIN_MS = 3_600_000;

interface Seen {
  range: { since: Date; until: Date };
  /** The pulls of the range. */
  onChain: readonly PlanPull[];
  /** The slot of the oldest listed transaction of each address. */
  reached: ReadonlyMap<string, bigint>;
  read: (signature: string) => Promise<FoundTransaction | null>;
  /** Undefined without --repair. */
  recordRepair: RecordRepair | undefined;
}

/**
 * Returns a difference for each attempt that became `unexplained` in the range, unless the
 * attempt's payment is recorded or is in `onChain`. With `recordRepair`, closes those that never
 * landed.
 */
export async function compareUnexplained(sql: Sql, seen: Seen): Promise<Difference[]> {
  const attempts = await listUnexplained(sql, seen.range);
  const recorded = await listKnown(
    sql,
    attempts.map(({ signature }) => signature),
  );
  const found = seen.onChain.map(({ subscriptionPda, pull: { signature } }) => ({
    signature,
    subscriptionPda,
  }));
  const isKnown = new Set([...recorded, ...found].map(keyOf));
  const differences: Difference[] = [];
  for (const attempt of attempts) {
    if (isKnown.has(keyOf(attempt))) continue;
    const hasNotLanded = await neverLanded(attempt, seen);
    const closed = hasNotLanded && (await close(sql, attempt, seen.recordRepair));
    const { signature, subscriptionPda } = attempt;
    const detail = hasNotLanded ? detailOfDead(attempt) : detailOfUnknown(attempt);
    differences.push({ kind: 'unexplained', signature, subscriptionPda, detail, repaired: closed });
  }
  return differences;
}

/**
 * Whether the history that was read lacks the attempt and reaches back to its blockhash. No
 * endpoint has its transaction, or it failed.
 */
async function neverLanded(
  { signature, planPda, createdAt, blockhashSlot }: UnexplainedAttempt,
  { range, reached, read }: Seen,
): Promise<boolean> {
  const oldest = reached.get(planPda);
  if (oldest === undefined || oldest > blockhashSlot) return false;
  if (createdAt.getTime() - MARGIN_MS < range.since.getTime()) return false;
  const found = await read(signature);
  return found === null || (!('unreadable' in found) && found.err !== null);
}

async function close(
  sql: Sql,
  { id, subscriptionId, signature, subscriptionPda }: UnexplainedAttempt,
  recordRepair: RecordRepair | undefined,
): Promise<boolean> {
  if (recordRepair === undefined) return false;
  return sql.begin(async (tx) => {
    const credit = await closeUnexplained(tx, { id, subscriptionId });
    if (credit === undefined) return false;
    const what = `attempt ${signature} of ${subscriptionPda}: never landed, ${credit} of credit given back`;
    await recordRepair(tx, what);
    return true;
  });
}

const signedFor = ({ amountGross, periodStart }: UnexplainedAttempt) =>
  `${amountGross.toString()} for the period from ${periodStart.toISOString()} were signed for, and`;

const detailOfDead = (attempt: UnexplainedAttempt) =>
  `${signedFor(attempt)} the history, which reaches back to before, has no such transaction: they were not moved`;

const detailOfUnknown = (attempt: UnexplainedAttempt) =>
  `${signedFor(attempt)} no history shows whether they were moved: ` +
  `compare again with --since ${new Date(attempt.createdAt.getTime() - MARGIN_MS).toISOString()} and an RPC endpoint with the whole history`;
