// A past-due wallet that can pay again is collected from at once by the streams alone: no lap of
// the sweep runs in these tests.
import t, { type Test } from 'tap';
import { authorityAddress, tokenAccountAddress } from '../../src/chain/program/addresses.ts';
import { TokenAccounts } from '../../src/chain/streams/token-accounts.ts';
import { readSubscriptions } from '../../src/db/subscriptions/work.ts';
import { amountPastDue } from '../../src/domain/invoices/upcoming.ts';
import { startBadEndpoint } from '../fixtures/bad-endpoint.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { approve, payTokens } from '../fixtures/tokens.ts';

const AMOUNT = 5_000_000n;

/** Waits until a lap of the sweep has ended, and starts the next one a day later. */
const sweepRests = (stage: Stage) =>
  stage.until('the sweep rests', async () => {
    const { count } =
      await stage.sql`update sweeps set starts_at = now() + interval '1 day' where due_at = 'epoch' and length > 0`;
    return count === 1;
  });

void t.test(
  'a renewal that fails and is topped up a moment later is collected at once, without a sweep',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan(), { usdc: AMOUNT });
    const keeper = await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    await stage.until('it is followed', async () =>
      /billing_keeper_accounts_followed(\{.*\})? 1/.test(await keeper.registry.metrics()),
    );
    await sweepRests(stage);
    stage.net.passSeconds(730 * HOUR);
    await stage.until(
      'it is past due',
      async () => (await stage.row(subscription)).status === 'past_due',
    );
    stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
    await stage.until(
      'it is paid again',
      async () => (await stage.row(subscription)).status === 'active',
    );
    t.match(await stage.payments(subscription), [
      { status: 'succeeded' },
      { status: 'failed', attempt: 1 },
      { status: 'succeeded', attempt: 2 },
    ]);
  },
);

const month = 720 * HOUR;

void t.test(
  'a past-due subscription is retried when a top-up reaches the due amount, also a reduced one',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const unpaused = await stage.subscriber(plan, { usdc: 0n });
    stage.net.passSeconds(month / 2);
    const discounted = await stage.subscriber(plan, { usdc: 0n });
    await stage.sql`update subscriptions set discount_percent = 60, discount_id = uuid_v7() where id = ${discounted.id}`;
    const { periodStart } = (await stage.onChain(unpaused))!;
    const from = new Date((Number(periodStart) + month / 2) * 1000);
    await stage.sql`update subscriptions set billed_from = ${from} where id = ${unpaused.id}`;
    const keeper = await stage.startKeeper();
    await stage.until('both are past due and followed', async () => {
      const rows = await stage.sql`select 1 from subscriptions where status = 'past_due'`;
      const text = await keeper.registry.metrics();
      return rows.length === 2 && /billing_keeper_accounts_followed(\{.*\})? 2/.test(text);
    });
    await stage.quiet();
    await stage.sql`update sweeps set starts_at = now() + interval '1 day'`;
    const giver = stage.wallet();
    const owed = [
      [discounted, 2_000_000n],
      [unpaused, AMOUNT / 2n],
    ] as const;
    for (const [{ wallet }, amount] of owed) {
      const parties = { owner: giver.address, mint: stage.net.mint, to: wallet.address };
      await stage.send([giver], [payTokens({ ...parties, amount: amount - 2n })]);
      await stage.send([giver], [payTokens({ ...parties, amount: 1n })]);
    }
    for (const [subscription, amount] of owed) {
      await stage.until(
        `${amount} are collected`,
        async () => (await stage.row(subscription)).status === 'active',
      );
      t.match(await stage.payments(subscription), [
        { status: 'failed', amountGross: amount },
        { status: 'succeeded', amountGross: amount, attempt: 2 },
      ]);
    }
  },
);

/**
 * A past-due subscription whose token account is followed, and its reported changes; nothing is
 * collected.
 */
async function watched(t: Test) {
  const stage = await startStage(t);
  const { net, sql } = stage;
  const subscription = await stage.subscriber(await stage.plan(), { usdc: 0n });
  const { wallet, id } = subscription;
  await sql`update subscriptions set status = 'past_due', past_due_since = now() where id = ${id}`;
  const changes: bigint[] = [];
  const accounts = new TokenAccounts({
    ...stage.parts().context,
    wsUrls: [net.wsUrl],
    maxAccounts: 10,
    onChange: (_wallet, slot) => changes.push(slot),
    onGap: () => undefined,
  });
  t.teardown(() => accounts.close());
  const read = async () =>
    (await readSubscriptions(sql, [id])).map((row) => ({
      ...row,
      pastDue: amountPastDue(row, row.invoice),
    }));
  accounts.watch(await read());
  await stage.until('it is followed', async () => accounts.followed() === 1);
  const giver = stage.wallet();
  const pay = (from: typeof giver, to: string, amount: bigint) =>
    stage.send([from], [payTokens({ owner: from.address, mint: net.mint, to, amount })]);
  const dust = async (times: number) => {
    for (let sent = 1; sent <= times; sent += 1)
      await pay(giver, wallet.address, BigInt(sent % 3) + 1n);
  };
  const told = (count: number) =>
    stage.until(`${count} changes are told`, async () => changes.length >= count);
  return { stage, subscription, accounts, read, changes, giver, pay, dust, told };
}

