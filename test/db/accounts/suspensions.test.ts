// Once `suspend` has returned, nothing of the wallet is committed.
import t from 'tap';
import { suspend } from '../../../src/db/accounts/suspensions.ts';
import { lockBrake } from '../../../src/db/operating/collection-holds.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { lockSuspended } from '../../../src/domain/accounts/suspended.ts';
import { isSuspended } from '../../../src/domain/collecting/brake.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant, insertPlan } from '../../fixtures/rows.ts';
import { until } from '../../fixtures/webhooks.ts';

const by = { who: 'tester', host: 'here' };

for (const role of ['merchant', 'subscriber'] as const)
  void t.test(
    `suspending a ${role} waits for running transactions; later attempts and registrations see it`,
    async (t) => {
      const { sql, url } = await testDatabase(t);
      const merchant = await insertMerchant(sql);
      const planId = await insertPlan(sql, merchant);
      const wallet = randomAddress();
      const parties = { accountWallet: merchant.wallet, subscriberWallet: wallet };
      const of = (daemon: 'keeper' | 'serve') => {
        const own = connect(asRole(url, daemon), { max: 2, name: 'billing test' });
        t.teardown(() => own.end());
        return own;
      };
      const [keeper, serve] = [of('keeper'), of('serve')];
      const order: string[] = [];
      let commit: () => void = () => undefined;
      const allowed = new Promise<void>((resolve) => (commit = resolve));
      let locks = 0;
      const committing = [
        keeper.begin(async (tx) => {
          t.equal(isSuspended(await lockBrake(tx, [parties]), parties), false);
          locks += 1;
          await allowed;
          order.push('committed');
        }),
        serve.begin(async (tx) => {
          await lockSuspended(tx, { wallet, planId });
          locks += 1;
          await allowed;
          order.push('committed');
        }),
      ];
      await until(() => locks === 2);
      const suspended = role === 'merchant' ? merchant.wallet : wallet;
      const suspending = suspend(sql, { role, wallet: suspended, reason: 'a test', by });
      const done = suspending.then(() => order.push('suspended'));
      await until(
        async () =>
          (await sql`select 1 from pg_locks where locktype = 'advisory' and not granted`).length >
          0,
      );
      const later = keeper.begin(async (tx) =>
        isSuspended(await lockBrake(tx, [parties]), parties),
      );
      const refused = t.rejects(
        serve.begin((tx) => lockSuspended(tx, { wallet, planId })),
        { code: 'FORBIDDEN' },
      );
      commit();
      await Promise.all([...committing, done]);
      t.same(order, ['committed', 'committed', 'suspended']);
      t.equal(await later, true, 'it queued behind the suspension');
      await refused;
      const others = { accountWallet: randomAddress(), subscriberWallet: randomAddress() };
      t.equal(
        await keeper.begin(async (tx) => isSuspended(await lockBrake(tx, [others]), others)),
        false,
      );
    },
  );
