// Finds the merchant that a command names by id or wallet.
import bs58 from 'bs58';
import { findMerchantBy, type MerchantAdminRow } from '../../db/accounts/merchants.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { isId } from '../../db/postgres/ids.ts';
import { OperatorError } from '../../errors.ts';

/**
 * Returns the merchant with this id or wallet. Throws an OperatorError, with exit code 2 for
 * malformed text and 1 for an unknown merchant.
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
