// Attempts that ended as unexplained: the account counted a pull that no history showed, so the
// books lack a payment or the merchant's own pull.
import type { Sql } from '../../../db/postgres/connect.ts';
import { listKnown, listUnexplained } from '../../../db/reconciliation.ts';
import type { Difference, KeeperPull } from '../../../domain/collecting/differences.ts';

/**
 * A difference for each attempt that ended as unexplained in the range, unless its pull is recorded
 * or was found on chain now.
 */
export async function nameUnexplained(
  sql: Sql,
  range: { since: Date; until: Date },
  onChain: readonly KeeperPull[],
): Promise<Difference[]> {
  const attempts = await listUnexplained(sql, range);
  const recorded = await listKnown(
    sql,
    attempts.map(({ signature }) => signature),
  );
  const found = onChain.map(({ subscriptionPda, pull: { signature } }) => ({
    signature,
    subscriptionPda,
  }));
  const keyOf = (one: { signature: string; subscriptionPda: string }) =>
    `${one.signature} ${one.subscriptionPda}`;
  const isKnown = new Set([...recorded, ...found].map(keyOf));
  return attempts
    .filter((one) => !isKnown.has(keyOf(one)))
    .map(({ signature, subscriptionPda, amountGross, periodStart, createdAt }) => ({
      kind: 'unexplained',
      signature,
      subscriptionPda,
      detail:
        `${amountGross.toString()} for the period from ${periodStart.toISOString()} were signed for, and no history shows whether they were moved: ` +
        `compare again with --since ${createdAt.toISOString().slice(0, 10)} and an RPC endpoint with the whole history`,
      repaired: false,
    }));
}
