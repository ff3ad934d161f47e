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

/** The merchant of a wallet. */
export async function findMerchant(sql: Queryable, wallet: string): Promise<MerchantRow | undefined> {
  const [row] = await sql<MerchantRow[]>`select id, wallet, name, email, tier, created_at from merchants where wallet = ${wallet}`;
  return row;
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
