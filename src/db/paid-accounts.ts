// For which merchants' token accounts the keeper paid the rent. Whoever closes his account gets that rent: it is paid once in a while, not each time.
import { literal } from './arrays.ts';
import type { Queryable } from './connect.ts';

/** Of these wallets those whose token account was paid for within `days`. */
export async function findPaidAccounts(sql: Queryable, wallets: readonly string[], days: number): Promise<string[]> {
  const rows = await sql<{ wallet: string }[]>`
    select wallet from paid_accounts where wallet = any(${literal(wallets)}::text[]) and paid_at > now() - ${days} * interval '1 day'`;
  return rows.map(({ wallet }) => wallet);
}

/** The token accounts of these wallets were just paid for. */
export async function notePaidAccounts(sql: Queryable, wallets: ReadonlySet<string>): Promise<void> {
  await sql`
    insert into paid_accounts (wallet) select unnest(${literal([...wallets].sort())}::text[])
    on conflict (wallet) do update set paid_at = excluded.paid_at`;
}
