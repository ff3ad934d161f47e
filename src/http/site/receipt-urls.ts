// Adds the URLs of receipts to lists of payments.
import type { TransactionRow } from '../../db/money/payments.ts';
import { readReceiptLinks } from '../../db/money/receipts.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { receiptUrl } from '../../domain/accounts/receipts.ts';
import type { ApiDeps } from '../door/context.ts';

const keys = new WeakMap<Sql, Uint8Array>();

/** Returns the key for the tokens in receipt URLs. The key never changes, so it is read once. */
export async function receiptKey(sql: Sql): Promise<Uint8Array> {
  const key = keys.get(sql) ?? (await readReceiptLinks(sql)).key;
  keys.set(sql, key);
  return key;
}

type WithReceipt = TransactionRow & { receiptUrl: string | null };

/** Adds `receiptUrl` to a payment's row. A failed payment has no receipt, so its URL is null. */
export async function withReceipt(deps: ApiDeps, row: TransactionRow): Promise<WithReceipt> {
  const links = { key: await receiptKey(deps.sql), publicUrl: deps.publicUrl };
  return Object.assign(row, {
    receiptUrl: row.status === 'succeeded' ? receiptUrl(links, row) : null,
  });
}

export function withReceipts(
  deps: ApiDeps,
  rows: readonly TransactionRow[],
): Promise<WithReceipt[]> {
  return Promise.all(rows.map((row) => withReceipt(deps, row)));
}
