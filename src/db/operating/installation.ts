// Settings that all daemons of a database must share. Every plan contains the mint, keeper and
// treasury addresses. A daemon with other addresses would create plans that no keeper can collect.
// A keeper with another fee would split payments differently.
import type { Queryable, Sql } from '../postgres/connect.ts';

/**
 * Addresses are in Base58. The first keeper and the first treasury are in use; the others are
 * backups. `feeBps` is the platform fee in basis points. `windowSeconds` is the collection window
 * (domain/collecting/window.ts).
 */
export interface Installation {
  cluster: string;
  mint: string;
  programId: string;
  keepers: string[];
  treasuries: string[];
  feeBps: number;
  windowSeconds: number;
}

/** Reads the recorded installation. Returns undefined before the first daemon has started. */
export async function findInstallation(sql: Queryable): Promise<Installation | undefined> {
  const [row] = await sql<Installation[]>`
    select cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds from installation`;
  return row;
}

/** Records `configured` if no installation is recorded. Returns the recorded installation. */
export async function claimInstallation(sql: Sql, configured: Installation): Promise<Installation> {
  const found = await findInstallation(sql);
  if (found !== undefined) return found;
  await sql`
    insert into installation
      (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values (${configured.cluster}, ${configured.mint}, ${configured.programId},
      ${configured.keepers}, ${configured.treasuries},
      ${configured.feeBps}, ${configured.windowSeconds})
    on conflict do nothing`;
  return (await findInstallation(sql)) ?? configured;
}

export async function replaceInstallation(sql: Queryable, next: Installation): Promise<void> {
  await sql`
    insert into installation
      (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values (${next.cluster}, ${next.mint}, ${next.programId}, ${next.keepers}, ${next.treasuries},
      ${next.feeBps}, ${next.windowSeconds})
    on conflict (single) do update set cluster = excluded.cluster, mint = excluded.mint,
      program_id = excluded.program_id,
      keepers = excluded.keepers, treasuries = excluded.treasuries, fee_bps = excluded.fee_bps,
        window_seconds = excluded.window_seconds, updated_at = now()`;
}

/**
 * Counts plans that have not ended, up to 100,000. `mint`, `keeper` and `treasury` count the plans
 * whose mint, keeper or treasury is not among the given addresses.
 */
export async function countOtherPlans(
  sql: Queryable,
  { mint, keepers, treasuries }: Pick<Installation, 'mint' | 'keepers' | 'treasuries'>,
): Promise<{ plans: number; mint: number; keeper: number; treasury: number }> {
  const [row] = await sql<{ plans: number; mint: number; keeper: number; treasury: number }[]>`
    select count(*)::int as plans, count(*) filter (where mint <> ${mint})::int as mint,
      count(*) filter (where puller <> all (${keepers}))::int as keeper,
      count(*) filter (where treasury <> all (${treasuries}))::int as treasury
    from (select mint, puller, treasury from plans where status <> 'ended' limit 100000) as live`;
  return row ?? { plans: 0, mint: 0, keeper: 0, treasury: 0 };
}
