// The search box of the dashboard: each kind of text finds its record, in the caller's app alone.
import bs58 from 'bs58';
import t from 'tap';
import { walletPart } from '../../../src/domain/accounts/search.ts';
import { testApi } from '../../fixtures/http.ts';
import {
  insertEvent,
  insertInvoice,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

interface Hit {
  kind: string;
  id: string;
  subscriptionId: string;
  externalId: string;
  what: string;
}

void t.test('search finds a record by each kind of text, only in its app', async (t) => {
  const api = await testApi(t);
  const { sql } = api;
  const [mine, other] = [await api.merchant(), await api.merchant()];
  const subscribe = async ({ appId, wallet }: typeof mine, externalId: string | null) => {
    const planId = await insertPlan(sql, { appId, wallet });
    return insertSubscription(sql, { appId, planId }, { externalId });
  };
  const alice = await subscribe(mine, 'alice@example.test');
  const alice2 = await subscribe(mine, 'alice');
  await subscribe(mine, null);
  const strangers = await subscribe(other, 'alice');
  const paid = await insertPayment(sql, alice, '2026-01-01');
  const signature = bs58.encode(Buffer.alloc(64, 7));
  await sql`update payments set tx_signature = ${signature} where id = ${paid}`;
  const failedSignature = bs58.encode(Buffer.alloc(64, 8));
  const failed = await insertPayment(sql, alice, '2026-02-01', {
    failureReason: 'insufficient_funds',
    txSignature: failedSignature,
  });
  await sql`
    with signed as (
      insert into transactions (signature, last_valid_block_height, state)
      values (${Buffer.alloc(64, 8)}, 1, 'failed') returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start,
      claim_id, amount_gross, platform_fee, amount_net, state, resolved_at)
    select s.id, ${await insertInvoice(sql, alice, { amount: 100n })}, s.subscription_pda, signed.id, now(), gen_random_uuid(), 100, 1, 99, 'failed', now()
    from signed, subscriptions s where s.id = ${alice}`;
  const refundSignature = bs58.encode(Buffer.alloc(64, 9));
  const [refund] = await sql<{ id: string }[]>`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    select app_id, id, subscription_id, 4, 'a reference', 'succeeded', ${refundSignature}, now()
    from payments where id = ${paid} returning id`;
  const { eventId } = await insertEvent(sql, alice);
  const [row] = await sql<{ subscriberWallet: string; subscriptionPda: string }[]>`
    select subscriber_wallet, subscription_pda from subscriptions where id = ${alice}`;
  const { subscriberWallet: wallet, subscriptionPda: address } = row!;

  const find = async (q: string, { appId, key } = mine) => {
    const path = `/merchant/apps/${appId}/search?q=${encodeURIComponent(q)}`;
    const { status, body } = await api.call<Hit[]>('GET', path, { token: key });
    t.equal(status, 200, q);
    return body.data;
  };
  const ids = async (q: string) => (await find(q)).map(({ kind, id }) => `${kind} ${id}`);
  for (const [q, found] of [
    ['alice', [`subscription ${alice2}`, `subscription ${alice}`]],
    ['alice@', [`subscription ${alice}`]],
    ['lice', []],
    [wallet, [`subscription ${alice}`]],
    [wallet.slice(0, 4), [`subscription ${alice}`]],
    [wallet.slice(7, 15).toLowerCase(), [`subscription ${alice}`]],
    [`${wallet.slice(0, 4)}…${wallet.slice(-4)}`, [`subscription ${alice}`]],
    [`${wallet.slice(-4)}…${wallet.slice(0, 4)}`, []],
    [wallet.slice(0, 3), []],
    [address, [`subscription ${alice}`]],
    [alice.toUpperCase(), [`subscription ${alice}`]],
    [strangers, []],
    [paid, [`payment ${paid}`]],
    [eventId, [`event ${eventId}`]],
    [refund!.id, [`refund ${refund!.id}`]],
    [signature, [`payment ${paid}`]],
    [failedSignature, [`payment ${failed}`]],
    [refundSignature, [`refund ${refund!.id}`]],
    ['%', []],
    ['\\', []],
  ] as const)
    t.same(await ids(q), found, q);
  t.match(await find(eventId), [
    { subscriptionId: alice, externalId: 'alice@example.test', what: 'payment_success' },
  ]);
  const path = `/merchant/apps/${mine.appId}/search?q=alice`;
  t.equal((await api.call('GET', path, { token: other.key })).status, 403);
  const bare = await api.call<Hit[]>('GET', path.replace('?q=alice', ''), { token: mine.key });
  t.same(bare.body.data, []);
  t.equal((await api.call('GET', path.replace('alice', ''), { token: mine.key })).status, 400);
});

void t.test('a part of a wallet address is found by its groups of three characters', async (t) => {
  t.same(walletPart('aBcDe'), { grams: ['abc', 'bcd', 'cde'], pattern: '%abcde%' });
  t.same(walletPart('abcd…wxyz'), { grams: ['abc', 'bcd', 'wxy', 'xyz'], pattern: 'abcd%wxyz' });
  for (const none of ['abc', 'abcd…wx', 'ab cd', 'abcd_', 'a'.repeat(45), 'abcd…abcd…abcd'])
    t.equal(walletPart(none), undefined, none);
});
