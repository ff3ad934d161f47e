// The participants: merchants with plans of one hour to thirty days, and wallets that subscribe to
// them.
import { randomUUID } from 'node:crypto';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { planIn } from '../../src/chain/program/accounts.ts';
import { planAddress, subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { createPlan } from '../../src/chain/program/plan-instructions.ts';
import { timeOf } from '../../src/chain/time.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import { walletFromSeed, type Wallet } from '../../src/local/sandbox/wallet.ts';
import type { Ground } from './ground.ts';
import { land } from './send.ts';

/** A plan on chain and in the database. */
export interface Plan {
  id: string;
  pda: string;
  planId: bigint;
  bump: number;
  createdAt: bigint;
}

/** A merchant's offer: when its plan is sunset, another one of the same terms takes its place. */
export interface Offer {
  merchant: Wallet;
  appId: string;
  periodHours: number;
  amount: bigint;
  plan: Plan;
  /** Plans that were here before, oldest first. */
  past: Plan[];
}

export interface Player {
  wallet: Wallet;
  offer: Offer;
  /** The plan that it is subscribed to, or was last. */
  plan: Plan;
  /** The keeper pays the rent of its subscriptions, and closes them in the end. */
  sponsored: boolean;
  /** Spends its money or revokes between a keeper's read of its account and the payment. */
  fickle: boolean;
  /** Its merchant gives it 60 to 90 % off with each registration. */
  isHalfPrice: boolean;
  /** The external id that its merchant gives it with each registration. */
  customer: string | null;
  /** Its newest registration. */
  registeredId?: string | undefined;
  /** Does something right now. */
  busy: boolean;
}

// Number of wallets out of 100 with this period. The shortest periods give many payments, the
// longest span months.
const PERIODS: readonly (readonly [hours: number, share: number])[] = [
  [1, 3],
  [6, 6],
  [24, 28],
  [72, 23],
  [168, 15],
  [720, 25],
];
// The fee of 99 base units rounds to zero: a single transfer.
const AMOUNTS = [9_990_000n, 24_999_999n, 99n, 1_000_000n, 4_200_000n, 15_000_001n];
/** Hours of trial, by the period's: more than a period, and less. */
const TRIALS: Readonly<Record<number, number>> = { 6: 9, 168: 12, 720: 12 };
const FEES = [null, 250, null, 0, null, 33];
/** One of this many wallets is fickle. */
const FICKLE_ONE_OF = 10;
/** With --half-price, one of this many wallets pays at most 40 % of its plan's amount. */
const HALF_PRICE_ONE_OF = 3;
/**
 * With --credits, one of this many wallets has an external id, with those of its app among so many
 * wallets.
 */
const CUSTOMER_ONE_OF = 3;
const CUSTOMERS_AMONG = 30;
/** SOL for fees and rents; payments that a wallet can make before it has to be topped up. */
const LAMPORTS = 5_000_000_000;
export const PAYMENTS_FUNDED = 2000n;

/**
 * Merchants with one offer for each period; with --half-price their apps have registerUnclaimed.
 * Throws when the chain refuses.
 */
export async function gatherMerchants(ground: Ground, random: Random): Promise<Offer[]> {
  const offers: Offer[] = [];
  for (const [index, [periodHours]] of PERIODS.entries()) {
    const merchant = walletFromSeed(random.seed32());
    const amount = AMOUNTS[index % AMOUNTS.length] ?? 1n;
    await ground.cheat('requestAirdrop', merchant.address, LAMPORTS);
    await ground.cheat('surfnet_setTokenAccount', merchant.address, ground.mint, { amount: 0 });
    const [{ appId }] = await ground.sql<[{ appId: string }]>`
      with merchant as (insert into merchants (wallet, fee_bps) values (${merchant.address}, ${FEES[index] ?? null}) returning id)
      insert into apps (merchant_id, name, register_unclaimed)
        select id, 'soak', ${ground.pair !== undefined} from merchant returning id as app_id`;
    const plan = await publish(ground, { merchant, appId, periodHours, amount });
    offers.push({ merchant, appId, periodHours, amount, plan, past: [] });
  }
  return offers;
}

/** The address of a wallet's subscription. */
export const subscriptionOf = ({ plan, wallet }: Pick<Player, 'plan' | 'wallet'>): string =>
  subscriptionAddress(SUBSCRIPTIONS_PROGRAM, plan.pda, wallet.address).address;

let plans = 0n;

/** Publishes a plan of these terms and records it as active. Throws when it does not land. */
export async function publish(
  { sql, rpc, mint, keeper, treasury, published }: Ground,
  {
    merchant,
    appId,
    periodHours,
    amount,
  }: Pick<Offer, 'merchant' | 'appId' | 'periodHours' | 'amount'>,
): Promise<Plan> {
  const planId = (plans += 1n);
  const { address: pda, bump } = planAddress(SUBSCRIPTIONS_PROGRAM, merchant.address, planId);
  const terms = {
    planId,
    mint,
    amount,
    periodHours: BigInt(periodHours),
    endTs: 0n,
    destinations: [merchant.address, treasury],
    pullers: [keeper.address],
    metadataUri: '',
  };
  await land(
    rpc,
    [merchant],
    [createPlan(SUBSCRIPTIONS_PROGRAM, { merchant: merchant.address, plan: pda, terms })],
  );
  const { accounts } = await rpc.getMultipleAccounts([pda]);
  const account = planIn(accounts[0] ?? null, SUBSCRIPTIONS_PROGRAM);
  if (account === null) throw new Error('a plan that was published is not there');
  const { createdAt } = account;
  const plan: PublishedPlan = {
    ...{ id: randomUUID(), appId, pda, planId: planId.toString(), owner: merchant.address, mint },
    ...{ treasury, puller: keeper.address, amount, periodHours, createdAt },
  };
  await recordPlan(sql, plan);
  published.push(plan);
  return { id: plan.id, pda, planId, bump, createdAt };
}

/** The row of a plan. */
export interface PublishedPlan {
  id: string;
  appId: string;
  pda: string;
  planId: string;
  owner: string;
  mint: string;
  treasury: string;
  puller: string;
  amount: bigint;
  periodHours: number;
  createdAt: bigint;
}

/** Records a plan as active, unless it is recorded. */
export async function recordPlan(sql: Sql, plan: PublishedPlan): Promise<void> {
  await sql`
    insert into plans (id, app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, trial_hours, chain_created_at, status)
    values (${plan.id}, ${plan.appId}, 'soak', ${plan.pda}, ${plan.planId}, ${plan.owner}, ${plan.mint}, ${plan.treasury}, ${plan.puller}, ${plan.amount},
      ${plan.periodHours}, ${TRIALS[plan.periodHours] ?? null}, ${timeOf(plan.createdAt)}, 'active')
    on conflict do nothing`;
}

/** Wallets with SOL and USDC, none of which has subscribed yet. */
export async function gatherPlayers(
  { cheat, pair, hasCredits }: Ground,
  offers: readonly Offer[],
  count: number,
  random: Random,
): Promise<Player[]> {
  const shares = PERIODS.flatMap(([, share], index) => Array<number>(share).fill(index));
  const players: Player[] = [];
  for (let index = 0; index < count; index += 1) {
    // The first few cover all periods.
    const offer = offers[index < offers.length ? index : random.pick(shares)];
    if (offer === undefined) throw new RangeError('a period without an offer');
    const wallet = walletFromSeed(random.seed32());
    await cheat('requestAirdrop', wallet.address, LAMPORTS);
    await cheat('localnet_faucet', wallet.address, (PAYMENTS_FUNDED * offer.amount).toString());
    players.push({
      wallet,
      offer,
      plan: offer.plan,
      sponsored: random.below(8) === 0,
      fickle: index % FICKLE_ONE_OF === 0,
      isHalfPrice: pair !== undefined && index % HALF_PRICE_ONE_OF === 0,
      customer:
        hasCredits && index % CUSTOMER_ONE_OF === 1
          ? `customer ${Math.floor(index / CUSTOMERS_AMONG)}`
          : null,
      busy: false,
    });
  }
  return players;
}
