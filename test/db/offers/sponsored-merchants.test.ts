// The fees that a merchant has brought: every payment counts at once, and once.
import t from 'tap';
import { countFees, findStanding } from '../../../src/db/offers/sponsored-merchants.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { firstIdAt } from '../../../src/db/postgres/ids.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import {
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';

void t.test('fees of a merchant are counted once by any number of keepers', async (t) => {
  const { sql, url } = await testDatabase(t);
  const keepers = [1, 2].map(() => {
    const keeper = connect(asRole(url, 'keeper'), { max: 2, name: 'billing test' });
    t.teardown(() => keeper.end());
    return keeper;
  });
  const serve = connect(asRole(url, 'serve'), { max: 1, name: 'billing test' });
  t.teardown(() => serve.end());
  const merchant = await insertMerchant(sql);
  const other = await insertMerchant(sql);
  const pays = async ({ appId, wallet }: typeof merchant) => {
    const planId = await insertPlan(sql, { appId, wallet });
    const subscriptionId = await insertSubscription(sql, { appId, planId });
    let days = 0;
    return async (hoursAgo: number, fields: Record<string, unknown>) => {
      const id = firstIdAt(new Date(Date.now() - hoursAgo * 3600_000 + (days += 1)));
      const occurredAt = new Date(Date.UTC(2020, 0, days)).toISOString();
      await insertPayment(sql, subscriptionId, occurredAt, { id, ...fields });
    };
  };
  const [one, two] = [await pays(merchant), await pays(other)];
  const fee = (platformFee: number) => ({
    ...{ platformFee, amountGross: 100 * platformFee, amountNet: 99 * platformFee },
  });
  const fees = async ({ id }: typeof merchant) => (await findStanding(serve, id))?.fees;
  const counted = async () => {
    const [row] = await sql<[{ fees: bigint }]>`
      select coalesce(sum(fees), 0)::int8 as fees from merchant_fees`;
    return row.fees;
  };
  await sql`update fees_counted set until = now() - interval '60 hours'`;
  await one(50, fee(1));
  await one(40, fee(10));
  await two(30, fee(1000));
  await one(20, fee(100));
  await one(20, { ...fee(5000), failureReason: 'insufficient_funds' });
  await one(0, fee(100_000));
  t.equal(await fees(merchant), 100_111n, 'before any keeper has counted');
  const both = () => Promise.all(keepers.map(countFees));
  t.equal(await countFees(keepers[0]!), true, 'a day at a time');
  t.equal(await counted(), 11n);
  t.equal(await fees(merchant), 100_111n);
  for (let turn = 0; turn < 3; turn += 1) await both();
  t.equal(await counted(), 1111n, 'all but the newest');
  t.same(await both(), [false, false]);
  t.same([await fees(merchant), await fees(other)], [100_111n, 1000n]);
  await two(0, fee(7));
  t.same([await fees(merchant), await fees(other)], [100_111n, 1007n]);
  await t.rejects(serve`update merchants set sponsoring_lamports = 1`, { code: '42501' });
  await t.rejects(serve`update merchants set approved_at = now()`, { code: '42501' });
  await t.rejects(serve`update merchant_fees set fees = 1`, { code: '42501' });
});
