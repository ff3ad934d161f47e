// Actions of merchants on credit and invoices, with --credits.
import { findInvoice } from '../../src/db/money/invoice-lists.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { findCustomerOf } from '../../src/db/subscriptions/customers.ts';
import { changeCredit } from '../../src/domain/change/crediting.ts';
import { forgive } from '../../src/domain/change/forgiving.ts';
import { ServiceError } from '../../src/errors.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import { type Player, subscriptionOf } from './cast.ts';
import type { Ground } from './ground.ts';
import { findRegistration } from './terms.ts';

export const CREDIT_ACTS = ['grant', 'takeBack', 'forgive'] as const;

/** A forgiven invoice is one of this many that are open. */
const FORGIVEN_AMONG = 100;
/** A grant is at most this many times the plan's amount. */
const PERIODS_GRANTED = 2;

/**
 * A merchant changes the credit of a wallet's customer, or forgives an open invoice of any wallet;
 * resolves with the action and its result. Throws errors of Postgres.
 */
export async function changeCredits(
  { sql }: Ground,
  player: Player,
  kind: (typeof CREDIT_ACTS)[number],
  random: Random,
): Promise<string> {
  try {
    if (kind === 'forgive') return await forgiveOpen(sql, random);
    const found = await findRegistration(sql, subscriptionOf(player));
    if (found === undefined) return `${kind} of nothing`;
    const customerId = (await findCustomerOf(sql, found.id)) ?? '';
    const amount = BigInt(1 + random.below(PERIODS_GRANTED * Number(player.offer.amount)));
    const change = { customerId, note: 'soak', notedBy: 'soak' };
    await sql.begin((tx) =>
      changeCredit(tx, { ...change, amount: kind === 'grant' ? amount : -amount }),
    );
    return kind;
  } catch (error) {
    if (error instanceof ServiceError) return `${kind} ${error.code}`;
    throw error;
  }
}

/** One of the newest open invoices is forgiven, or cannot be because its attempt is in flight. */
async function forgiveOpen(sql: Sql, random: Random): Promise<string> {
  const newest = await sql<{ id: string }[]>`
    select id from invoices where state = 'open' order by id desc limit ${FORGIVEN_AMONG}`;
  const open = newest.length === 0 ? undefined : random.pick(newest);
  const invoice = open && (await findInvoice(sql, open.id));
  if (invoice === undefined) return 'forgive of nothing';
  await sql.begin((tx) => forgive(tx, invoice));
  return 'forgive';
}

/** What became of credit. Amounts are base units. */
export interface CreditFigures {
  /** Movements by reason. */
  movements: Record<string, number>;
  /** Paid invoices of which credit paid all, and of which it paid a part. */
  paidWhole: number;
  paidPartly: number;
  /** Customers with credit, and those of several subscriptions among them. */
  customers: number;
  shared: number;
  left: string;
}

/** Reads the figures of a run with --credits. */
export async function readCreditFigures(sql: Sql): Promise<CreditFigures> {
  const [row] = await sql<[CreditFigures]>`
    select (select coalesce(json_object_agg(reason, n), '{}') from (
        select reason, count(*)::int as n from credits group by reason order by reason
      ) as moved) as movements,
      (select count(*)::int from invoices
        where state = 'paid' and credit_applied > 0 and amount_due = 0) as paid_whole,
      (select count(*)::int from invoices
        where state = 'paid' and credit_applied > 0 and amount_due > 0) as paid_partly,
      (select count(*)::int from credit_balances) as customers,
      (select count(*)::int from credit_balances b where (select count(distinct subscription_pda)
        from subscriptions s where s.customer_id = b.customer_id) > 1) as shared,
      (select coalesce(sum(balance), 0)::text from credit_balances) as left`;
  return row;
}
