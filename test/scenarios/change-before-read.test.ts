// A wallet registers its account anew and changes the plan before a keeper has read the account:
// the time that an earlier registration has paid for still counts.
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { rowsOf } from '../fixtures/shown-terms.ts';

const [OLD, NEW] = [100_000_000n, 120_000_000n];
/** Maximum cost of the seconds between a payment and a change. */
const SECONDS = 10_000n;

interface Shown {
  transaction: string;
  offerId: string;
  today: string;
  credit: string;
  startsAt: string | null;
}

/** A paid subscription that was ended by force, reinstated and registered anew without a keeper. */
async function registeredUnread(t: Test) {
  const scene = await startPlanChanges(t, [100, 120, 60]);
  const { stage, buyer, ask, forceAndReinstate, register } = scene;
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await keeper.stop();
  await forceAndReinstate(first);
  const again = await register(first);
  t.equal(again.status, 201);
  const before = await stage.balance(buyer.wallet);
  /** Changes the plan by the relay. */
  const relay = async (from: { id: string }, to: Plan, when: 'now' | 'period_end') => {
    const shown = (await ask(from, to, when)) as unknown as Shown;
    const transaction = addSignature(buyer.keypair, shown.transaction);
    const { body } = await buyer.post('transactions', { offerId: shown.offerId, transaction });
    t.match(body.data, { status: 'confirmed' });
    return shown;
  };
  const charged = async () => before - (await stage.balance(buyer.wallet));
  const second = { ...first, id: again.body.data.id };
  const paidThrough = (await scene.read(first)).paidThrough!;
  return { ...scene, first, second, paidThrough, relay, charged };
}

void t.test(
  'a change now credits what an earlier registration has paid, before a keeper reads the account',
  async (t) => {
    const { stage, buyer, plans, first, second, relay, charged, newest } =
      await registeredUnread(t);
    const [, large] = plans as [Plan, Plan];
    const shown = await relay(second, large, 'now');
    t.ok(BigInt(shown.credit) > OLD - SECONDS, 'it is shown');
    await stage.startKeeper();
    await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 3);
    await stage.quiet();
    const [old] = await stage.payments(first);
    t.equal(await charged(), NEW - old!.amountCredited!);
    t.ok(OLD - old!.amountCredited! < SECONDS);
    t.equal((await stage.payments(await newest(large))).length, 1);
    t.same(await stage.payments(second), []);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a change at the end of the period waits for the paid time of an earlier registration',
  async (t) => {
    const scene = await registeredUnread(t);
    const { stage, buyer, plans, first, second, paidThrough, relay, charged, read, newest } = scene;
    const [small, large, other] = plans as [Plan, Plan, Plan];
    const shown = await relay(second, large, 'period_end');
    t.match(shown, { today: '0', credit: '0', startsAt: paidThrough.toISOString() });
    await stage.startKeeper();
    await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 3);
    await stage.quiet();
    t.equal(await charged(), 0n);
    const third = await newest(large);
    t.match(await read(third), { startsAt: paidThrough, credit: 0n });
    t.match(await scene.access(small), { hasAccess: true, reason: 'paid' });

    const last = await scene.change(third, other);
    t.same(await stage.payments(third), []);
    const [old] = await stage.payments(first);
    t.ok(OLD - old!.amountCredited! < SECONDS, 'a further change credits it');
    t.equal((await read(last)).credit, old!.amountCredited! - 60_000_000n);
    t.equal(await charged(), 0n);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'after two forced cancellations before a read, a change of plan still credits the paid time',
  async (t) => {
    const { stage, buyer, plans, second, relay, forceAndReinstate, register, ...scene } =
      await registeredUnread(t);
    const [, large] = plans as [Plan, Plan];
    await forceAndReinstate(second);
    const { body } = await register(second);
    await relay(body.data, large, 'now');
    await stage.startKeeper();
    await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 4);
    await stage.quiet();
    const charged = await scene.charged();
    t.ok(charged >= NEW - OLD && charged < NEW - OLD + SECONDS, `${charged}`);
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a period that was refunded before the account was registered again gives no credit',
  async (t) => {
    const { stage, buyer, plans, second, first, relay, charged } = await registeredUnread(t);
    const [, large] = plans as [Plan, Plan];
    await stage.sql`
    update payments set amount_refunded = amount_net where subscription_id = ${first.id}`;
    const shown = await relay(second, large, 'now');
    t.match(shown, { today: String(NEW), credit: '0' });
    await stage.startKeeper();
    await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 3);
    await stage.quiet();
    t.equal(await charged(), NEW);
    t.same(await listCreditFaults(stage.sql), []);
  },
);
