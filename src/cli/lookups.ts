// Arguments that several commands share: ids, times, merchants. Each error states the expected
// form.
import bs58 from 'bs58';
import { findMerchantBy, type MerchantAdminRow } from '../db/merchants.ts';
import type { Queryable } from '../db/postgres/connect.ts';
import { isId } from '../db/postgres/ids.ts';
import { OperatorError } from '../errors.ts';
import { parseMoment } from './terminal/time.ts';

/** An id in lower case. Throws an OperatorError (exit code 2) for anything else. */
export function parseId(text: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw new OperatorError(`"${text}" is not an id: it should be a UUID.`, 2);
  return id;
}

/**
 * A time, in UTC unless it has a zone; null for undefined. Throws an OperatorError (exit code 2).
 */
export function parseTime(flag: string, text: string | undefined): Date | null {
  if (text === undefined) return null;
  const time = parseMoment(text, new Date());
  if (time === undefined) {
    throw new OperatorError(
      `${flag} must be a time such as 2026-11-21T09:00:00Z or "2026-11-21 09:00" (UTC), or 30m, 6h, 7d before now, not "${text}".`,
      2,
    );
  }
  return time;
}

/**
 * The merchant with this id or wallet. Throws an OperatorError: exit code 2 for malformed text, 1
 * when the merchant does not exist.
 */
export async function merchantOf(sql: Queryable, text: string): Promise<MerchantAdminRow> {
  const id = isId(text.toLowerCase()) ? text.toLowerCase() : null;
  if (id === null && bs58.decodeUnsafe(text)?.length !== 32) {
    throw new OperatorError(
      `"${text}" is neither the id of a merchant (a UUID) nor a wallet (a Solana address in Base58).`,
      2,
    );
  }
  const merchant = await findMerchantBy(sql, { id, wallet: text });
  if (merchant === undefined)
    throw new OperatorError(`There is no merchant ${text}: the wallet's first sign-in creates it.`);
  return merchant;
}
