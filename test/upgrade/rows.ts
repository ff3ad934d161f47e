// Rows of subscriptions that have ended, so that the tables that daemons write are large.
import type { Sql } from '../../src/db/postgres/connect.ts';

/** With a digit above 1 and seven more characters behind it, this is the Base58 of 32 bytes. */
const ADDRESS = '1'.repeat(26);
const PLAN = `${ADDRESS}42222222`;
const TABLES = [
  ...['subscriptions', 'subscription_work', 'invoices', 'payments', 'payment_attempts', 'events'],
];

/**
 * Adds `rows` rows to each of subscriptions, subscription_work, invoices, payments,
 * payment_attempts and events, in an app of their own. `sql` is a superuser's.
 */
export async function addRows(sql: Sql, rows: number): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`set local maintenance_work_mem = '256MB'`;
    const indexes = await tx<{ name: string; definition: string }[]>`
      select indexname as name, indexdef as definition from pg_indexes
      where tablename in ${tx(TABLES)} and not exists (select from pg_constraint where conname = indexname)`;
    for (const { name } of indexes) await tx`drop index ${tx(name)}`;
    await tx`insert into merchants (wallet) values ('ended')`;
    await tx`insert into apps (merchant_id, name) select id, 'Ended' from merchants where wallet = 'ended'`;
    await tx`
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours)
      select id, 'Ended', ${PLAN}, 1, ${PLAN}, ${PLAN}, ${PLAN}, ${PLAN}, 100, 24 from apps where name = 'Ended'`;
    await tx`insert into customers (app_id, wallet) select id, 'all' from apps where name = 'Ended'`;
    await tx`
      insert into subscriptions (id, app_id, plan_id, customer_id, subscription_pda, subscriber_wallet, amount, period_hours, status, ended_at, created_at)
      select uuid_v7(), app_id, id, (select id from customers where wallet = 'all'), ${ADDRESS} || '2' || digits, ${ADDRESS} || '3' || digits, 100 + n % 4, 24, 'expired', now(), now()
      from plans cross join generate_series(1, ${rows}::int) n cross join translate(to_char(n, 'FM0000000'), '0', 'A') digits where plan_pda = ${PLAN}`;
    await tx`
      insert into subscription_work (subscription_id, app_id) select id, app_id
      from subscriptions where plan_id in (select id from plans where plan_pda = ${PLAN})`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end,
        amount_gross, platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', '2020-01-01', '2020-01-02', amount, 1, amount - 1, id, now()
      from subscriptions where plan_id in (select id from plans where plan_pda = ${PLAN})`;
    await tx`
      insert into invoices (id, app_id, customer_id, subscription_id, subscription_pda, period_start, period_end, covers_from, covers_to, lines,
        plan_amount, total, amount_due, state, closed_at, due_at, drawn_up_at)
      select id, app_id, customer_id, id, subscription_pda, '2020-01-01', '2020-01-02', '2020-01-01', '2020-01-02',
        jsonb_build_array(jsonb_build_object('kind', 'plan', 'amount', amount::text)), amount, amount, amount, 'paid', now(), '2020-01-01', '2020-01-01'
      from subscriptions where plan_id in (select id from plans where plan_pda = ${PLAN})`;
    await tx`
      insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net,
        state, resolved_at)
      select id, id, subscription_pda, id, '2020-01-01', id, amount, 1, amount - 1, 'landed', now()
      from subscriptions where plan_id in (select id from plans where plan_pda = ${PLAN})`;
    await tx`
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      select uuid_v7(), app_id, id, 1, case amount when 100 then 'cancel_finalized' else 'payment_success' end, '{}', now()
      from subscriptions where plan_id in (select id from plans where plan_pda = ${PLAN})`;
    // The definition of a partitioned table's index would leave the partitions out.
    for (const { definition } of indexes) await tx.unsafe(definition.replace(' ON ONLY ', ' ON '));
  });
  for (const table of TABLES) await sql`vacuum analyze ${sql(table)}`;
}
