// billing merchants, with a running serve that applies the new settings.
import t from 'tap';
import { storeLogo } from '../../../src/db/accounts/app-logos.ts';
import { appendEvents } from '../../../src/domain/outbox/events.ts';
import { runShared } from '../../fixtures/command.ts';
import {
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

const served = await startServe(t);
const { sql } = served;
const env = { DATABASE_URL: served.databaseUrl };

void t.test('merchants show adds up large amounts without rounding', async (t) => {
  const merchant = await insertMerchant(sql, { name: 'Beans' });
  const planId = await insertPlan(sql, merchant);
  const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
  await insertSubscription(sql, { appId: merchant.appId, planId }, { status: 'expired' });
  await insertPayment(sql, subscriptionId, '2026-01-01T00:00:00Z', {
    amountGross: '9007199254740993',
    platformFee: '1',
    amountNet: '9007199254740992',
  });
  await insertPayment(sql, subscriptionId, '2026-02-01T00:00:00Z');
  await insertPayment(sql, subscriptionId, '2026-03-01T00:00:00Z', {
    failureReason: 'insufficient_funds',
    attempt: 1,
  });
  const { code, stdout } = await runShared(['merchants', 'show', merchant.id], env);
  t.equal(code, 0);
  t.match(stdout, /^Collected +9007199264\.740993 USDC in 2 payments, 0\.100001 of it fees$/m);
  t.match(stdout, /^Subscriptions +1 active, 0 past due, 0 cancelled, 1 expired$/m);
  t.match(stdout, /^Fee +1% \(default\)$/m);
  t.match(stdout, new RegExp(`^${merchant.appId} +Coffee +-$`, 'm'));
  t.match(
    JSON.parse((await runShared(['merchants', 'show', merchant.wallet, '--json'], env)).stdout),
    {
      id: merchant.id,
      payments: 2,
      gross: '9007199264740993',
      fees: '100001',
      effectiveFeeBps: 100,
    },
  );
});

void t.test(
  'merchants set-tier applies from the next request, set-fee shows the old fee, list filters by tier',
  async (t) => {
    const merchant = await served.merchant();
    const limit = async () =>
      (
        await fetch(`${served.url}/merchant/profile`, {
          headers: { authorization: `Bearer ${merchant.key}` },
        })
      ).headers.get('ratelimit-limit');
    t.equal(await limit(), '100');
    t.match(await runShared(['merchants', 'set-tier', merchant.wallet, 'pro'], env), {
      code: 0,
      stdout: /is pro now \(1000 requests per minute\); it was free\.$/,
    });
    t.equal(await limit(), '1000');
    t.match(await runShared(['merchants', 'set-tier', merchant.wallet, 'pro'], env), {
      code: 0,
      stdout: /is pro already\.$/,
    });

    t.match(await runShared(['merchants', 'set-fee', merchant.wallet, '25'], env), {
      code: 0,
      stdout: /is 0\.25% now, .*; it was 1% \(default\)\.$/,
    });
    t.same(await sql`select fee_bps from merchants where wallet = ${merchant.wallet}`, [
      { feeBps: 25 },
    ]);
    const back = await runShared(
      ['merchants', 'set-fee', merchant.wallet, 'default', '--json'],
      env,
    );
    t.match(JSON.parse(back.stdout), { wallet: merchant.wallet, feeBps: null, before: 25 });

    t.equal(
      (await runShared(['merchants', 'list', '--tier', 'pro', '--json'], env)).stdout.split('\n')
        .length,
      1,
    );
    t.match((await runShared(['merchants', 'list', '--tier', 'pro'], env)).stdout, merchant.wallet);
  },
);

void t.test(
  'merchants erase removes personal data and leaves the books and other merchants unchanged',
  async (t) => {
    const { merchant: made, ...shop } = await (async () => {
      const merchant = await served.merchant();
      await served.call('PATCH', '/merchant/profile', {
        token: merchant.token,
        body: {
          name: 'Zanzibar Ltd',
          email: 'zanzibar@example.com',
          legalName: 'Zanzibar Ltd',
          legalAddress: '1 Zanzibar Street',
          taxId: 'ZANZIBAR 1',
          keepBuyerDetails: true,
        },
      });
      await served.call('PATCH', `/merchant/apps/${merchant.appId}`, {
        token: merchant.token,
        body: {
          name: 'Zanzibar',
          description: 'zanzibar',
          websiteUrl: 'https://zanzibar.example',
          supportEmail: 'help@zanzibar.example',
          supportUrl: 'https://zanzibar.example/help',
          termsUrl: 'https://zanzibar.example/terms',
          privacyUrl: 'https://zanzibar.example/privacy',
          returnOrigins: ['https://zanzibar.example'],
        },
      });
      await storeLogo(sql, merchant.appId, '0123456789abcdef', {
        contentType: 'image/png',
        image: Buffer.from('zanzibar'),
      });
      await served.call('POST', `/merchant/apps/${merchant.appId}/webhooks`, {
        token: merchant.key,
        body: { url: 'http://127.0.0.1:1/zanzibar' },
      });
      const planId = await insertPlan(sql, merchant);
      await sql`update plans set name = 'Zanzibar plan', collection_blocked_reason = 'puller_removed', chain_created_at = now() where id = ${planId}`;
      await served.call('POST', `/merchant/apps/${merchant.appId}/checkout-sessions`, {
        token: merchant.token,
        body: {
          planId,
          externalId: 'zanzibar-8',
          metadata: { who: 'zanzibar' },
          successUrl: 'https://zanzibar.example/done',
          cancelUrl: 'https://zanzibar.example/back',
        },
      });
      const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
      await sql`update subscriptions set external_id = 'zanzibar-7', own_ids_from = 'merchant', metadata = '{"who": "zanzibar"}' where id = ${subscriptionId}`;
      await insertPayment(sql, subscriptionId, '2026-01-01T00:00:00Z');
      await sql`insert into receipt_details (subscription_id, since, name, address, tax_id, note)
        values (${subscriptionId}, '2026-01-01', 'Zanzibar', 'zanzibar', 'zanzibar', 'zanzibar')`;
      for (let n = 0; n < 3; n += 1)
        await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type: 'payment_success' }]));
      await finishDeliveries(sql, 'failed', undefined);
      await sql`update deliveries set last_response = convert_to('hello zanzibar', 'UTF8')`;
      await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type: 'payment_success' }]));
      const [retried] = await sql<
        { id: string }[]
      >`update delivery_queue set attempts = 1 returning id`;
      await sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status, response)
        values (${retried!.id}, 1, now(), 1, 500, convert_to('zanzibar is closed', 'UTF8'))`;
      return { merchant, subscriptionId };
    })();
    const other = await served.merchant();
    const erase = (...flags: string[]) =>
      runShared(['merchants', 'erase', made.wallet, ...flags], env);
    const everything = async () => {
      const tables = await sql<{ name: string }[]>`
        select relname as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`;
      const texts = await Promise.all(
        tables.map(async ({ name }) => {
          const rows = await sql.unsafe<Record<string, unknown>[]>(`select * from ${name}`);
          return rows.map((row) =>
            Object.values(row)
              .map((value) =>
                Buffer.isBuffer(value)
                  ? value.toString('latin1')
                  : JSON.stringify(value, (_key, part: unknown) =>
                      typeof part === 'bigint' ? String(part) : part,
                    ),
              )
              .join(' '),
          );
        }),
      );
      return texts.flat().join('\n');
    };
    t.match(await everything(), /zanzibar/i);
    const payments = () => sql`select * from payments where app_id = ${made.appId}`;
    const books = await payments();

    t.match(await erase('--yes'), { code: 1, stderr: /1 active or past due.*nothing was erased/s });
    await sql`update subscriptions set status = 'expired', ended_at = now(), past_due_since = null where id = ${shop.subscriptionId}`;
    await sql`update subscription_work set due_at = null where subscription_id = ${shop.subscriptionId}`;
    t.match(await erase(), { code: 2, stderr: /add --yes/ });
    t.match(await everything(), /zanzibar/i, 'nothing happens without a yes');
    const { code, stdout, stderr } = await erase('--yes', '--json');
    t.equal(code, 0, stderr);
    t.match(JSON.parse(stdout), {
      apps: 1,
      plans: 1,
      keys: 1,
      endpoints: 1,
      subscriptions: 1,
      customers: 1,
      checkouts: 1,
      buyers: 1,
      events: 4,
      deliveries: 3,
    });
    t.notMatch(await everything(), /zanzibar/i);
    t.same(await payments(), books, 'payments stay');
    t.equal(
      (await sql`select from events where app_id = ${made.appId}`).length,
      4,
      'sequences have no gap',
    );
    await t.rejects(served.call('GET', '/merchant/profile', { token: made.key }), /401/);
    t.match(await served.call('GET', '/merchant/profile', { token: other.key }), {
      wallet: other.wallet,
    });
    t.match(
      JSON.parse((await erase('--yes', '--json')).stdout),
      {
        apps: 0,
        plans: 0,
        keys: 0,
        customers: 0,
        checkouts: 0,
        buyers: 0,
        events: 0,
        deliveries: 0,
      },
      'a second time there is nothing',
    );
  },
);
