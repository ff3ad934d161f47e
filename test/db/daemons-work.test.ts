// What counts as work for a kind of daemon: `billing status` names a kind of which none runs.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { readWork } from '../../src/db/operating/daemons.ts';
import { newId } from '../../src/db/postgres/ids.ts';
import { randomAddress } from '../fixtures/http.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import {
  insertMerchant,
  insertOffer,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../fixtures/rows.ts';

void t.test('a due row in any queue of a daemon counts as work for this daemon', async (t) => {
  const { sql } = await testDatabase(t);
  const merchant = await insertMerchant(sql, { email: 'me@shop.test', mails: true });
  const planId = await insertPlan(sql, merchant);
  const of = { appId: merchant.appId, planId };
  const idle = { serve: true, keeper: false, dispatch: false };
  const now = new Date();
  const work = () => readWork(sql, { sendsMails: false });
  const isWork = async (
    kind: 'keeper' | 'dispatch',
    what: string,
    ends: () => Promise<unknown>,
  ) => {
    t.same(await work(), { ...idle, [kind]: true }, what);
    await ends();
    t.same(await work(), idle, `${what}, ended`);
  };
  t.same(await work(), idle, 'an app and an active plan');

  const subscriptionId = await insertSubscription(sql, of);
  await isWork(
    'keeper',
    'a live subscription',
    () => sql`
      update subscriptions set status = 'cancelled', ended_at = now(), cancelled_at = now(),
        cancel_requested_at = now(), cancel_requested_by = 'merchant', next_payment_due = null`,
  );
  await insertPlan(sql, merchant, { status: 'pending', chainPlanId: 2 });
  await isWork(
    'keeper',
    'a pending plan',
    () => sql`update plans set status = 'active' where status = 'pending'`,
  );
  const paymentId = await insertPayment(sql, subscriptionId, now.toISOString());
  await sql`insert into refunds ${sql({ appId: merchant.appId, paymentId, subscriptionId, amount: '1', reference: randomAddress() })}`;
  await isWork(
    'keeper',
    'a pending refund',
    () => sql`update refunds set status = 'expired', look_at = null`,
  );
  const pda = randomAddress();
  await sql`insert into offers ${sql({ wallet: randomAddress(), blockhash: randomAddress(), lastValidBlockHeight: 1, purpose: 'subscribe', planId, subscriptionPda: pda })}`;
  await isWork(
    'keeper',
    'a sign-up that may land',
    () => sql`update offers set registered_at = now()`,
  );
  await sql`insert into unregistered_subscriptions ${sql({ ...of, subscriptionPda: pda, subscriberWallet: randomAddress() })}`;
  await isWork(
    'keeper',
    'an unregistered subscription',
    () => sql`delete from unregistered_subscriptions`,
  );

  const wallet = randomAddress();
  const offerId = await insertOffer(sql, { wallet, planId, secret: null, origin: null });
  t.same(await work(), idle, 'an offer that its wallet has not signed');
  await sql`update offers set signed = message, signed_at = now() where sponsor is not null`;
  const sponsorship = { offerId, purpose: 'cancel', wallet, address: '', sponsor: randomAddress() };
  await isWork(
    'keeper',
    'a signed offer without a decision',
    () =>
      sql`insert into sponsorships ${sql({ ...sponsorship, planId, subscriptionPda: pda, state: 'refused', reason: 'lapsed', endedAt: now })}`,
  );
  await sql`
    with made as (
      insert into transactions (signature, bytes, last_valid_block_height, blockhash_slot)
      values (${randomBytes(64)}, '\\x00', 1, 1) returning id
    )
    update sponsorships set transaction_id = (select id from made), state = 'open', reason = null,
      ended_at = null,
      claim_id = ${await newId(sql)}, lease_until = now()`;
  await isWork(
    'keeper',
    'an open sponsored transaction',
    () => sql`update sponsorships set state = 'expired', ended_at = now()`,
  );

  await sql`insert into mails ${sql({ merchantId: merchant.id, kind: 'plan_blocked', about: planId, data: {}, open: false })}`;
  await isWork(
    'dispatch',
    'a queued e-mail',
    () => sql`update mails set state = 'sent', due_at = null`,
  );
  t.same(
    await readWork(sql, { sendsMails: true }),
    { ...idle, dispatch: true },
    'an address to confirm, where e-mails are sent',
  );
  await sql`update merchants set email_confirmed_at = now()`;
  t.same(await readWork(sql, { sendsMails: true }), idle, 'a confirmed address');
});
