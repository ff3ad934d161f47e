import type { Queryable } from '../postgres/connect.ts';

export interface NonceRow {
  nonce: string;
  wallet: string;
  role: 'merchant' | 'subscriber';
  message: string;
  expiresAt: Date;
}

export async function insertNonce(
  sql: Queryable,
  { nonce, wallet, role, message, expiresAt }: NonceRow,
): Promise<void> {
  await sql`
    insert into auth_nonces (nonce, wallet, role, message, expires_at)
      values (${nonce}, ${wallet}, ${role}, ${message}, ${expiresAt})`;
}

/**
 * Deletes and returns a nonce that has not expired by Postgres's clock. Among concurrent callers,
 * exactly one gets the nonce.
 */
export async function takeNonce(
  sql: Queryable,
  nonce: string,
  wallet: string,
): Promise<NonceRow | undefined> {
  const [row] = await sql<NonceRow[]>`
    delete from auth_nonces where nonce = ${nonce} and wallet = ${wallet} and expires_at > now()
    returning nonce, wallet, role, message, expires_at`;
  return row;
}

/** Deletes up to 1,000 expired nonces and returns the number deleted. */
export async function deleteExpiredNonces(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from auth_nonces where nonce in (select nonce from auth_nonces where expires_at < now()
      order by expires_at limit 1000)`;
  return count;
}
