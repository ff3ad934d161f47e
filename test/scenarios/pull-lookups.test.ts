// Look-ups of pulls run outside the collect loop: a long history delays no other subscription.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import { timeOf } from '../../src/chain/time.ts';
import { claimDue } from '../../src/db/subscriptions/leases.ts';
import { readSubscriptions } from '../../src/db/subscriptions/work.ts';
import { LEASE_SECONDS, settle } from '../../src/domain/collecting/settlement.ts';
import { updateOf } from '../../src/domain/collecting/transitions.ts';
import { SideQueue } from '../../src/keeper/collect/side-queue.ts';
import { AMOUNT } from '../fixtures/agreement.ts';
import { type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

async function pulledByOwner(stage: Stage, subscription: Subscription): Promise<void> {
  const { wallet, plan, pda } = subscription;
  const parties = {
    subscriber: wallet.address,
    plan: plan.pda,
    subscription: pda,
    caller: plan.merchant.address,
    receiver: plan.merchant.address,
  };
  await stage.send(
    [plan.merchant],
    [transferSubscription(stage.net.programId, { ...parties, mint: stage.net.mint, amount: 1n })],
  );
}

/**
 * Forty subscriptions that their merchant pulled from, whose history is only returned after `open`,
 * and three that are due without a look-up.
 */
async function crowded(t: Test) {
  const stage = await startStage(t, { blockMs: 20 });
  const [pulled, plain] = [
    await stage.plan({ amount: AMOUNT }),
    await stage.plan({ amount: AMOUNT }),
  ];
  const slow = await Promise.all(Array.from({ length: 40 }, () => stage.subscriber(pulled)));
  await Promise.all(slow.map((one) => pulledByOwner(stage, one)));
  stage.net.mineBlocks(40);
  const quick = await Promise.all(Array.from({ length: 3 }, () => stage.subscriber(plain)));
  const pdas = new Set(slow.map(({ pda }) => pda));
  let open: (fails: boolean) => void = () => undefined;
  const opened = new Promise<boolean>((resolve) => (open = resolve));
  const parts = stage.parts({
    async getSignaturesForAddress(address, options) {
      if (pdas.has(address) && (await opened))
        throw new RpcUnreachable('getSignaturesForAddress', []);
      return stage.rpc.getSignaturesForAddress(address, options);
    },
  });
  const states = () => stage.sql<
    { id: string; held: boolean; setbacks: number; isLater: boolean; isPaid: boolean }[]
  >`
    select id, lease_until is not null as held, setbacks, due_at > next_payment_due as is_later, paid_through is not null as is_paid
    from subscriptions join subscription_work on subscription_id = id where subscription_pda = any(${[...pdas]}::text[])`;
  return { stage, slow, quick, open, states, ...parts };
}

void t.test(
  'accounts that need no history are collected at once; look-ups beyond the limit are postponed',
  async (t) => {
    const { stage, quick, open, states, collector, taken } = await crowded(t);
    await collector.turn();
    t.same(taken.map(({ id }) => id).sort(), quick.map(({ id }) => id).sort());
    const during = await states();
    t.equal(during.filter(({ held }) => held).length, 32);
    t.equal(during.filter(({ held, isLater }) => !held && isLater).length, 8);
    t.ok(during.every(({ setbacks }) => setbacks === 0));
    open(false);
    await stage.until(
      'all that were looked into are recorded',
      async () => (await states()).filter(({ isPaid }) => isPaid).length === 32,
    );
    stage.net.passSeconds(40);
    await collector.turn();
    await stage.until('and the others after them', async () =>
      (await states()).every(({ isPaid }) => isPaid),
    );
    await collector.stop();
  },
);

void t.test(
  'a history look-up without a response is postponed, and a stop releases all claims',
  async (t) => {
    const { stage, open, states, collector } = await crowded(t);
    await collector.turn();
    open(true);
    await stage.until('all are put off', async () =>
      (await states()).every(({ held, isLater }) => !held && isLater),
    );
    t.ok((await states()).every(({ setbacks, isPaid }) => setbacks === 0 && !isPaid));

    const again = await crowded(t);
    await again.collector.turn();
    await again.collector.stop();
    t.ok((await again.states()).every(({ held }) => !held));
    again.open(false);
    t.same(
      await again.stage.sql`select 1 from payments where source = 'foreign'`,
      [],
      'nothing of it is written any more',
    );
  },
);

void t.test(
  'a history look-up first renews its lease and does not write a row that changed meanwhile',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: AMOUNT });
    const [still, changed] = [await stage.subscriber(plan), await stage.subscriber(plan)];
    const { context } = stage.parts();
    const { sql } = context;
    const [claimId, now] = [randomUUID(), timeOf(BigInt(stage.now()))];
    const due = await claimDue(sql, {
      claimId,
      chainNow: now,
      limit: 10,
      leaseSeconds: LEASE_SECONDS,
    });
    const rows = await readSubscriptions(
      sql,
      due.map(({ id }) => id),
    );
    await stage.sql`update subscription_work set notices = notices + 1 where subscription_id = ${changed.id}`;
    const written: string[] = [];
    const left: string[] = [];
    const lookups = new SideQueue(context, {
      max: 10,
      atOnce: 2,
      renewsLeases: true,
      run: async ({ rows: [row] }) => {
        assert(row);
        const claim = { id: row.id, claimId, notices: row.notices };
        const settled = await settle(sql, [{ claim, row, update: updateOf(row) }], {
          chainNow: now,
        });
        written.push(...settled.written.map((one) => one.row.id));
        left.push(...settled.changed.map((one) => one.row.id));
      },
      onFault: async (_, error) => {
        throw error;
      },
    });
    await lookups.take(rows.map((row) => ({ claimId, rows: [row] })));
    await stage.until('both are looked up', async () => written.length + left.length === 2);
    t.same([written, left], [[still.id], [changed.id]]);
    await lookups.stop();
  },
);
