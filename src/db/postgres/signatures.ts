import bs58 from 'bs58';
import type { Queryable } from './connect.ts';

/** The bytes of a Base58 signature. */
export const bytesOf = (signature: string) => Buffer.from(bs58.decode(signature));

/** Converts a Base58 signature to hex, for decode(..., 'hex'). */
export const hexOf = (signature: string) => bytesOf(signature).toString('hex');

/**
 * SQL condition on `payments p`: the payment has one of these signatures. The comparison of MD5
 * hashes lets Postgres use the index one_payment_per_pull.
 */
export const paidBy = (sql: Queryable, signatures: readonly string[]) => sql`
  md5(p.tx_signature)::uuid = any(array(select md5(signature)::uuid
    from unnest(${[...signatures]}::text[]) as signature))
  and p.tx_signature = any(${[...signatures]}::text[])`;
