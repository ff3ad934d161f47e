// The figures add up: whatever customers do in 24 periods, with trials, discounts, pauses and
// refunds, the list, the export and the analytics of any range say what moved between wallet,
// merchant and treasury.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import { insertPayments } from '../../../src/db/money/payments.ts';
import { insertRefund, recordRefund } from '../../../src/db/money/refunds.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { randomAddress, testApi } from '../../fixtures/http.ts';
import { isLong } from '../../fixtures/long.ts';
import { customer, type Life, play, type Story } from '../../fixtures/random-life.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

const HOUR_MS = 3_600_000;
/** More than 24 of the longest periods have. */
const HOURS = 800 * 24;
/** The lives begin in 2027: here, three years before, so that all of them are over. */
const SHIFT_MS = 3 * 365 * 24 * HOUR_MS;
const earlier = (time: Date) => new Date(time.getTime() - SHIFT_MS);
const at = (seconds: bigint) => earlier(timeOf(seconds));

type App = Awaited<ReturnType<Awaited<ReturnType<typeof testApi>>['merchant']>>;

/** Stores a subscription with all that happened to it, as the keeper's statements do. */
async function store(sql: Sql, app: App, life: Life): Promise<void> {
  const { row, payments, refunds } = life;
  const terms = { amount: row.amount.toString(), periodHours: row.periodHours };
  const planId = await insertPlan(sql, app, terms);
  const { appId } = app;
  const id = await insertSubscription(
    sql,
    { appId, planId },
    {
      ...terms,
      status: row.status,
      createdAt: at(life.openedAt),
      endedAt: life.endedAt === null ? null : at(life.endedAt),
      cancelledAt: row.cancelledAt === null ? null : earlier(row.cancelledAt),
      pastDueSince: row.pastDueSince === null ? null : earlier(row.pastDueSince),
    },
  );
  const [parties] = await sql<{ subscriptionPda: string; subscriberWallet: string }[]>`
    select subscription_pda, subscriber_wallet from subscriptions where id = ${id}`;
  const named = (signature: string) =>
    bs58.encode(createHash('sha512').update(`${id} ${signature}`).digest());
  await insertPayments(
    sql,
    payments.map((payment) => ({
      ...payment,
      txSignature: payment.txSignature && named(payment.txSignature),
      ...parties!,
      appId,
      planId,
      subscriptionId: id,
      periodStart: earlier(payment.periodStart),
      periodEnd: earlier(payment.periodEnd),
      occurredAt: earlier(payment.occurredAt),
    })),
    new Map(),
  );
  const ids = new Map(
    (
      await sql<{ id: string; txSignature: string }[]>`
        select id, tx_signature from payments where subscription_id = ${id} and status = 'succeeded'`
    ).map((payment) => [payment.txSignature, payment.id]),
  );
  for (const { signature, amount, at: sentAt } of refunds)
    await sql.begin(async (tx) => {
      const transactionId = ids.get(named(signature))!;
      const asked = { appId, transactionId, subscriptionId: id, amount };
      const blockhash = randomAddress();
      const lifetime = { blockhash, lastValidBlockHeight: 1n, blockhashSlot: 1n };
      const transfer = { reference: randomAddress(), offerId: transactionId };
      const refund = await insertRefund(tx, { ...asked, ...transfer, ...lifetime });
      const landed = { txSignature: randomAddress(), occurredAt: at(sentAt) };
      if ((await recordRefund(tx, refund.id, landed)) === undefined)
        throw new Error('a refund was not recorded');
    });
}

interface Money {
  gross: bigint;
  fees: bigint;
  net: bigint;
  refunded: bigint;
  paymentsSucceeded: number;
  paymentsFailed: number;
}
const nothing: Money = {
  gross: 0n,
  fees: 0n,
  net: 0n,
  refunded: 0n,
  paymentsSucceeded: 0,
  paymentsFailed: 0,
};
const add = (one: Money, other: Money): Money => ({
  gross: one.gross + other.gross,
  fees: one.fees + other.fees,
  net: one.net + other.net,
  refunded: one.refunded + other.refunded,
  paymentsSucceeded: one.paymentsSucceeded + other.paymentsSucceeded,
  paymentsFailed: one.paymentsFailed + other.paymentsFailed,
});

/** Amounts transferred in [from, to) by the model; refunds by the time of their transfer. */
function moved(stories: readonly Story[], from: Date, to: Date): Money {
  const lives = stories.flatMap((story) => story.lives);
  const isIn = (time: Date) => time >= from && time < to;
  const sums = lives.flatMap(({ pulls, payments, refunds }): Money[] => [
    ...pulls
      .filter((pull) => isIn(at(pull.at)))
      .map(({ gross, fee: fees, net }) => ({
        ...{ ...nothing, gross, fees, net },
        paymentsSucceeded: 1,
      })),
    ...payments
      .filter(({ status, occurredAt }) => status === 'failed' && isIn(earlier(occurredAt)))
      .map(() => ({ ...nothing, paymentsFailed: 1 })),
    ...refunds
      .filter((refund) => isIn(at(refund.at)))
      .map(({ amount }) => ({ ...nothing, refunded: amount })),
  ]);
  return sums.reduce(add, nothing);
}

