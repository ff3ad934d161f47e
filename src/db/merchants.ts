import type { Queryable } from './connect.ts';

export type Tier = 'free' | 'pro';

export interface MerchantRow {
  id: string;
  wallet: string;
  name: string | null;
  email: string | null;
  tier: Tier;
  createdAt: Date;
}

/** Creates the wallet's merchant (tier free) unless there is one. */
export async function ensureMerchant(sql: Queryable, wallet: string): Promise<void> {
  await sql`insert into merchants (wallet) values (${wallet}) on conflict (wallet) do nothing`;
}

/** The merchants of those wallets that have one, in no particular order. */
export function findMerchants(sql: Queryable, wallets: readonly string[]): Promise<MerchantRow[]> {
  return sql<MerchantRow[]>`
    select m.id, m.wallet, m.name, m.email, m.tier, m.created_at
    from unnest(${wallets}::text[]) as wanted (wallet), lateral (select * from merchants where wallet = wanted.wallet limit 1) as m`;
}

/** Writes the fields that are given; null clears one. */
export async function updateMerchant(
  sql: Queryable,
  id: string,
  { name, email }: { name?: string | null | undefined; email?: string | null | undefined },
): Promise<MerchantRow | undefined> {
  const [row] = await sql<MerchantRow[]>`
    update merchants set
      name = case when ${name !== undefined} then ${name ?? null} else name end,
      email = case when ${email !== undefined} then ${email ?? null} else email end,
      updated_at = now()
    where id = ${id}
    returning id, wallet, name, email, tier, created_at`;
  return row;
}
