import t from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { testApi } from '../../fixtures/http.ts';
import {
  insertEvent,
  insertInvoice,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

/** A signed payment of each of these states. */
async function insertAttempts(sql: Sql, subscriptionId: string, states: readonly string[]) {
  for (const state of states) {
    const invoiceId = await insertInvoice(sql, subscriptionId, { amount: 100n });
    await sql`
      with signed as (
        insert into transactions (signature, bytes, last_valid_block_height, state)
        values (sha512(${state}::bytea), ${state === 'open' ? Buffer.of(1) : null}, 1, ${state === 'unexplained' ? 'expired' : state}) returning id
      )
      insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net,
        state, resolved_at)
      select s.id, ${invoiceId}, s.subscription_pda, signed.id, now(), gen_random_uuid(), 100, 1, 99, ${state}, case when ${state !== 'open'} then now() end
      from signed, subscriptions s where s.id = ${subscriptionId}`;
  }
}

void t.test(
  'a subscription’s timeline lists its payments, events and other records together, newest first',
  async (t) => {
    const api = await testApi(t);
    const [mine, other] = [await api.merchant(), await api.merchant()];
    await api.call('POST', `/merchant/apps/${mine.appId}/webhooks`, {
      token: mine.key,
      body: { url: 'https://a.test/' },
    });
    const planId = await insertPlan(api.sql, mine);
    const subscription = await insertSubscription(api.sql, { appId: mine.appId, planId });
    const payment = await insertPayment(api.sql, subscription, '2026-01-01');
    await api.sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference)
    select app_id, id, subscription_id, 4, 'a reference' from payments where id = ${payment}`;
    await api.sql`update payments set amount_refunded = 7 where id = ${payment}`;
    await insertEvent(api.sql, subscription);
    await insertAttempts(api.sql, subscription, [
      'open',
      'failed',
      'expired',
      'unexplained',
      'landed',
    ]);
    const path = (appId: string, id = subscription) =>
      `/merchant/apps/${appId}/subscriptions/${id}/timeline`;
    const { body } = await api.call<
      { kind: string; what: string; at: string; amount: string; amountRefunded: string }[]
    >('GET', path(mine.appId), {
      token: mine.key,
    });
    t.same(
      body.data.map(({ kind, what }) => (kind === 'attempt' ? what : kind)).sort(),
      ['delivery', 'event', 'expired', 'failed', 'open', 'payment', 'refund', 'unexplained'],
      'an attempt that landed is the payment',
    );
    const entry = (kind: string) => body.data.find((one) => one.kind === kind);
    t.match(entry('payment'), { what: 'succeeded', amountRefunded: '7' });
    t.match(entry('refund'), { what: 'pending', amount: '4', amountRefunded: null });
    const times = body.data.map(({ at }) => at);
    t.same(times, [...times].sort().reverse());
    t.equal((await api.call('GET', path(other.appId), { token: other.key })).status, 404);
    t.equal((await api.call('GET', path(mine.appId), { token: other.key })).status, 403);
    t.equal((await api.call('GET', path(mine.appId, 'none'), { token: mine.key })).status, 404);
  },
);
