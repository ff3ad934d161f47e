import type { Queryable } from './connect.ts';

export interface SealedSecret {
  id: string;
  secret: Buffer;
}

/** The sealed secrets of live endpoints by id, those after `after`. */
export function listSealedSecrets(sql: Queryable, { after, limit }: { after: string; limit: number }): Promise<SealedSecret[]> {
  return sql<SealedSecret[]>`
    select id, secret from webhook_endpoints where id > ${after}::uuid and deleted_at is null order by id limit ${limit}`;
}

/** Puts `secret` in the place of `before`; false when that is not there any more. */
export async function replaceSealedSecret(
  sql: Queryable,
  { id, before, secret }: { id: string; before: Buffer; secret: Buffer },
): Promise<boolean> {
  const { count } = await sql`update webhook_endpoints set secret = ${secret} where id = ${id}::uuid and secret = ${before}`;
  return count === 1;
}
