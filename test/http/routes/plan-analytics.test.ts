// Analytics of one plan: its rows alone, and together the plans are the app.
import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import type { components } from '../../../src/client/openapi.ts';
import { testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

type Report = components['schemas']['Analytics'];

const day = (n: number, hour = 12) => new Date(Date.UTC(2026, 0, n, hour));

void t.test(
  'plan analytics counts changes of plan, returns, payments and refunds for each plan',
  async (t) => {
    const api = await testApi(t);
    const { sql } = api;
    const merchant = await api.merchant();
    const { appId } = merchant;
    const [small, large] = [await insertPlan(sql, merchant), await insertPlan(sql, merchant)];
    const put = (planId: string, subscriberWallet: string, at: Date, fields: object = {}) =>
      insertSubscription(
        sql,
        { appId, planId },
        {
          subscriberWallet,
          createdAt: at,
          amount: planId === small ? '1000' : '5000',
          ...fields,
        },
      );
    const replace = (id: string, replacedBy: string, replacedAt: Date) =>
      sql`
      update subscriptions set replaced_by = ${replacedBy}, replaced_at = ${replacedAt},
        cancel_requested_at = ${replacedAt}, cancel_requested_by = 'subscriber' where id = ${id}`;
    // An upgrade at once; a downgrade at the end of the paid time; a change to another plan and
    // back.
    const from = await put(small, 'up', day(1));
    await replace(from, await put(large, 'up', day(4), { replaces: from }), day(4));
    const dear = await put(large, 'down', day(1));
    const cheap = await put(small, 'down', day(2), { replaces: dear, startsAt: day(5) });
    await replace(dear, cheap, day(5));
    await put(small, 'back', day(1), { status: 'cancelled', cancelledAt: day(3) });
    const back = await put(large, 'back', day(5));
    const paid = await insertPayment(sql, from, day(1).toISOString());
    await insertPayment(sql, back, day(6).toISOString(), { failureReason: 'insufficient_funds' });
    await sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    select ${appId}, ${paid}, ${from}, 1500000, ${randomUUID()}, 'succeeded', 'refund', ${day(2)}`;
    const [{ id: transactionId }] = await sql<[{ id: string }]>`
    insert into transactions (signature, last_valid_block_height, state)
    values (${randomBytes(64)}, 1, 'landed') returning id`;
    await sql`insert into sponsorships ${sql({
      offerId: randomUUID(),
      purpose: 'subscribe',
      wallet: 'W',
      address: '',
      sponsor: 'K',
      planId: large,
      transactionId,
      state: 'landed',
      fee: '12000',
      createdAt: day(5),
      endedAt: day(5, 13),
    })}`;

    const read = async (query = '') => {
      const path = `/merchant/apps/${appId}/analytics?from=2026-01-01&to=2026-01-07${query}`;
      const { status, body } = await api.call<Report>('GET', path, { token: merchant.key });
      return { status, report: body.data };
    };
    const { report: ofSmall } = await read(`&planId=${small}`);
    const { report: ofLarge } = await read(`&planId=${large}`);
    t.match(ofSmall, {
      ...{ active: 1, pastDue: 0, cancelled: 1, new: 2, churnRate: null },
      ...{ mrrBefore: '0', mrrNew: '2000', mrrReactivation: '0' },
      ...{ mrrExpansion: '1000', mrrContraction: '1000', mrrChurn: '1000', mrr: '1000' },
      ...{ gross: '10000000', net: '9900000', refunded: '1500000' },
      ...{ paymentsSucceeded: 1, paymentsFailed: 0, sponsored: { subscriptions: 0 } },
    });
    t.match(ofLarge, {
      ...{ active: 1, pastDue: 1, cancelled: 0, new: 2 },
      ...{ mrrBefore: '0', mrrNew: '5000', mrrReactivation: '5000' },
      ...{ mrrExpansion: '5000', mrrContraction: '5000', mrrChurn: '0', mrr: '10000' },
      ...{ gross: '0', net: '0', refunded: '0' },
      ...{ paymentsSucceeded: 0, paymentsFailed: 1, sponsored: { subscriptions: 1 } },
    });

    // Expansion and contraction are what the change moves: of the app the difference.
    const { report: whole } = await read();
    t.match(whole, { mrrExpansion: '4000', mrrContraction: '4000' });
    for (const [one, other, both] of [
      [ofSmall, ofLarge, whole] as const,
      ...whole.daily.map((each, n) => [ofSmall.daily[n]!, ofLarge.daily[n]!, each] as const),
    ]) {
      for (const name of [
        ...(['active', 'pastDue', 'cancelled', 'expired', 'new'] as const),
        ...(['paymentsSucceeded', 'paymentsFailed', 'mrr', 'mrrBefore', 'mrrNew'] as const),
        ...(['mrrReactivation', 'mrrChurn', 'gross', 'fees', 'net', 'refunded'] as const),
      ])
        t.equal(BigInt(one[name]) + BigInt(other[name]), BigInt(both[name]), name);
      for (const each of [one, other, both]) {
        const [before, gained, back, up, down, lost] = (
          [
            'mrrBefore',
            'mrrNew',
            'mrrReactivation',
            'mrrExpansion',
            'mrrContraction',
            'mrrChurn',
          ] as const
        ).map((name) => BigInt(each[name]));
        t.equal(before! + gained! + back! + up! - down! - lost!, BigInt(each.mrr), 'it adds up');
      }
    }

    // A plan of another merchant, or a plan that does not exist, has no rows, as in lists.
    const foreign = await insertPlan(sql, await api.merchant());
    for (const planId of [foreign, '01999999-0000-7000-8000-000000000000'])
      t.match((await read(`&planId=${planId}`)).report, { active: 0, mrr: '0', gross: '0' });
    t.equal((await read('&planId=x')).status, 400);
  },
);

void t.test(
  'MRR ignores a deferred change of plan that is cancelled before its start',
  async (t) => {
    const api = await testApi(t);
    const { sql } = api;
    const merchant = await api.merchant();
    const { appId } = merchant;
    const [small, large] = [await insertPlan(sql, merchant), await insertPlan(sql, merchant)];
    const put = (planId: string, subscriberWallet: string, amount: string, fields: object) =>
      insertSubscription(sql, { appId, planId }, { subscriberWallet, amount, ...fields });
    /** A change from `id` that takes effect on day 5. */
    const changes = async (id: string, to: string, amount: string, fields: object = {}) => {
      const [{ wallet }] = await sql<[{ wallet: string }]>`
      select subscriber_wallet as wallet from subscriptions where id = ${id}`;
      const terms = { replaces: id, createdAt: day(2), startsAt: day(5), ...fields };
      const by = await put(to, wallet, amount, terms);
      await sql`
      update subscriptions set replaced_by = ${by}, replaced_at = ${day(5)},
        cancel_requested_at = ${day(2)}, cancel_requested_by = 'subscriber' where id = ${id}`;
      return by;
    };
    const over = { status: 'cancelled', cancelledAt: day(5) };
    const left = { status: 'cancelled', cancelledAt: day(3) };
    // Down at the period's end, then cancelled: it ends on day 3, before it has begun.
    const ended = await put(large, 'leaves', '5000', { createdAt: day(1), ...over });
    await changes(ended, small, '1000', left);
    // Changed three times before the period's end, and stays.
    const stays = await put(large, 'stays', '7000', { createdAt: day(1), ...over });
    const first = await changes(stays, small, '1000', over);
    const second = await changes(first, large, '5000', over);
    await changes(second, small, '2000');
    // Changed twice, then cancelled.
    const gone = await put(large, 'changes, leaves', '300', { createdAt: day(1), ...over });
    await changes(await changes(gone, small, '100', over), small, '200', left);

    const read = async (from: number, query = '') => {
      const path = `/merchant/apps/${appId}/analytics?from=2026-01-0${from}&to=2026-01-08${query}`;
      const { body } = await api.call<Report>('GET', path, { token: merchant.key });
      return body.data;
    };
    for (const from of [1, 2, 4, 5]) {
      const whole = await read(from);
      const days = [1, 2, 3, 4, 5, 6, 7].filter((each) => each >= from);
      t.same(
        whole.daily.map(({ mrr, active }) => [mrr, active]),
        days.map((each) => (each < 5 ? ['12300', 3] : ['2000', 1])),
        `from day ${from}: the old ones until day 5`,
      );
      t.match(whole, {
        ...{ mrrNew: from === 1 ? '12300' : '0', mrrBefore: from === 1 ? '0' : '12300' },
        ...{ mrrExpansion: '0', mrrContraction: '5000', mrrChurn: '5300', mrr: '2000' },
        ...{ cancelled: 2, active: 1 },
      });
      t.match(
        whole.daily.find((_, index) => days[index] === 5)!,
        { cancelled: 2, mrrChurn: '5300' },
      );
      const [ofSmall, ofLarge] = [
        await read(from, `&planId=${small}`),
        await read(from, `&planId=${large}`),
      ];
      t.match(ofSmall, { mrr: '2000', mrrExpansion: '2000', mrrChurn: '0', cancelled: 0 });
      t.match(ofLarge, { mrr: '0', mrrContraction: '7000', mrrChurn: '5300', cancelled: 2 });
    }
  },
);
