// Movements of customers' credit, for the API and for events. invoices/credits.ts writes them.
import type { CustomerEventContext } from '../delivering/events.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { type Page, pageOf } from '../postgres/lists.ts';

/** A movement of a customer's credit. */
export interface CreditRow {
  id: string;
  customerId: string;
  /** Base units; negative: it lowers the balance. */
  amount: bigint;
  reason: string;
  note: string | null;
  notedBy: string | null;
  invoiceId: string | null;
  transactionId: string | null;
  subscriptionId: string | null;
  /** For a change of plan: name of the plan whose unused part became this credit. Else null. */
  planName: string | null;
  /** The wallet of the subscription. */
  subscriberWallet: string | null;
  createdAt: Date;
}

/** Lists the movements of a customer, newest first. */
export function listCredits(sql: Queryable, customerId: string, page: Page): Promise<CreditRow[]> {
  const key = { column: 'customer_id', value: sql`${customerId}::uuid` };
  return sql<CreditRow[]>`
    select ${columns(sql)}
    from (select ${readColumns(sql)} from credits where ${pageOf(sql, key, page)}) as c
      ${about(sql)}
    order by c.id desc`;
}

/** Lists the newest movements of several customers, newest first. */
export function listNewestCredits(
  sql: Queryable,
  customerIds: readonly string[],
  limit: number,
): Promise<CreditRow[]> {
  const key = { column: 'customer_id', value: sql`owner.id` };
  const page = { after: null, limit };
  return sql<CreditRow[]>`
    select ${columns(sql)} from (
      select each.* from unnest(${[...customerIds]}::uuid[]) as owner (id) cross join lateral (
        select ${readColumns(sql)} from credits where ${pageOf(sql, key, page)}
      ) as each order by each.id desc limit ${limit}
    ) as c ${about(sql)}
    order by c.id desc`;
}

/** The columns of credits that columns() reads. */
const readColumns = (sql: Queryable) => sql`
  id, customer_id, amount, reason, note, noted_by, invoice_id, payment_id, subscription_id,
  created_at`;

/** Joins the subscription of `credits c`, and the plan of its payment. */
const about = (sql: Queryable) => sql`
  left join subscriptions s on s.id = c.subscription_id
  left join payments p on p.id = c.payment_id left join plans l on l.id = p.plan_id`;

/** The columns of a CreditRow, from `credits c` and what about() joins. */
const columns = (sql: Queryable) => sql`
  c.id, c.customer_id, c.amount, c.reason, c.note, c.noted_by, c.invoice_id,
  c.payment_id as transaction_id, c.subscription_id, l.name as plan_name, s.subscriber_wallet,
  c.created_at`;

/** A movement with the customer's balance. */
export interface ChangedCredit extends CreditRow {
  balance: bigint;
}

/** Reads a movement that this transaction has written, with the balance after it. */
export async function readChange(sql: Transaction, id: string): Promise<ChangedCredit> {
  const [row] = await sql<[ChangedCredit]>`
    select ${columns(sql)}, b.balance
    from credits c join credit_balances b on b.customer_id = c.customer_id ${about(sql)}
    where c.id = ${id}`;
  return row;
}

/** The context of the event about a movement. */
export interface CreditEventContext extends CustomerEventContext {
  amount: bigint;
  reason: string;
  balance: bigint;
}

/**
 * Reads the contexts of the events about movements that this transaction has just written, oldest
 * first: the balances are locked since, and nothing else has moved them.
 */
export function readCreditContexts(
  sql: Queryable,
  movementIds: readonly string[],
): Promise<CreditEventContext[]> {
  return sql<CreditEventContext[]>`
    select uuid_v7() as event_id, moved.app_id, moved.customer_id, moved.external_id, moved.wallet,
      moved.merchant_wallet, moved.amount, moved.reason, moved.balance
    from (
      select c.app_id, c.id as customer_id, c.external_id, c.wallet, m.wallet as merchant_wallet,
        k.amount, k.reason, (b.balance - coalesce(sum(k.amount) over (partition by k.customer_id
          order by k.id rows between 1 following and unbounded following), 0))::int8 as balance
      from credits k join credit_balances b on b.customer_id = k.customer_id
        join customers c on c.id = k.customer_id join apps a on a.id = c.app_id
        join merchants m on m.id = a.merchant_id
      where k.id = any(${[...movementIds]}::uuid[]) order by k.id
    ) as moved`;
}