type Transaction = Record<
  'status' | 'amountGross' | 'platformFee' | 'amountNet' | 'amountRefunded',
  string
>;
type Figures = Record<'gross' | 'fees' | 'net' | 'refunded', string> &
  Pick<Money, 'paymentsSucceeded' | 'paymentsFailed'>;

const moneyOf = (figures: Figures): Money => ({
  gross: BigInt(figures.gross),
  fees: BigInt(figures.fees),
  net: BigInt(figures.net),
  refunded: BigInt(figures.refunded),
  paymentsSucceeded: figures.paymentsSucceeded,
  paymentsFailed: figures.paymentsFailed,
});

/** The sum of transactions, with their refunds of any time. */
const sumOf = (rows: readonly Transaction[]): Money =>
  rows
    .map((row) =>
      row.status === 'failed'
        ? { ...nothing, paymentsFailed: 1, refunded: BigInt(row.amountRefunded) }
        : {
            gross: BigInt(row.amountGross),
            fees: BigInt(row.platformFee),
            net: BigInt(row.amountNet),
            refunded: BigInt(row.amountRefunded),
            paymentsSucceeded: 1,
            paymentsFailed: 0,
          },
    )
    .reduce(add, nothing);

void t.test(
  'list, export and analytics show the transferred amounts for all kinds of payments',
  async (t) => {
    const api = await testApi(t);
    let refunded = 0;
    /**
     * The columns of an export that are summed: none of them is ever quoted, and metadata here
     * holds no comma.
     */
    const exported = async (path: string, token: string) => {
      const { text } = await api.call('GET', `${path}/export`, { token });
      const [head = '', ...lines] = text.split('\r\n').slice(0, -1);
      const names = head.split(',');
      return lines.map(
        (line) =>
          Object.fromEntries(
            line.split(',').map((cell, index) => [names[index], cell]),
          ) as Transaction,
      );
    };
    const listed = async (path: string, token: string) => {
      const rows: Transaction[] = [];
      for (let cursor: string | undefined; ;) {
        const query = cursor === undefined ? '' : `&cursor=${cursor}`;
        const url = `${path}?limit=100${query}`;
        const { body, headers } = await api.call<Transaction[]>('GET', url, { token });
        rows.push(...body.data);
        cursor = headers['x-next-cursor'] as string | undefined;
        if (cursor === undefined) return rows;
      }
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(customer, { minLength: 1, maxLength: 3 }),
        fc.array(fc.nat(HOURS), { maxLength: 4 }),
        async (customers, cuts) => {
          const stories = customers.map(play);
          const app = await api.merchant();
          await api.sql`update merchants set tier = 'pro' where id = ${app.merchantId}`;
          for (const life of stories.flatMap(({ lives }) => lives)) await store(api.sql, app, life);

          // The payments of the wallets less their refunds equal the balances of merchant and
          // treasury.
          const first = at(stories[0]!.lives[0]!.openedAt);
          const all = moved(stories, first, new Date());
          const spent = stories.reduce((sum, { wallet }) => sum + wallet.given - wallet.usdc, 0n);
          assert.equal(all.gross - all.refunded, spent);
          assert.equal(all.gross, all.fees + all.net);
          if (all.refunded > 0n) refunded += 1;

          const path = `/merchant/apps/${app.appId}/transactions`;
          assert.deepEqual(sumOf(await listed(path, app.key)), all, 'the list');
          assert.deepEqual(sumOf(await exported(path, app.key)), all, 'the export');

          // Neighbouring ranges, of at most 366 days.
          const bounds = [...new Set([...cuts, 0, 6000, 12_000, 18_000, HOURS])].sort(
            (a, b) => a - b,
          );
          let sum = nothing;
          for (const [index, hours] of bounds.entries()) {
            const next = bounds[index + 1];
            if (next === undefined) break;
            const from = new Date(first.getTime() + hours * HOUR_MS);
            const to = new Date(first.getTime() + next * HOUR_MS);
            const range = `since=${from.toISOString()}&until=${to.toISOString()}`;
            const url = `/merchant/apps/${app.appId}/analytics?${range}`;
            const { body } = await api.call<Figures & { daily: Figures[] }>('GET', url, {
              token: app.key,
            });
            const whole = moneyOf(body.data);
            assert.deepEqual(whole, moved(stories, from, to), 'a range');
            assert.deepEqual(body.data.daily.map(moneyOf).reduce(add, nothing), whole, 'its days');
            sum = add(sum, whole);
            // Each life has a plan of its own.
            if (index > 0) continue;
            const plans = await api.sql<{ id: string }[]>`
              select id from plans where app_id = ${app.appId}`;
            const parts = await Promise.all(
              plans.map(({ id }) =>
                api.call<Figures>('GET', `${url}&planId=${id}`, { token: app.key }),
              ),
            );
            const together = parts.map((part) => moneyOf(part.body.data)).reduce(add, nothing);
            assert.deepEqual(together, whole, 'all plans');
          }
          assert.deepEqual(sum, all, 'all ranges together');
        },
      ),
      { numRuns: Number(process.env.TEST_RUNS ?? (isLong ? 25 : 12)) },
    );
    t.ok(refunded > 3, `${refunded} runs with refunds`);
  },
);
