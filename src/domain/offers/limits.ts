// Decides whether a transaction is sponsored, from the costs of earlier sponsored transactions. The
// API decides before it makes an offer. A keeper decides again, under a lock, before it commits the
// signed transaction. Pure.
import type { Config } from '../../config/config.ts';
import type { SponsoredPurpose } from '../../db/offers/offers.ts';
import type { SponsorUsage } from '../../db/offers/sponsor-budgets.ts';
import type { MerchantStanding } from '../../db/offers/sponsored-merchants.ts';

/** The operator's budgets in lamports (SPONSOR_ variables). */
export interface SponsorLimits {
  readonly perDay: bigint;
  readonly perMerchant: bigint;
  readonly perWallet: bigint;
  readonly perAddress: bigint;
  readonly leaving: bigint;
  readonly merchantOut: bigint;
  readonly merchantStart: bigint;
  /** How many lamports one USDC of a merchant's platform fees counts as. */
  readonly lamportsPerUsdc: bigint;
  /** Minimum first payment, in USDC base units. */
  readonly minimumAmount: bigint;
  /**
   * Lamports that sponsoring leaves in a sponsor's wallet. If undefined, the sum of the last week's
   * network fees.
   */
  readonly floor: bigint | undefined;
}

/** Reasons why a transaction is not sponsored. The wallet's owner reads these texts. */
export const refusals = {
  off: 'This service sponsors no transactions.',
  app_off: 'The merchant does not sponsor transactions.',
  trial: 'A subscription with a trial is not sponsored, because it begins without a payment.',
  below_minimum: 'The first payment is too small to be sponsored.',
  short_period: 'The plan ends within the first period.',
  change_of_plan:
    'Only a change of plan that is paid at once is sponsored, by a signed-in wallet whose approval stands.',
  running: 'The wallet has a subscription to the plan that still runs.',
  no_token_account: 'The wallet has no USDC account.',
  insufficient_usdc: 'The wallet has too little USDC for the first payment.',
  frozen: 'The USDC account of the wallet is frozen by the issuer of USDC.',
  not_collectable: 'Payments of the plan cannot be collected at the moment.',
  nothing_to_do: 'The chain does not need this transaction any more.',
  suspended: 'The merchant or the wallet is suspended, or collection is held.',
  budget: 'The sponsoring budget of the day is used up.',
  merchant_budget: 'The sponsoring budget of the merchant is used up.',
  wallet_budget: 'The sponsoring budget of this wallet is used up for today.',
  address_budget: 'The sponsoring budget of this network address is used up for today.',
  failed_lately:
    'A sponsored transaction of this wallet or network address failed within the hour.',
  under_way: 'A sponsored transaction of this wallet is under way.',
  low_balance: 'The sponsor keeps its SOL for renewals at the moment.',
  changed: 'The signed transaction differs from what the service built.',
  lapsed: 'The transaction was not signed in time: its blockhash has expired.',
  would_fail: 'The transaction would fail on the network.',
  no_room: 'The transaction would be too long with the assertions that a wallet may append.',
} as const;

export type Refusal = keyof typeof refusals;

const LEAVING: readonly SponsoredPurpose[] = ['cancel', 'close', 'revoke'];
/**
 * Returns whether SPONSOR_LEAVING_LAMPORTS_PER_DAY pays for transactions with this purpose. A
 * suspended wallet may use this budget too.
 */
export const isLeaving = (purpose: SponsoredPurpose) => LEAVING.includes(purpose);

const LIMITS: readonly Refusal[] = [
  'app_off',
  'budget',
  'merchant_budget',
  'wallet_budget',
  'address_budget',
  'failed_lately',
  'under_way',
  'low_balance',
];
/**
 * Returns whether a limit of sponsoring is the reason for the refusal. If so, the wallet may pay
 * for the transaction itself. If the transaction was a cancellation by a signed-in wallet, the
 * service records the cancellation in any case.
 */
export const isLimit = (refusal: Refusal) => LIMITS.includes(refusal);

/**
 * Divisors of the budget SPONSOR_LEAVING_LAMPORTS_PER_DAY: one wallet may use a twentieth of this
 * budget, one network address a fifth.
 */
const [LEAVING_PER_WALLET, LEAVING_PER_ADDRESS] = [20n, 5n];
/** All addresses of one IPv6 /48 together may use this many budgets of one address. */
const ADDRESSES_PER_SITE = 4n;
/**
 * Lamports that sponsoring always leaves in a sponsor's wallet. Each sponsor is the wallet of a
 * keeper. A keeper whose wallet holds less collects no payments, because the network fees of one
 * batch may cost this much.
 */
export const LEAST_FLOOR = 5_000_000n;

/** Returns the limits of a configuration, or undefined if nothing is sponsored. */
export function sponsorLimits(config: Config): SponsorLimits | undefined {
  if (config.sponsorPerDay === 0) return undefined;
  return {
    perDay: BigInt(config.sponsorPerDay),
    perMerchant: BigInt(config.sponsorPerMerchant),
    perWallet: BigInt(config.sponsorPerWallet),
    perAddress: BigInt(config.sponsorPerAddress),
    leaving: BigInt(config.sponsorLeaving),
    merchantOut: BigInt(config.sponsorMerchantOut),
    merchantStart: BigInt(config.sponsorMerchantStart),
    lamportsPerUsdc: BigInt(config.lamportsPerUsdc),
    minimumAmount: BigInt(config.sponsorMinimumAmount),
    floor: config.sponsorFloor === undefined ? undefined : BigInt(config.sponsorFloor),
  };
}

