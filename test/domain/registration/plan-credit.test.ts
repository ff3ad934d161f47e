// The credit of a change of plan, from the books.
import t from 'tap';
import { unixSeconds } from '../../../src/chain/time.ts';
import { refundedThrough } from '../../../src/db/invoices/notes.ts';
import { expireRefund, insertRefund, recordRefund } from '../../../src/db/money/refunds.ts';
import { endRefundedAccess } from '../../../src/db/subscriptions/refunded.ts';
import { readTakenOver, takeOver } from '../../../src/domain/registration/plan-credit.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

const START = new Date('2026-01-01T00:00:00Z');
const PERIOD_MS = 730 * 3_600_000;
const underWay = { code: 'CONFLICT', message: /a refund or a change of plan/ };
const PAID_THROUGH = new Date(START.getTime() + PERIOD_MS);
const HALF = unixSeconds(new Date(START.getTime() + PERIOD_MS / 2));

void t.test(
  'a pending refund blocks a change of plan; only a recorded refund reduces its credit',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const merchant = await insertMerchant(sql);
    const { appId } = merchant;
    const planId = await insertPlan(sql, merchant);
    const id = await insertSubscription(
      sql,
      { appId, planId },
      {
        createdAt: START,
        paidThrough: PAID_THROUGH,
      },
    );
    const payment = await insertPayment(sql, id, START.toISOString());
    const ask = (amount: bigint) =>
      insertRefund(sql, {
        ...{ appId, transactionId: payment, subscriptionId: id, amount },
        ...{ reference: randomAddress(), blockhash: randomAddress() },
        ...{ lastValidBlockHeight: 1n, blockhashSlot: 1n, offerId: id },
      });
    const change = { id, when: 'now', at: HALF } as const;
    const credits = async () => {
      const shown = await readTakenOver(sql, change);
      const stored = await sql.begin((tx) => takeOver(tx, change));
      t.same(shown, stored);
      return shown?.credit;
    };
    t.equal(await credits(), 5_000_000n);

    const declined = await ask(9_900_000n);
    await t.rejects(readTakenOver(sql, change), underWay, 'no amounts are shown');
    await t.rejects(
      sql.begin((tx) => takeOver(tx, change)),
      underWay,
      'nor is a change registered',
    );
    t.match(
      await readTakenOver(sql, { ...change, when: 'period_end' }),
      { credit: 0n, startsAt: PAID_THROUGH },
      'a change that takes nothing of the payment is not refused',
    );
    await expireRefund(sql, declined.id);
    t.equal(await credits(), 5_000_000n, 'declined in the wallet: all of the unused part');

    const { id: sent } = await ask(4_000_000n);
    await sql.begin((tx) => recordRefund(tx, sent, { txSignature: 'sent', occurredAt: START }));
    t.equal(await credits(), 3_000_000n, 'refunded: less');
  },
);

void t.test('a refund of a period’s cash part leaves the credit that paid the rest', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const merchant = await insertMerchant(sql);
  const planId = await insertPlan(sql, merchant);
  const parties = { appId: merchant.appId, planId };
  const terms = { createdAt: START, paidThrough: PAID_THROUGH };
  const paid = async (creditSpent: string) => {
    const id = await insertSubscription(sql, parties, terms);
    const amounts = { amountGross: '1000000', platformFee: '10000', amountNet: '990000' };
    const refunded = { amountRefunded: '990000', creditSpent };
    await insertPayment(sql, id, START.toISOString(), { ...amounts, ...refunded });
    return id;
  };
  const credit = async (id: string) => {
    const taken = await readTakenOver(sql, { id, when: 'now', at: HALF });
    return taken?.credit;
  };
  const [mixed, cash] = [await paid('9000000'), await paid('0')];
  t.equal(await credit(mixed), 4_500_000n);
  t.equal(await credit(cash), 0n);
  // The wallet resumes after the refund.
  for (const id of [mixed, cash]) await endRefundedAccess(sql, id);
  t.equal(await credit(mixed), 4_500_000n, 'the period still counts');
  t.match(
    await sql`select ${refundedThrough(sql)} as refunded_through
      from subscriptions s join subscription_work w on w.subscription_id = s.id
      where id = any(${[mixed, cash]}) order by id`,
    [{ refundedThrough: null }, { refundedThrough: PAID_THROUGH }],
    'but not one that was paid with cash alone',
  );
});

