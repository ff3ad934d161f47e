// Measures the time from the top-up of a past-due wallet to its payment on chain, while the keeper
// follows many past-due subscriptions. Blocks have the local chain's default time. The sweep is
// idle, so the keeper learns of a top-up only from the streams of token accounts.
import { setTimeout as pause } from 'node:timers/promises';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { subscriptionIn } from '../../src/chain/program/accounts.ts';
import { timeOf } from '../../src/chain/time.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { payTokens } from '../../test/fixtures/tokens.ts';
import type { Database } from '../dispatch/harness.ts';
import { register } from './collect.ts';
import { startKeeper } from './keeper-process.ts';
import { AMOUNT, type Chain, openPlan, send, type Subscriber } from './scene.ts';

/** Milliseconds between blocks, the default of the local chain. */
export const DEFAULT_BLOCK_MS = 300;
const POLL_MS = 25;
const PATIENCE_MS = 600_000;

export interface TopUps {
  /** Milliseconds from sending each top-up until its payment is confirmed on chain, sorted. */
  collectedMs: number[];
  /** RPC requests of the keeper while the dust transfers arrive at a past-due wallet. */
  dustRequests: number;
  /** Notifications of this subscription that the keeper recorded meanwhile. */
  dustNotifications: number;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`it does not happen that ${what}`);
    await pause(200);
  }
}

/**
 * Makes `pastDue` wallets past due and tops up `topUps` of them at `perSecond`. Then sends `dust`
 * transfers of 1, 2, 3 ... base units to one of the other wallets.
 */
export async function measureTopUps(
  chain: Chain,
  { sql, url }: Pick<Database, 'sql' | 'url'>,
  {
    pastDue,
    topUps,
    perSecond,
    dust,
  }: { pastDue: number; topUps: number; perSecond: number; dust: number },
): Promise<TopUps> {
  const plan = await openPlan(chain, pastDue, 0);
  await register(sql, chain, plan, timeOf(BigInt(await chain.now())));
  const keeper = await startKeeper(chain, url, {
    SOLANA_WS_ACCOUNTS: String(pastDue),
  });
  try {
    await until('all are past due', async () => {
      const [row] = await sql<
        { count: number }[]
      >`select count(*)::int as count from subscriptions where status = 'past_due'`;
      return row?.count === pastDue;
    });
    await until('all are followed', async () => (await keeper.followed()) === pastDue);
    // The sweep is moved to tomorrow. From now on the keeper learns about changes only from the
    // streams.
    await until('the sweep rests', async () => {
      const [row] = await sql<
        { rests: boolean }[]
      >`update sweeps set starts_at = now() + interval '1 day' where due_at = 'epoch' returning true as rests`;
      return row?.rests === true;
    });
    const giver = generateKeypair();
    await chain.call('requestAirdrop', giver.address, 100_000_000_000);
    await chain.call('localnet_faucet', giver.address, (AMOUNT * BigInt(topUps + 1)).toString());
    const pay = (to: string, amount: bigint) =>
      send(chain, giver, [payTokens({ owner: giver.address, mint: LOCALNET_MINT, to, amount })]);

    const chosen = plan.subscribers.slice(0, topUps);
    const collectedMs = await collected(chain, chosen, perSecond, (wallet) => pay(wallet, AMOUNT));
    await until('all is final', async () => (await payments(sql)) === topUps);

    const poor = plan.subscribers.at(-1) as Subscriber;
    const before = { requests: await keeper.requests(), notices: await notices(sql, poor) };
    // The amounts differ, because two equal transfers in one block would have the same signature.
    // Their sum is less than the due amount.
    for (let sent = 1; sent <= dust; sent += 1) await pay(poor.wallet, BigInt(sent));
    await pause(5 * DEFAULT_BLOCK_MS);
    return {
      collectedMs,
      dustRequests: (await keeper.requests()) - before.requests,
      dustNotifications: (await notices(sql, poor)) - before.notices,
    };
  } finally {
    await keeper.stop();
  }
}

/** Tops up the wallets one after another. Resolves with the duration of each payment, sorted. */
async function collected(
  { call }: Chain,
  subscribers: readonly Subscriber[],
  perSecond: number,
  topUp: (wallet: string) => Promise<void>,
): Promise<number[]> {
  const sentAt = new Map<string, number>();
  const took: number[] = [];
  const deadline = performance.now() + PATIENCE_MS;
  const watch = async () => {
    while (took.length < subscribers.length) {
      if (performance.now() > deadline)
        throw new Error(`${subscribers.length - took.length} top-ups are not collected`);
      const waiting = [...sentAt.keys()].slice(0, 100);
      const { value } = await call<{
        value: ({ data: [string]; owner: string; lamports: number } | null)[];
      }>('getMultipleAccounts', waiting, { encoding: 'base64', commitment: 'confirmed' });
      const now = performance.now();
      for (const [index, address] of waiting.entries()) {
        const account = value[index];
        const subscription =
          account &&
          subscriptionIn(
            { ...account, lamports: 1n, data: Buffer.from(account.data[0], 'base64') },
            SUBSCRIPTIONS_PROGRAM,
          );
        if (!subscription || subscription.amountPulled === 0n) continue;
        took.push(now - (sentAt.get(address) ?? now));
        sentAt.delete(address);
      }
      await pause(POLL_MS);
    }
  };
  const send = async () => {
    for (const { wallet, subscription } of subscribers) {
      sentAt.set(subscription, performance.now());
      await topUp(wallet);
      // Customers come at random times, on average `perSecond` per second.
      await pause((-Math.log(1 - Math.random()) * 1000) / perSecond);
    }
  };
  await Promise.all([watch(), send()]);
  return took.sort((a, b) => a - b);
}

async function payments(sql: Database['sql']): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from payments where status = 'succeeded'`;
  return row?.count ?? 0;
}

async function notices(sql: Database['sql'], { subscription }: Subscriber): Promise<number> {
  const [row] = await sql<{ notices: number }[]>`
    select notices from subscriptions s join subscription_work w on w.subscription_id = s.id
    where subscription_pda = ${subscription}`;
  return row?.notices ?? 0;
}

/** Returns the percentile `share` of sorted values. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? NaN;
}
