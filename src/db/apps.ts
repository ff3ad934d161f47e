import type { Queryable } from './connect.ts';

export interface AppRow {
  id: string;
  merchantId: string;
  name: string;
  description: string | null;
  websiteUrl: string | null;
  createdAt: Date;
  updatedAt: Date;
}

export interface AppFields {
  name?: string | undefined;
  description?: string | null | undefined;
  websiteUrl?: string | null | undefined;
}

export async function insertApp(
  sql: Queryable,
  merchantId: string,
  { name, description, websiteUrl }: AppFields & { name: string },
): Promise<AppRow> {
  const [row] = await sql<AppRow[]>`
    insert into apps (merchant_id, name, description, website_url)
    values (${merchantId}, ${name}, ${description ?? null}, ${websiteUrl ?? null})
    returning *`;
  if (row === undefined) throw new Error('an app was not stored');
  return row;
}

export async function findApp(sql: Queryable, id: string): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`select * from apps where id = ${id}`;
  return row;
}

/** A merchant's apps, newest first. Rows are compared whole, so that nobody walks the primary key for them. */
export function listApps(sql: Queryable, merchantId: string, { after, limit }: { after: string | null; limit: number }): Promise<AppRow[]> {
  return sql<AppRow[]>`
    select * from apps
    where (merchant_id, id) >= (${merchantId}, '00000000-0000-0000-0000-000000000000') and (merchant_id, id) < (${merchantId}, coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by merchant_id desc, id desc limit ${limit}`;
}

/** Writes the fields that are given; null clears one. */
export async function updateApp(sql: Queryable, id: string, { name, description, websiteUrl }: AppFields): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`
    update apps set
      name = coalesce(${name ?? null}, name),
      description = case when ${description !== undefined} then ${description ?? null} else description end,
      website_url = case when ${websiteUrl !== undefined} then ${websiteUrl ?? null} else website_url end,
      updated_at = now()
    where id = ${id}
    returning *`;
  return row;
}