void t.test(
  'the paid time of an account counts once, whichever registration paid for it',
  async (t) => {
    const { sql } = await testDatabase(t, { max: 2 });
    const merchant = await insertMerchant(sql);
    const planId = await insertPlan(sql, merchant);
    const parties = { appId: merchant.appId, planId };
    const place = { subscriptionPda: randomAddress(), subscriberWallet: randomAddress() };
    const account = { chainInitId: '1', chainPeriodStart: START };
    const later = (hours: number) => new Date(START.getTime() + hours * 3_600_000);
    const register = (hours: number, fields: object) =>
      insertSubscription(sql, parties, {
        ...place,
        ...account,
        createdAt: later(hours),
        ...fields,
      });
    const ended = { status: 'cancelled', cancelledAt: later(1) };
    const take = async (id: string, when: 'now' | 'period_end' = 'now') => {
      const taken = await readTakenOver(sql, { id, when, at: HALF });
      return { credit: taken?.credit, startsAt: taken?.startsAt };
    };

    const first = await register(0, { ...ended, paidThrough: PAID_THROUGH });
    await insertPayment(sql, first, START.toISOString());
    const second = await register(2, {});
    t.match(await take(second), { credit: 5_000_000n }, 'no keeper has read the second');
    t.match(
      await take(first),
      { credit: 5_000_000n },
      'a change of the first takes from the second',
    );
    t.match(await take(second, 'period_end'), { credit: 0n, startsAt: PAID_THROUGH });

    await sql`update subscription_work set paid_through = ${PAID_THROUGH} where subscription_id = ${second}`;
    t.match(await take(second), { credit: 5_000_000n }, 'a keeper has read it');
    await insertPayment(sql, second, PAID_THROUGH.toISOString());
    const end = new Date(PAID_THROUGH.getTime() + PERIOD_MS);
    await sql`update subscription_work set paid_through = ${end} where subscription_id = ${second}`;
    t.match(await take(second), { credit: 15_000_000n }, 'and has collected the next period');

    await sql`update subscriptions set status = 'cancelled', ended_at = ${later(3)},
    cancelled_at = ${later(3)} where id = ${second}`;
    const other = await register(4, { chainInitId: '2', chainPeriodStart: later(4) });
    t.match(await take(other), { credit: 0n }, 'another account at the address has not paid it');
    t.match(await take(other, 'period_end'), { startsAt: null });
  },
);

void t.test('a deferred change takes over no payment of a newer registration', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const merchant = await insertMerchant(sql);
  const planId = await insertPlan(sql, merchant);
  const parties = { appId: merchant.appId, planId };
  const old = { subscriptionPda: randomAddress(), subscriberWallet: randomAddress() };
  const account = { chainInitId: '1', chainPeriodStart: START };
  const trial = { trialEndsAt: PAID_THROUGH };
  const at = (hours: number) => new Date(START.getTime() + hours * 3_600_000);
  const replaced = await insertSubscription(sql, parties, {
    ...{ ...old, ...account, ...trial, createdAt: START },
    ...{ status: 'cancelled', cancelledAt: at(2) },
  });
  const deferred = await insertSubscription(sql, parties, {
    ...{ subscriberWallet: old.subscriberWallet, createdAt: at(1) },
    ...{ startsAt: PAID_THROUGH, replaces: replaced },
  });
  const again = await insertSubscription(sql, parties, { ...old, ...account, createdAt: at(3) });
  await insertPayment(sql, again, START.toISOString());
  const taken = await readTakenOver(sql, { id: deferred, when: 'now', at: HALF });
  t.match(taken, { parts: [], credit: 0n });
});
