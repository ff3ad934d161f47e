// Random acts of merchants, subscribers and strangers that try to drain the keeper's SOL. It pays
// the network's fees of collected payments, a bounded fee for each failed attempt, and no rent.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { planIn } from '../../src/chain/program/accounts.ts';
import {
  authorityAddress,
  SYSTEM_PROGRAM,
  tokenAccountAddress,
} from '../../src/chain/program/addresses.ts';
import { closeAuthority, initAuthority } from '../../src/chain/program/instructions.ts';
import { updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { computeUnitPrice } from '../../src/chain/transactions/system-instructions.ts';
import { HOUR, type Plan, startStage, type Stage, type Subscription } from '../fixtures/billing.ts';
import { approve, payTokens, revokeApproval } from '../fixtures/tokens.ts';

/**
 * Maximum lamports of a payment alone in its transaction: a signature, and as much for priority.
 */
const MAX_LAMPORTS = 10_000n;
/** The default of PLAN_MINIMUM_AMOUNT. */
const DUST = 100_000n;

interface World {
  stage: Stage;
  plans: Plan[];
  subscriptions: Subscription[];
}

type Act = (world: World, pick: number) => Promise<unknown>;

const one = <T>(items: readonly T[], pick: number): T => items[pick % items.length]!;

async function setPullers(stage: Stage, plan: Plan, pullers: string[]) {
  const { accounts } = await stage.rpc.getMultipleAccounts([plan.pda]);
  const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
  const { status, endTs, metadataUri } = seen;
  const edit = { status, endTs, metadataUri, pullers };
  const parties = { owner: plan.merchant.address, plan: plan.pda };
  await stage.send([plan.merchant], [updatePlan(stage.net.programId, { ...parties, edit, seen })]);
}

const delegateOf = (stage: Stage, owner: string) =>
  authorityAddress(stage.net.programId, owner, stage.net.mint).address;

/** Random acts. An act that the chain refuses changes nothing. */
const acts: Record<string, Act> = {
  'a merchant closes its token account': ({ stage, plans }, pick) => {
    const { address } = tokenAccountAddress(one(plans, pick).merchant.address, stage.net.mint);
    const closed = { lamports: 0, data: '', owner: SYSTEM_PROGRAM };
    return stage.net.rpc('surfnet_setAccount', address, closed);
  },
  'a merchant opens it again': async ({ stage, plans }, pick) =>
    stage.net.fund(one(plans, pick).merchant.address, { usdc: 1n }),
  'a merchant’s token account is frozen': ({ stage, plans }, pick) =>
    stage.net.rpc('surfnet_setTokenAccount', one(plans, pick).merchant.address, stage.net.mint, {
      state: 'frozen',
    }),
  'a merchant takes the keeper off': ({ stage, plans }, pick) =>
    setPullers(stage, one(plans, pick), []),
  'a merchant names the keeper': ({ stage, plans }, pick) =>
    setPullers(stage, one(plans, pick), [stage.keeper.address]),
  'a subscriber spends its money': async ({ stage, subscriptions }, pick) => {
    const { wallet } = one(subscriptions, pick);
    const amount = await stage.balance(wallet.address);
    const to = stage.treasury.address;
    const all = payTokens({ owner: wallet.address, mint: stage.net.mint, to, amount });
    return stage.send([wallet], [all]);
  },
  'a subscriber is topped up': async ({ stage, subscriptions }, pick) =>
    stage.net.fund(one(subscriptions, pick).wallet.address, { usdc: DUST }),
  'a subscriber revokes': ({ stage, subscriptions }, pick) => {
    const { wallet } = one(subscriptions, pick);
    return stage.send([wallet], [revokeApproval({ owner: wallet.address, mint: stage.net.mint })]);
  },
  'a subscriber approves again, for less than a payment': ({ stage, subscriptions }, pick) => {
    const { wallet } = one(subscriptions, pick);
    const delegate = delegateOf(stage, wallet.address);
    const less = { owner: wallet.address, mint: stage.net.mint, delegate, amount: DUST - 1n };
    return stage.send([wallet], [approve(less)]);
  },
  'a subscriber approves again': ({ stage, subscriptions }, pick) => {
    const { wallet } = one(subscriptions, pick);
    const delegate = delegateOf(stage, wallet.address);
    const whole = { owner: wallet.address, mint: stage.net.mint, delegate, amount: 10n ** 12n };
    return stage.send([wallet], [approve(whole)]);
  },
  'a subscriber replaces its authority': async ({ stage, subscriptions }, pick) => {
    const { wallet } = one(subscriptions, pick);
    const parties = { user: wallet.address, mint: stage.net.mint };
    await stage.send([wallet], [closeAuthority(stage.net.programId, parties)]);
    return stage.send([wallet], [initAuthority(stage.net.programId, parties)]);
  },
  'strangers pay high fees': async ({ stage }, pick) => {
    const stranger = stage.wallet();
    const price = computeUnitPrice(10n ** BigInt(4 + (pick % 6)));
    const nothing = payTokens({
      owner: stranger.address,
      mint: stage.net.mint,
      to: stage.treasury.address,
      amount: 1n,
    });
    return stage.send([stranger], [price, nothing]);
  },
  'payments in flight are held, then land among what happened meanwhile': ({ stage }) =>
    stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 5, count: 2 }),
  'the next period begins': async ({ stage }) => stage.net.passSeconds(HOUR),
  'some blocks pass': async ({ stage }, pick) => stage.net.mineBlocks(1 + (pick % 8)),
};

