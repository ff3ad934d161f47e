// A wallet changes to another plan and back at once, just before the end of the old account's
// period on chain. A change back that is registered somewhat late costs what it showed.
import t from 'tap';
import { unixSeconds } from '../../src/chain/time.ts';
import { creditOf } from '../../src/db/invoices/credits.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { startApiStage } from '../fixtures/api-stage.ts';

const WEEK = 168;
/** Not whole cents, so that the rest of two minutes costs something. */
const AMOUNT = 7_000_001n;
/** Seconds between the change back and the end of the old period. */
const REST = 120;

for (const { title, lateSeconds } of [
  { title: 'in the old period', lateSeconds: 0 },
  { title: 'just after the old period', lateSeconds: 180 },
  { title: 'two periods later', lateSeconds: 2 * WEEK * 3600 + 180 },
])
  void t.test(
    `a change back to the old plan that is registered ${title} costs the amount shown`,
    async (t) => {
      const stage = await startApiStage(t);
      const a = await stage.plan({ amount: AMOUNT, periodHours: WEEK });
      const { merchant, appId } = a;
      const made = await stage.plan({ amount: 30_000_000n, periodHours: 1440, merchant });
      await stage.sql`update plans set app_id = ${appId} where id = ${made.id}`;
      const b = { ...made, appId };
      const keeper = await stage.startKeeper();
      const buyer = await stage.buyer(a);
      const first = await buyer.buy();
      await stage.quiet();
      const end = unixSeconds((await stage.row(first)).paidThrough!);
      const change = async (id: string, planId: string) => {
        const { status, body } = await buyer.post<{ transaction: string; credit: string }>(
          `subscriptions/${id}/change`,
          { planId, when: 'now' },
        );
        if (status !== 200) throw new Error(JSON.stringify(body));
        await stage.land(buyer.keypair, body.data.transaction);
        return BigInt(body.data.credit);
      };
      const changed = async () =>
        stage.sql<{ id: string }[]>`select id from subscriptions where plan_id = ${b.id}`;
      await change(first.id, b.id);
      await stage.until('B is registered', async () => (await changed()).length === 1);
      await stage.quiet();
      const [second] = await changed();
      await keeper.stop();
      stage.net.passSeconds(Number(end) - stage.now() - REST);
      const credit = await change(second!.id, a.id);
      if (lateSeconds > 0) stage.net.passSeconds(lateSeconds);
      const { status, body } = await buyer.register(first.pda);
      t.equal(status, 201);
      await stage.startKeeper();
      await stage.quiet();
      const third = { ...first, id: body.data.id };
      const payments = await stage.payments(third);
      const old = payments.filter(({ periodEnd }) => unixSeconds(periodEnd) <= end);
      const [row] = await stage.sql<{ billedFrom: Date; credit: bigint }[]>`
      select s.billed_from, ${creditOf(stage.sql)} as credit from subscriptions s
      where s.id = ${third.id}`;
      const [paid] = await stage.sql<{ coversFrom: Date }[]>`
      select i.covers_from from payments p join invoices i on i.id = p.invoice_id
      where p.subscription_id = ${third.id} order by p.id limit 1`;
      const from = unixSeconds(paid!.coversFrom);
      t.ok(from < end && end - from <= BigInt(REST), 'charged from the change back on');
      t.same(
        old.map(({ source, amountGross, creditSpent }) => ({ source, amountGross, creditSpent })),
        [
          {
            source: 'credit',
            amountGross: 0n,
            creditSpent: (AMOUNT * (end - from)) / BigInt(WEEK * 3600),
          },
        ],
        'the old period costs its rest',
      );
      // Two periods later the first payment on chain is tried late: the rest from then is charged.
      const isLate = lateSeconds > WEEK * 3600;
      t.equal(unixSeconds(row!.billedFrom) > end, isLate);
      const later = payments.filter((one) => !old.includes(one));
      t.ok(later.length <= 1, 'periods between them cost nothing');
      const spent = payments.reduce((sum, { creditSpent }) => sum + creditSpent, 0n);
      const left = row!.credit + spent;
      t.ok(left <= credit && credit - left < 100n, 'the credit is the one that was shown');
      t.equal((await listCreditFaults(stage.sql)).length, 0);
    },
  );
