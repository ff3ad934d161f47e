// A merchant forgives the invoice of an overdue period while keepers collect.
import t, { type Test } from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { findInvoice } from '../../src/db/money/invoice-lists.ts';
import { connect, type Transaction } from '../../src/db/postgres/connect.ts';
import { forgive } from '../../src/domain/change/forgiving.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { asRole } from '../fixtures/postgres.ts';

const AMOUNT = 5_000_000n;
const PERIOD = 720 * HOUR;

interface Row {
  id: string;
  state: string;
  voidReason: string | null;
}

const invoicesOf = ({ sql }: Stage, { id }: Subscription) => sql<Row[]>`
  select id, state, void_reason from invoices where subscription_id = ${id}
  order by drawn_up_at, id`;

/** A subscription with a paid period whose renewal has failed, and the role of `serve`. */
async function overdue(t: Test) {
  const stage = await startStage(t);
  const serve = connect(asRole(stage.databaseUrl, 'serve'), { max: 2, name: 'billing test serve' });
  t.teardown(() => serve.end({ timeout: 1 }));
  const subscription = await stage.subscriber(await stage.plan(), { usdc: AMOUNT });
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  stage.net.passSeconds(PERIOD);
  const isOverdue = async () => (await stage.row(subscription)).status === 'past_due';
  await stage.until('its renewal fails', isOverdue);
  const forgiveLast = async (tx: Transaction) => {
    const last = (await invoicesOf(stage, subscription)).at(-1);
    await forgive(tx, (await findInvoice(tx, last!.id))!);
  };
  return { stage, serve, subscription, keeper, forgiveLast };
}

const succeeded = async (stage: Stage, subscription: Subscription) =>
  (await stage.payments(subscription)).filter(({ status }) => status === 'succeeded').length;

void t.test('a top-up after it pays nothing, and the next period is collected', async (t) => {
  const { stage, serve, subscription, forgiveLast } = await overdue(t);
  await serve.begin(forgiveLast);
  const { paidThrough } = await stage.row(subscription);
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  await stage.quiet();
  t.match(await stage.row(subscription), {
    ...{ status: 'active', failedAttempts: 0, paidThrough, nextPaymentDue: paidThrough },
  });
  t.equal(await stage.balance(subscription.wallet.address), AMOUNT);
  stage.net.passSeconds(PERIOD);
  await stage.until('it is paid', async () => (await succeeded(stage, subscription)) === 2);
  t.match(await invoicesOf(stage, subscription), [
    { state: 'paid' },
    { state: 'void', voidReason: 'forgiven' },
    { state: 'paid' },
  ]);
  const types = (await stage.events(subscription)).map(({ type }) => type);
  t.same(
    types.filter((type) => type !== 'renewal_upcoming'),
    [
      'subscription_created',
      'payment_success',
      'payment_failed',
      'invoice_voided',
      'payment_success',
    ],
  );
});

/** Stops the keeper, tops the wallet up and makes the payment due. */
async function payable({ stage, subscription, keeper }: Awaited<ReturnType<typeof overdue>>) {
  await keeper.stop();
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  const at = new Date(stage.net.now());
  await stage.sql`update subscriptions set next_payment_due = ${at}`;
  await stage.sql`update subscription_work set due_at = ${at}`;
  stage.net.passSeconds(5);
}

void t.test('a keeper that has claimed it commits nothing afterwards', async (t) => {
  const scene = await overdue(t);
  const { stage, serve, subscription, forgiveLast } = scene;
  await payable(scene);
  const claims: (string | null)[] = [];
  const { collect, taken } = stage.parts({
    getMultipleAccounts: async (...asked) => {
      if (claims.length === 0) {
        claims.push((await stage.row(subscription)).claimId);
        await serve.begin(forgiveLast);
      }
      return stage.rpc.getMultipleAccounts(...asked);
    },
  });
  await collect();
  t.equal(claims.filter((claim) => claim !== null).length, 1);
  t.equal(taken.length, 0);
  t.match(await invoicesOf(stage, subscription), [{}, { state: 'void', voidReason: 'forgiven' }]);
  t.match(await stage.row(subscription), { status: 'active' });
  t.same(await stage.sql`select 1 from payment_attempts where state = 'open'`, []);
});

void t.test('what a keeper has committed is collected, and is not forgiven', async (t) => {
  const scene = await overdue(t);
  const { stage, serve, subscription, forgiveLast } = scene;
  await payable(scene);
  const { collect, taken } = stage.parts();
  await collect();
  t.equal(taken.length, 1);
  await t.rejects(serve.begin(forgiveLast), { code: 'CONFLICT', message: /being collected/ });
  t.match(await stage.row(subscription), { status: 'past_due' });
  t.match(await invoicesOf(stage, subscription), [{ state: 'paid' }, { state: 'open' }]);
});

void t.test('a pull in a forgiven period is a further one, and pays for no time', async (t) => {
  const { stage, serve, subscription, keeper, forgiveLast } = await overdue(t);
  await keeper.stop();
  await serve.begin(forgiveLast);
  const { paidThrough } = await stage.row(subscription);
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  const { plan, wallet, pda } = subscription;
  await stage.send(
    [stage.keeper],
    [
      transferSubscription(stage.net.programId, {
        ...{ caller: stage.keeper.address, subscriber: wallet.address, subscription: pda },
        ...{ plan: plan.pda, mint: stage.net.mint, amount: AMOUNT },
        receiver: plan.merchant.address,
      }),
    ],
  );
  await stage.startKeeper();
  await stage.until(
    'the pull is recorded',
    async () => (await succeeded(stage, subscription)) === 2,
  );
  await stage.quiet();
  const [further] = await stage.sql`
    select further, invoice_id from payments where status = 'succeeded' order by occurred_at desc
    limit 1`;
  t.match(further, { further: true, invoiceId: null });
  t.match(await stage.row(subscription), { status: 'active', paidThrough });
});