void t.test('a top-up is reported once, and dust before or after it is not', async (t) => {
  const { subscription, changes, giver, pay, dust, told } = await watched(t);
  const { wallet } = subscription;
  await dust(20);
  await pay(giver, wallet.address, AMOUNT);
  await told(1);
  await dust(20);
  await pay(wallet, giver.address, AMOUNT);
  await dust(5);
  await pay(giver, wallet.address, AMOUNT);
  await told(2);
  await dust(5);
  await pay(wallet, giver.address, AMOUNT);
  await pay(giver, wallet.address, AMOUNT);
  await told(3);
  t.equal(changes.length, 3);
});

void t.test('a new approval is reported only if it covers the payment', async (t) => {
  const { stage, subscription, changes, giver, pay, dust, told } = await watched(t);
  const { wallet } = subscription;
  const { programId, mint } = stage.net;
  const delegate = authorityAddress(programId, wallet.address, mint).address;
  const allow = (amount: bigint) =>
    stage.send([wallet], [approve({ owner: wallet.address, mint, delegate, amount })]);
  await allow(AMOUNT - 1n);
  await pay(giver, wallet.address, 2n * AMOUNT);
  await dust(5);
  await allow(AMOUNT);
  await told(1);
  await dust(5);
  t.equal(changes.length, 1);
});

void t.test(
  'a top-up that precedes the past-due state of its subscription is reported later',
  async (t) => {
    const { stage, subscription, accounts, read, changes, giver, pay, told } = await watched(t);
    const [row] = await read();
    accounts.watch([{ ...row!, pastDue: null }]);
    await pay(giver, subscription.wallet.address, AMOUNT);
    await pay(giver, giver.address, 1n);
    const { slot } = await stage.rpc.getHeight({ commitment: 'confirmed' });
    const later = async () => {
      // A row from a newer state already includes the top-up.
      accounts.watch([{ ...row!, observedSlot: slot + 1000n }]);
      accounts.watch([{ ...row!, pastDue: null, observedSlot: slot + 1000n }]);
      accounts.watch([{ ...row!, observedSlot: 0n }]);
      return changes.length > 0;
    };
    await stage.until('the notice has come', later);
    await told(1);
    accounts.watch(await read());
    t.equal(changes.length, 1);
  },
);

void t.test('a row that was read before its payment failed does not end the watch', async (t) => {
  const { subscription, accounts, read, changes, giver, pay, told } = await watched(t);
  const [row] = await read();
  const { observedSlot } = row!;
  accounts.watch([{ ...row!, observedSlot: observedSlot + 1n }]);
  accounts.watch([{ ...row!, pastDue: null }]);
  await pay(giver, subscription.wallet.address, AMOUNT);
  await told(1);
  accounts.watch([{ ...row!, pastDue: null, observedSlot: observedSlot + 1n }]);
  t.equal(changes.length, 1);
});

void t.test(
  'many past-due wallets are collected once each after their top-ups, without a sweep',
  async (t) => {
    const stage = await startStage(t);
    const { net, sql } = stage;
    const plan = await stage.plan();
    const subscriptions = await Promise.all(
      Array.from({ length: 40 }, () => stage.subscriber(plan, { usdc: 0n })),
    );
    const reads: (readonly string[])[] = [];
    const endpoint = await startBadEndpoint(
      net.rpcUrl,
      () => undefined,
      async (addresses) => reads.push(addresses),
    );
    t.teardown(() => endpoint.close());
    const keeper = await stage.startKeeper({ rpcUrls: [endpoint.url], wsUrls: [net.wsUrl] });
    await stage.until('all are past due and followed', async () => {
      const rows = await sql`select 1 from subscriptions where status = 'past_due'`;
      const text = await keeper.registry.metrics();
      return rows.length === 40 && /billing_keeper_accounts_followed(\{.*\})? 40/.test(text);
    });
    await sweepRests(stage);
    await stage.quiet();
    const giver = stage.wallet();
    const pay = ({ wallet }: Subscription, amount: bigint) =>
      stage.send(
        [giver],
        [payTokens({ owner: giver.address, mint: net.mint, to: wallet.address, amount })],
      );
    const [poor, ...others] = subscriptions;
    const topped = others.slice(0, 30);
    for (const one of topped) await pay(one, AMOUNT);
    await stage.until(
      'all that were topped up are collected',
      async () =>
        (await sql`select 1 from payments where status = 'succeeded'`).length === topped.length,
    );
    await stage.quiet();
    for (const one of topped)
      t.match(await stage.payments(one), [
        { status: 'failed' },
        { status: 'succeeded', attempt: 2 },
      ]);
    t.equal(
      (await sql`select 1 from payments where status = 'failed'`).length,
      subscriptions.length,
      'the others were not tried again',
    );

    const noticesOf = async () =>
      (
        await sql<[{ notices: number }]>`
          select notices from subscription_work where subscription_id = ${poor!.id}`
      )[0].notices;
    const before = await noticesOf();
    reads.length = 0;
    for (let sent = 1; sent <= 100; sent += 1) await pay(poor!, BigInt(sent));
    // The stream reports this top-up after the dust.
    await pay(others.at(-1)!, AMOUNT);
    await stage.until(
      'the last is collected',
      async () => (await stage.row(others.at(-1)!)).status === 'active',
    );
    const of = [poor!.pda, tokenAccountAddress(poor!.wallet.address, net.mint).address];
    t.same(
      reads.filter((addresses) => addresses.some((address) => of.includes(address))),
      [],
    );
    t.ok(
      reads.some((addresses) => addresses.includes(others.at(-1)!.pda)),
      'the other was read',
    );
    t.equal(await noticesOf(), before);
  },
);