async function spent(stage: Stage, before: bigint) {
  return before - (await stage.rpc.getBalance(stage.keeper.address));
}

/** The fees of all transactions of the keeper that reached the chain. */
async function feesOf(stage: Stage): Promise<bigint> {
  const listed = await stage.rpc.getSignaturesForAddress(stage.keeper.address, { limit: 1000 });
  let lamports = 0n;
  for (const { signature } of listed) {
    const found = await stage.net.rpc<{
      meta: { fee: number; preBalances: number[]; postBalances: number[] };
      transaction: { message: { accountKeys: string[] } };
    } | null>('getTransaction', signature, {
      encoding: 'json',
      maxSupportedTransactionVersion: 1,
      commitment: 'confirmed',
    });
    if (found?.transaction.message.accountKeys[0] !== stage.keeper.address) continue;
    lamports += BigInt(found.meta.fee);
  }
  return lamports;
}

async function world(t: Test): Promise<World> {
  const stage = await startStage(t, { blockMs: 20 });
  const plans = [
    await stage.plan({ amount: DUST, periodHours: 1 }),
    await stage.plan({ amount: DUST, periodHours: 1 }),
  ];
  const subscriptions: Subscription[] = [];
  for (const plan of [...plans, ...plans])
    subscriptions.push(await stage.subscriber(plan, { usdc: 20n * DUST }));
  return { stage, plans, subscriptions };
}

void t.test(
  'the keeper pays bounded fees of its attempts and no rent, whatever merchants and strangers do',
  async (t) => {
    const { stage, plans, subscriptions } = await world(t);
    const before = await stage.rpc.getBalance(stage.keeper.address);
    const keeper = await stage.startKeeper();
    await stage.until(
      'each is paid once',
      async () => (await stage.sql`select 1 from payments`).length === subscriptions.length,
    );
    const names = Object.keys(acts);
    const step = fc.record({
      act: fc.constantFrom(...names),
      pick: fc.nat(1000),
      wait: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 10 }), async (steps) => {
        for (const { act, pick, wait } of steps) {
          // The chain may refuse an act, for example one of a frozen account.
          await acts[act]!({ stage, plans, subscriptions }, pick).catch(() => undefined);
          if (wait) await stage.quiet();
        }
        stage.net.passSeconds(HOUR);
        await stage.quiet();
        const [{ landed, failed }] = await stage.sql<[{ landed: bigint; failed: bigint }]>`
          select count(*) filter (where state = 'landed') as landed, count(*) filter (where state = 'failed') as failed
          from payment_attempts`;
        const lamports = await spent(stage, before);
        t.equal(lamports, await feesOf(stage), 'nothing but fees');
        t.ok(
          lamports <= MAX_LAMPORTS * (landed + failed),
          `${lamports} lamports for ${landed} payments and ${failed} failed attempts`,
        );
      }),
      { numRuns: 12, endOnFailure: true },
    );
    const [{ landed }] = await stage.sql<[{ landed: number }]>`
      select count(*)::int as landed from payments where status = 'succeeded'`;
    t.ok(landed >= subscriptions.length, 'payments were made among all this');
    const metrics = await keeper.registry.metrics();
    const counted = [...metrics.matchAll(/^billing_merchant_lamports_total\{.*\} (\S+)$/gm)].reduce(
      (sum, [, value]) => sum + Number(value),
      0,
    );
    t.equal(Math.round(counted), Number(await spent(stage, before)), 'each fee is a merchant’s');
  },
);
