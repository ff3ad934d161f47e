// The parties of a random walk on one stage: a merchant with plans of one app, wallets, and a
// keeper that is stopped and started again. The chain makes blocks only while something waits for
// them, so the walk decides how much chain time passes.
import type { Test } from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import { timeOf } from '../../src/chain/time.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import type { Plan, Stage } from '../fixtures/billing.ts';
import type { Asked } from '../fixtures/ends.ts';
import type { Answer } from '../fixtures/http.ts';
import { type SponsorStage, startSponsorStage } from '../fixtures/sponsor-stage.ts';

/** Blocks that are made at each look while a transaction is under way. */
const BLOCKS = 2;
const LOOK_MS = 25;
const FUNDS = 400_000_000n;
/** USDC base units, hours of the period, hours of the trial. */
const PLANS = [
  [10_000_000n, 720, null],
  [25_000_000n, 720, 168],
  [3_000_000n, 168, null],
  [120_000_000n, 8760, null],
] as const;
const WINDOW_SECONDS = 900;

/** A wallet of the walk, signed in. */
export interface Walker {
  name: string;
  keypair: Keypair;
  token: string;
}

export interface Walk {
  stage: SponsorStage;
  random: Random;
  /** Whether a keeper registers subscriptions that were opened without the service. */
  registerUnclaimed: boolean;
  appId: string;
  plans: Plan[];
  merchant: Keypair;
  merchantToken: string;
  walkers: Walker[];
  keeper: Awaited<ReturnType<Stage['startKeeper']>> | undefined;
  asked: Asked[];
  /** Log of the walk, one line for each step. */
  story: string[];
  /** Faults that were found during the walk. */
  breaches: string[];
  /** Alerts of keepers that were stopped, by reason. */
  alerts: Record<string, number>;
}

/** Description of what an act has done; undefined when there was nothing to do. */
export type Said = string | undefined;

export async function startWalk(
  t: Test,
  { random, wallets }: { random: Random; wallets: number },
): Promise<Walk> {
  const stage = await startSponsorStage(t, { blockMs: 0 });
  const { net, sql, keeper, treasury } = stage;
  net.mineBlocks(2);
  const windowSeconds = random.below(3) === 0 ? 0 : WINDOW_SECONDS;
  await sql`
    insert into installation
      (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values ('localnet', ${net.mint}, ${net.programId}, ${[keeper.address]},
      ${[treasury.address]}, 100, ${windowSeconds})`;
  const plans: Plan[] = [];
  const merchant = stage.wallet({ usdc: FUNDS });
  for (const [amount, periodHours, trialHours] of PLANS) {
    const made = await stage.plan({ amount, periodHours, merchant });
    const appId = plans[0]?.appId ?? made.appId;
    await sql`
      update plans set app_id = ${appId}, trial_hours = ${trialHours} where id = ${made.id}`;
    plans.push({ ...made, appId });
  }
  const { token: merchantToken } = await stage.api.signIn('merchant', merchant);
  const walkers: Walker[] = [];
  for (let count = 0; count < wallets; count += 1) {
    const keypair = stage.wallet({ usdc: FUNDS });
    const { token } = await stage.api.signIn('subscriber', keypair);
    walkers.push({ name: `w${count + 1}`, keypair, token });
  }
  const registerUnclaimed = random.below(2) === 0;
  const appId = plans[0]!.appId;
  const walk: Walk = {
    ...{ stage, random, registerUnclaimed, appId, plans, merchant, merchantToken, walkers },
    ...{ keeper: undefined, asked: [], breaches: [], alerts: {} },
    story: [`registerUnclaimed ${registerUnclaimed}, window ${windowSeconds}`],
  };
  await byMerchant(walk, 'PATCH', '', { registerUnclaimed });
  await startKeeper(walk);
  return walk;
}

/** Starts the keeper, and waits until it has done what was due meanwhile. */
export async function startKeeper(walk: Walk): Promise<void> {
  const { stage } = walk;
  walk.keeper = await stage.startKeeper({ ...stage.sponsoring, planMinimumAmount: 1 });
  await settle(walk);
}

/** Stops the keeper, and keeps its alerts. */
export async function stopKeeper(walk: Walk): Promise<void> {
  const { keeper, stage } = walk;
  if (keeper === undefined) return;
  walk.keeper = undefined;
  await whileMining(stage, keeper.stop());
  for (const metric of await keeper.registry.getMetricsAsJSON()) {
    if (metric.name !== 'billing_keeper_alerts_total') continue;
    for (const { labels, value } of metric.values)
      if (value > 0) walk.alerts[String(labels['reason'])] = value;
  }
  // Its leases would run out after 45 seconds.
  await stage.sql`
    update subscription_work set lease_until = null, claim_id = null where claim_id is not null`;
  await stage.orphan();
}

/** Makes blocks until the work is done. */
export async function whileMining<T>(stage: Stage, work: Promise<T>): Promise<T> {
  const looks = setInterval(() => {
    stage.net.mineBlocks();
  }, LOOK_MS);
  try {
    return await work;
  } finally {
    clearInterval(looks);
  }
}

