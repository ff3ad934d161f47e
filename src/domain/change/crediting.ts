// A merchant grants credit to a customer, or takes it back.
import { insertNoted, lockBalances, type NotedCredit } from '../../db/invoices/credits.ts';
import { type ChangedCredit, readChange } from '../../db/money/credit-lists.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { replaceOverdueInvoices } from '../../db/subscriptions/merchant-edits.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { amountDisplay } from '../../format.ts';
import { storeCreditEvents } from '../outbox/events.ts';

/**
 * Maximum balance (base units) after a grant: 1,000,000,000 USDC. What invoices give back and
 * changes of plan make is added later, and the sum must stay below 2^63.
 */
const MAX_BALANCE = 1_000_000_000_000_000n;

/**
 * Stores a grant or a take-back, with its event. After a grant, past-due subscriptions of the
 * customer are due at once, with new invoices. Throws CONFLICT when more is taken back than the
 * balance, VALIDATION_ERROR when the balance would exceed its maximum.
 */
export async function changeCredit(sql: Transaction, change: NotedCredit): Promise<ChangedCredit> {
  const { customerId, amount } = change;
  // Subscriptions are locked before balances. An invoice that is replaced gives its credit back.
  if (amount > 0n) await replaceOverdueInvoices(sql, customerId);
  const before = (await lockBalances(sql, [customerId])).get(customerId) ?? 0n;
  if (before + amount < 0n)
    throw new ServiceError(
      'CONFLICT',
      `The balance is ${amountDisplay(before)} (${before} base units): at most that can be taken back.`,
    );
  if (before + amount > MAX_BALANCE)
    throw invalidField('amount', `must leave a balance of at most ${MAX_BALANCE} base units`);
  const id = await insertNoted(sql, change);
  await storeCreditEvents(sql, [id]);
  return readChange(sql, id);
}
