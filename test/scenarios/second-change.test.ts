// Two changes of one cancelled subscription land. The second one takes over nothing: it is a second
// live subscription of the customer, and marked as such.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf } from '../fixtures/shown-terms.ts';

void t.test(
  'a second change of the same subscription is registered as a duplicate without credit',
  async (t) => {
    const { stage, plans, buyer, ask, newest } = await startPlanChanges(t, [100, 150, 120]);
    const [plan, one, other] = plans as [Plan, Plan, Plan];
    const merchant = await merchantOf(stage, plan);
    await stage.startKeeper();
    const first = await buyer.buy();
    const { token } = merchant;
    await stage.api.call('PATCH', `${merchant.path}/subscriptions/${first.id}`, {
      ...{ token, body: { externalId: 'alice' } },
    });
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
    await stage.quiet();
    const offers = [await ask(first, one), await ask(first, other)];
    for (const { transaction } of offers) {
      await stage.land(buyer.keypair, transaction);
      await stage.quiet();
    }
    await stage.until('both are registered', async () => {
      const [row] = await stage.sql<{ count: number }[]>`
      select count(*)::int as count from subscriptions`;
      return row!.count === 3;
    });
    const [second, third] = [await newest(one), await newest(other)];
    const rows = await stage.sql<{ externalId: string | null; duplicateOf: string | null }[]>`
    select external_id, duplicate_of from subscriptions
    where id in (${second.id}, ${third.id}) order by id`;
    t.match(
      rows.map(({ externalId }) => externalId),
      ['alice', 'alice'],
    );
    t.ok(
      rows.some(({ duplicateOf }) => duplicateOf !== null),
      'one is the duplicate of the other',
    );
  },
);