/**
 * Minimum of the budget for closings, in lamports a day. A low `sponsorLeaving` must not stop
 * closings, because each closing brings back far more rent than it costs.
 */
const LEAST_CLOSING = 1_000_000n;

/**
 * Returns the lamports per day that keepers may spend on closing accounts to get rent back: half of
 * `sponsorLeaving`, but at least LEAST_CLOSING. The cost of these closings also counts against
 * `sponsorLeaving`. The rest of `sponsorLeaving` stays free for wallets that cancel, close or
 * revoke.
 */
export function closingBudget({ sponsorLeaving }: Pick<Config, 'sponsorLeaving'>): bigint {
  const half = BigInt(sponsorLeaving) / 2n;
  return half > LEAST_CLOSING ? half : LEAST_CLOSING;
}

/**
 * Returns the lamports that sponsoring must leave in a sponsor's wallet. `week` is the sum of the
 * last week's network fees.
 */
export function floorOf({ floor }: Pick<SponsorLimits, 'floor'>, week: bigint): bigint {
  const base = floor ?? week;
  return base > LEAST_FLOOR ? base : LEAST_FLOOR;
}

type MerchantLimits = Pick<SponsorLimits, 'merchantOut' | 'merchantStart' | 'lamportsPerUsdc'>;

const BASE_UNITS = 1_000_000n;
const worthOf = ({ lamportsPerUsdc }: MerchantLimits, { fees }: MerchantStanding): bigint =>
  (fees * lamportsPerUsdc) / BASE_UNITS;

/**
 * Returns the maximum of sponsored rent (lamports) that may be out at a time for a merchant's
 * subscribers. Rent is out until it is returned to the sponsor.
 */
export function mayBeOut(limits: MerchantLimits, merchant: MerchantStanding): bigint {
  const { merchantOut, merchantStart } = limits;
  const { vouched, isApproved } = merchant;
  const merchantLimit =
    vouched ?? (isApproved ? merchantOut : merchantStart + worthOf(limits, merchant));
  return merchantLimit < merchantOut ? merchantLimit : merchantOut;
}

/**
 * Whether the merchant is new: no operator has approved it or guarantees rent for it, and its fees
 * count for less than the starting limit. One payment does not suffice, because anyone can create a
 * merchant and pay a cent of fees.
 */
export function isNewMerchant(limits: MerchantLimits, merchant: MerchantStanding): boolean {
  const { vouched, isApproved } = merchant;
  return vouched === null && !isApproved && worthOf(limits, merchant) < limits.merchantStart;
}

/**
 * Returns the lamports a day that all new merchants together may use: a fifth of the daily budget.
 */
export const newMerchantsBudget = ({ perDay }: Pick<SponsorLimits, 'perDay'>): bigint =>
  perDay / 5n;

/** Whether more than four fifths of the limit of open rent are used. */
export const isNearLimit = (out: bigint, limit: bigint): boolean => out * 5n > limit * 4n;

/** Maximum cost of a transaction in lamports: the network fee, and the rent of opened accounts. */
export interface SponsorCost {
  readonly fee: bigint;
  readonly rent: bigint;
}

/**
 * Returns why a transaction must not be sponsored. Returns undefined if it may be sponsored.
 * `balance` is the sponsor's whole balance, including what open transactions reserve.
 */
export function overBudget(
  limits: SponsorLimits,
  usage: SponsorUsage,
  {
    purpose,
    cost,
    balance,
    floor,
  }: {
    purpose: SponsoredPurpose;
    cost: SponsorCost;
    balance: bigint;
    floor: bigint;
  },
): Refusal | undefined {
  const lamports = cost.fee + cost.rent;
  const rest = balance - usage.reserved - lamports;
  if (usage.isUnderWay) return 'under_way';
  // A failed transaction of another wallet at the same network address must not prevent this wallet
  // from cancelling, closing or revoking.
  const hasFailed = isLeaving(purpose) ? usage.walletHasFailed : usage.hasFailed;
  if (hasFailed) return 'failed_lately';
  if (isLeaving(purpose))
    return rest < LEAST_FLOOR ? 'low_balance' : overLeaving(limits, usage, lamports);
  if (rest < floor) return 'low_balance';
  if (usage.total + lamports > limits.perDay) return 'budget';
  const isOfNew = isNewMerchant(limits, usage);
  if (isOfNew && usage.newMerchants + lamports > newMerchantsBudget(limits)) return 'budget';
  if (usage.merchant + lamports > limits.perMerchant) return 'merchant_budget';
  // A transaction without rent does not change how much rent is out.
  const isOut = cost.rent > 0n && usage.merchantOut + cost.rent > mayBeOut(limits, usage);
  if (isOut) return 'merchant_budget';
  if (usage.wallet + lamports > limits.perWallet) return 'wallet_budget';
  return overAddress(limits.perAddress, lamports, usage.address, usage.site);
}

function overLeaving(
  { leaving }: SponsorLimits,
  usage: SponsorUsage,
  lamports: bigint,
): Refusal | undefined {
  if (usage.leaving + lamports > leaving) return 'budget';
  if (usage.walletLeaving + lamports > leaving / LEAVING_PER_WALLET) return 'wallet_budget';
  const perAddress = leaving / LEAVING_PER_ADDRESS;
  return overAddress(perAddress, lamports, usage.addressLeaving, usage.siteLeaving);
}

function overAddress(
  budget: bigint,
  lamports: bigint,
  address: bigint,
  site: bigint,
): Refusal | undefined {
  const isOver = address + lamports > budget || site + lamports > budget * ADDRESSES_PER_SITE;
  return isOver ? 'address_budget' : undefined;
}
