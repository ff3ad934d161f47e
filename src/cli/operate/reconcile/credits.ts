// Compares the credit of customers for `billing reconcile`. A repair corrects two values that
// follow from others: a balance (the sum of its movements), and the credit that an invoice has
// spent (its own sums say how much). Every other fault is only reported.
import {
  listWrongBalances,
  listWrongInvoices,
  mendBalance,
  mendInvoice,
} from '../../../db/operating/journal.ts';
import { listCreditFaults } from '../../../db/operating/reconciliation.ts';
import type { Sql, Transaction } from '../../../db/postgres/connect.ts';
import type { Difference } from '../../../domain/collecting/differences.ts';

/** Records a repair in the audit log, in its transaction. */
export type RecordRepair = (tx: Transaction, what: string) => Promise<void>;

const differenceOf = (detail: string, repaired: boolean): Difference => ({
  ...{ kind: 'credits_differ', signature: '', subscriptionPda: '', detail, repaired },
});

/**
 * Reports each customer whose credit does not add up. With `recordRepair`, mends what can be mended
 * first.
 */
export async function compareCredits(
  sql: Sql,
  recordRepair: RecordRepair | undefined,
): Promise<Difference[]> {
  const mended = recordRepair === undefined ? [] : await mendCredits(sql, recordRepair);
  const left = (await listCreditFaults(sql)).map(({ customerId, detail }) =>
    differenceOf(`customer ${customerId}: ${detail}`, false),
  );
  return [...mended.map((detail) => differenceOf(detail, true)), ...left];
}

/** Returns what was changed, as text. */
async function mendCredits(sql: Sql, recordRepair: RecordRepair): Promise<string[]> {
  const mended: string[] = [];
  const mend = (work: (tx: Transaction) => Promise<string | undefined>) =>
    sql.begin(async (tx) => {
      const what = await work(tx);
      if (what === undefined) return;
      await recordRepair(tx, what);
      mended.push(what);
    });
  for (const customerId of await listWrongBalances(sql))
    await mend(async (tx) => {
      const found = await mendBalance(tx, customerId);
      return (
        found &&
        `customer ${customerId}: the balance was ${found.before}, the movements make ${found.balance}`
      );
    });
  for (const id of await listWrongInvoices(sql))
    await mend(async (tx) => {
      const found = await mendInvoice(tx, id);
      return (
        found &&
        `customer ${found.customerId}: the movement of ${found.amount} was missing for invoice ${id}`
      );
    });
  return mended;
}
