// Detects data loss in Postgres: a changed WAL timeline after a failover, and transactions on chain
// that the database lacks.
import bs58 from 'bs58';
import type { Queryable } from '../postgres/connect.ts';
import { paidBy, hexOf } from '../postgres/signatures.ts';

/** Records the server's WAL timeline unless a timeline is already recorded. */
export async function recordFirstTimeline(sql: Queryable, timeline: string): Promise<void> {
  await sql`update installation set timeline = ${timeline} where timeline is null`;
}

/**
 * Records a new WAL timeline and the block height until which collection waits. Returns false when
 * another keeper has recorded the timeline.
 */
export async function recordTimeline(
  sql: Queryable,
  {
    before,
    now,
    collectsAfterHeight,
  }: { before: string; now: string; collectsAfterHeight: bigint },
): Promise<boolean> {
  const rows = await sql`
    update installation set timeline = ${now},
      collects_after_height = greatest(collects_after_height, ${collectsAfterHeight})
    where timeline = ${before} returning 1`;
  return rows.length === 1;
}

/**
 * Ends collection's wait for the block height `height`. From then on, keepers read accounts only at
 * `slot` or later.
 */
export async function endWait(
  sql: Queryable,
  { timeline, height, slot }: { timeline: string; height: bigint; slot: bigint },
): Promise<void> {
  await sql`
    update installation set collects_after_height = null,
      reads_from_slot = greatest(reads_from_slot, ${slot})
    where timeline = ${timeline} and collects_after_height = ${height}`;
}

/**
 * Reads the chain time up to which an operator has accepted that the database lacks payments.
 * Older missing payments do not hold collection again. Null when no operator has accepted missing
 * payments.
 */
export async function readAcceptedUntil(sql: Queryable): Promise<Date | null> {
  const [row] = await sql<{ until: Date | null }[]>`
    select history_accepted_until as until from installation`;
  return row?.until ?? null;
}

/** Returns the given signatures that belong to no stored attempt. */
export async function findUncommitted(
  sql: Queryable,
  signatures: readonly string[],
): Promise<Set<string>> {
  if (signatures.length === 0) return new Set();
  const hex = signatures.map(hexOf);
  const rows = await sql<{ signature: Buffer }[]>`
    select decode(hex, 'hex') as signature from unnest(${hex}::text[]) as hex
    where not exists (select from transactions t where t.signature = decode(hex, 'hex'))`;
  return new Set(rows.map(({ signature }) => bs58.encode(signature)));
}

/**
 * Returns the given signatures that belong neither to a stored attempt nor to a succeeded payment.
 */
export async function findMissing(
  sql: Queryable,
  signatures: readonly string[],
): Promise<Set<string>> {
  const missing = await findUncommitted(sql, signatures);
  if (missing.size === 0) return missing;
  const paid = await sql<{ txSignature: string }[]>`
    select tx_signature from payments p where ${paidBy(sql, [...missing])}
      and p.status = 'succeeded'`;
  for (const { txSignature } of paid) missing.delete(txSignature);
  return missing;
}

/** Tells whether any of the addresses belongs to a plan that has not ended. */
export async function hasPlan(sql: Queryable, addresses: readonly string[]): Promise<boolean> {
  const [found] = await sql`
    select from plans where plan_pda = any(${[...addresses]}::text[]) and status <> 'ended'
      limit 1`;
  return found !== undefined;
}
