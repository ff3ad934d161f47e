// The dashboard's search. The text is an id, a signature, an address, a part of a wallet's address,
// or the start of an external id.
import bs58 from 'bs58';
import {
  findByAddress,
  findByExternalId,
  findById,
  findBySignature,
  findByWalletPart,
  type Hit,
  MAX_HITS,
} from '../../db/accounts/search.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { isId } from '../../db/postgres/ids.ts';

const GRAM = 3;
/**
 * Minimum length of a part of a wallet's address. A shorter part matches so many wallets that the
 * index does not help.
 */
const MIN_PART = 4;
const BASE58 = /^[1-9A-HJ-NP-Za-km-z]+$/;
const SIGNATURE_BYTES = 64;
const ADDRESS_BYTES = 32;

/**
 * Finds the subscriptions, payments, refunds and events of an app that match the text. Returns at
 * most MAX_HITS.
 */
export async function search(sql: Queryable, appId: string, text: string): Promise<Hit[]> {
  const id = text.toLowerCase();
  const bytes = BASE58.test(text) ? bs58.decode(text).length : 0;
  const part = walletPart(text);
  const found = await Promise.all([
    findByExternalId(sql, appId, text),
    ...(isId(id) ? [findById(sql, appId, id)] : []),
    ...(bytes === SIGNATURE_BYTES ? [findBySignature(sql, appId, text)] : []),
    ...(bytes === ADDRESS_BYTES ? [findByAddress(sql, appId, text)] : []),
    ...(part === undefined ? [] : [findByWalletPart(sql, appId, part)]),
  ]);
  const hits = new Map(found.flat().map((hit) => [`${hit.kind} ${hit.id}`, hit]));
  return [...hits.values()].slice(0, MAX_HITS);
}

/**
 * Returns the arguments of findByWalletPart for a part of a wallet's address, or for the short form
 * that pages show (`4fX2…9kLm`). Returns undefined when the text cannot be part of an address.
 */
export function walletPart(
  text: string,
): { grams: readonly string[]; pattern: string } | undefined {
  const parts = text.toLowerCase().split('…');
  const fits = (part: string) => part.length >= MIN_PART && part.length <= 44;
  const [only] = parts;
  if (only === undefined || parts.length > 2 || !parts.every(fits)) return undefined;
  if (!/^[1-9a-z]+$/.test(parts.join(''))) return undefined;
  const grams = parts.flatMap((part) =>
    Array.from({ length: part.length - GRAM + 1 }, (_, index) => part.slice(index, index + GRAM)),
  );
  return {
    grams: [...new Set(grams)],
    pattern: parts.length === 1 ? `%${only}%` : parts.join('%'),
  };
}