/** While a keeper runs: waits until nothing is due, leased, open or handed over. */
export async function settle(walk: Walk): Promise<void> {
  const { stage, keeper } = walk;
  if (keeper === undefined) return;
  await stage.until(`everything due was done after ${walk.story.at(-1)}`, async () => {
    const now = timeOf((await stage.rpc.getClock()).unixTimestamp);
    const [left] = await stage.sql<[{ due: number; inFlight: number }]>`
      select (select count(*) from subscription_work
          where due_at <= ${now} or claim_id is not null)::int as due,
        (select count(*) from payment_attempts where state = 'open')::int
          + (select count(*) from sponsorships where state = 'open')::int
          + (select count(*) from offers o where signed is not null
            and not exists (select from sponsorships where offer_id = o.id))::int as in_flight`;
    if (left.inFlight > 0) stage.net.mineBlocks(BLOCKS);
    return left.due + left.inFlight === 0;
  });
}

/** Lets chain time pass. */
export async function pass(walk: Walk, hours: number): Promise<void> {
  walk.stage.passHours(hours);
  walk.stage.net.mineBlocks(2);
  // Sometimes the next act comes while the keeper is at work.
  if (walk.random.below(6) > 0) await settle(walk);
}

/** Gives USDC, and SOL where the wallet has none, in confirmed state. */
export function fund({ stage }: Walk, wallet: Keypair, usdc: bigint = FUNDS): void {
  stage.net.fund(wallet.address, { usdc, lamports: 1_000_000_000n });
  stage.net.mineBlocks(2);
}

const databaseNow = async ({ stage }: Walk): Promise<Date> => {
  const [{ now }] = await stage.sql<[{ now: Date }]>`select clock_timestamp() as now`;
  return now;
};

/** Notes that the wallet asks for the account at `pda` now. */
export async function asks(walk: Walk, subscriptionPda: string): Promise<void> {
  walk.asked.push({ subscriptionPda, at: await databaseNow(walk) });
}

/** Requests a route of the wallet. Throws for a response that the service must never give. */
export const byWallet = <T = Record<string, unknown>>(
  { stage }: Walk,
  { token }: Walker,
  method: 'GET' | 'POST',
  path: string,
  body?: object,
): Promise<Answer<T>> =>
  checked(
    `${method} ${path}`,
    whileMining(stage, stage.api.call<T>(method, `/subscriber/${path}`, { token, body })),
  );

/** Requests a route of the app. */
export const byMerchant = <T = Record<string, unknown>>(
  { stage, merchantToken: token, appId }: Walk,
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  body?: object,
): Promise<Answer<T>> =>
  checked(
    `${method} ${path}`,
    stage.api.call<T>(method, `/merchant/apps/${appId}${path}`, { token, body }),
  );

async function checked<T>(what: string, call: Promise<Answer<T>>): Promise<Answer<T>> {
  const answer = await call;
  if (answer.status >= 500) throw new Error(`${what}: ${answer.status} ${answer.text}`);
  return answer;
}

/** The status and, of a refusal, what it says. */
export const told = ({ status, text }: Answer<unknown>): string =>
  status < 300 ? String(status) : `${status} ${text.slice(0, 160)}`;

/** Sends a transaction of the wallet by the relay; returns its end. */
export async function relayed(
  walk: Walk,
  walker: Walker,
  { transaction, offerId }: { transaction: string; offerId: string },
): Promise<string> {
  const answer = await byWallet<{ status: string }>(walk, walker, 'POST', 'transactions', {
    transaction: addSignature(walker.keypair, transaction),
    offerId,
  });
  return answer.status === 200 ? answer.body.data.status : told(answer);
}

/** Sends a transaction of the wallet without the service; returns its end. */
export const landed = (
  { stage }: Walk,
  { keypair }: Walker,
  { transaction }: { transaction: string },
): Promise<string> =>
  stage.land(keypair, transaction).then(
    () => 'confirmed',
    (error: unknown) => (error instanceof Error ? error.message.slice(0, 120) : 'failed'),
  );

/** Hands a sponsored transaction over, signed, and waits until keepers have decided. */
export async function handedOver(
  walk: Walk,
  walker: Walker,
  { transaction, offerId }: { transaction: string; offerId: string },
): Promise<string> {
  const answer = await byWallet(walk, walker, 'POST', `offers/${offerId}/transaction`, {
    transaction: addSignature(walker.keypair, transaction),
  });
  if (answer.status >= 300) return told(answer);
  if (walk.keeper === undefined) await startKeeper(walk);
  else await settle(walk);
  const [end] = await walk.stage.sql<{ state: string; reason: string | null }[]>`
    select state, reason from sponsorships where offer_id = ${offerId}`;
  return end === undefined ? 'undecided' : [end.state, end.reason].filter(Boolean).join(' ');
}
