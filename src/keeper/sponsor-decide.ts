// Decides about one signed offer. The keeper reads the accounts itself, builds the message again,
// and signs only if the wallet signed this message or appended only assertions. The keeper commits
// transaction, reserved lamports and payment attempt together, before it sends the transaction.
import type { Keypair } from '../chain/keypair.ts';
import { AUTHORITY_LENGTH, SUBSCRIPTION_LENGTH } from '../chain/program/layouts.ts';
import { timeOf } from '../chain/time.ts';
import {
  readWalletSigned,
  signAsSponsor,
  sponsoredChange,
  sponsoredMessage,
  type WalletSigned,
} from '../chain/transactions/sponsored.ts';
import { findCheckoutSession } from '../db/checkout-sessions.ts';
import { type Brake, lockBrake, readBrake } from '../db/collection-holds.ts';
import { findPlan, type PlanRow } from '../db/plans.ts';
import type { Transaction } from '../db/postgres/connect.ts';
import { readSponsorUsage, readWeekOfFees } from '../db/sponsor-budgets.ts';
import {
  findSponsoredPlan,
  type SignedSponsoredOffer,
  type SponsoredPlan,
} from '../db/sponsored-offers.ts';
import {
  insertSponsorship,
  lockSponsoring,
  type NewSponsorship,
  refuseSponsorship,
  type SponsorshipTerms,
} from '../db/sponsorships.ts';
import { isHeld, isSuspended, isWaiting } from '../domain/collecting/brake.ts';
import { NO_DISCOUNT } from '../domain/collecting/price.ts';
import { type BuiltSponsored, buildSponsored } from '../domain/sponsoring/build.ts';
import { type Ground, readGround, type SponsorNetwork } from '../domain/sponsoring/ground.ts';
import {
  floorOf,
  isLeaving,
  overBudget,
  type Refusal,
  type SponsorLimits,
} from '../domain/sponsoring/limits.ts';
import { isAllowedBudget, maxFeeOf } from '../domain/sponsoring/transaction-budget.ts';
import { isFaulty } from './claim.ts';
import type { Context } from './context.ts';

/**
 * Thrown to roll back the commit. `refusal` is the reason to refuse the offer. Without a `refusal`,
 * another keeper has decided about the offer, or a later turn will decide.
 */
class NotCommitted extends Error {
  readonly refusal: Refusal | undefined;

  constructor(refusal: Refusal | undefined) {
    super('the sponsorship is not committed');
    this.refusal = refusal;
  }
}

/**
 * The plan and the merchant of an offer, read from the database, and the wallets of both parties.
 */
interface Terms {
  readonly plan: PlanRow | null;
  readonly merchant: SponsoredPlan | undefined;
  readonly parties: { accountWallet: string; subscriberWallet: string };
}

/** Returns the addresses of the installation in the form that buildSponsored takes. */
const networkOf = ({
  programId,
  mint,
  keeperWallets: keepers,
  treasuries,
}: Context): SponsorNetwork => ({ programId, mint, keepers, treasuries });

/**
 * Adds the sponsor's signature to an offer's transaction and commits it, or refuses the offer for
 * good. Returns whether it committed under `claimId`. Throws if the chain or the database is
 * unreachable. A later turn then decides about the offer.
 */
export async function decideOffer(
  context: Context,
  limits: SponsorLimits,
  offer: SignedSponsoredOffer,
  claimId: string,
): Promise<boolean> {
  const { sql, keypairs, log } = context;
  const keypair = keypairs.get(offer.sponsor);
  if (keypair === undefined) return false;
  const merchant = offer.planId === null ? undefined : await findSponsoredPlan(sql, offer.planId);
  const refuse = async (refusal: Refusal, facts: Readonly<Record<string, unknown>> = {}) => {
    log.info({ offer: offer.id, refusal, ...facts }, 'sponsored transaction not signed');
    await refuseSponsorship(sql, termsOf(offer, merchant), refusal);
    return false;
  };
  try {
    const judged = await judge(context, limits, offer, merchant);
    if ('refusal' in judged) return await refuse(judged.refusal, { change: judged.change });
    return await commitSponsored(context, limits, { offer, keypair, claimId, ...judged });
  } catch (error) {
    if (error instanceof NotCommitted)
      return error.refusal === undefined ? false : refuse(error.refusal);
    // The API (`serve`) writes the offers. An offer that cannot be decoded is refused, so that it
    // does not delay other offers.
    if (isFaulty(error)) return refuse('would_fail', { err: error });
    throw error;
  }
}

const termsOf = (
  offer: SignedSponsoredOffer,
  merchant: SponsoredPlan | undefined,
): SponsorshipTerms => ({
  offerId: offer.id,
  purpose: offer.purpose,
  wallet: offer.wallet,
  address: offer.address,
  sponsor: offer.sponsor,
  merchantId: merchant?.merchantId ?? null,
  planId: merchant === undefined ? null : offer.planId,
  subscriptionPda: offer.subscriptionPda,
  checkoutSessionId: offer.checkoutSessionId,
});

interface Judged {
  readonly terms: Terms;
  readonly built: BuiltSponsored;
  readonly ground: Ground;
  readonly signed: WalletSigned;
  readonly timeline: string | null;
}

/** Builds the message again, compares it with the signed message, and simulates the transaction. */
async function judge(
  context: Context,
  limits: SponsorLimits,
  offer: SignedSponsoredOffer,
  merchant: SponsoredPlan | undefined,
): Promise<Judged | { refusal: Refusal; change?: string }> {
  const { sql, rpc, rules } = context;
  const { purpose, wallet, sponsor, withdraws, id } = offer;
  const budget = {
    computeUnits: offer.computeUnits,
    unitPrice: offer.unitPrice,
    loadedDataBytes: offer.loadedDataBytes,
  };
  const signed = readWalletSigned(offer.signed);
  if (signed?.wallet !== wallet || signed.sponsor !== sponsor || !isAllowedBudget(budget))
    return { refusal: 'changed' };
  if (merchant?.sponsorship === 'off' && !isLeaving(purpose)) return { refusal: 'app_off' };
  const plan = offer.planId === null ? null : ((await findPlan(sql, offer.planId)) ?? null);
  const session = await sessionOf(context, offer);
  if (session === undefined) return { refusal: 'changed', change: 'its session' };
  const parties = { accountWallet: merchant?.accountWallet ?? '', subscriberWallet: wallet };
  const brake = await readBrake(sql, [parties]);
  const network = networkOf(context);
  const read = { commitment: 'confirmed', minSlot: brake.readsFromSlot } as const;
  const ground = await readGround(rpc, network, { wallet, plan, sponsor }, read);
  const feeBps = merchant?.feeBps ?? rules.feeBps;
  const { minimumAmount } = limits;
  const discount = session ?? NO_DISCOUNT;
  const asked = { purpose, wallet, sponsor, plan, withdraws, discount, feeBps, minimumAmount };
  const built = buildSponsored(network, asked, ground);
  if ('refusal' in built) return built;
  const message = sponsoredMessage(
    { sponsor, wallet },
    built.instructions,
    { blockhash: signed.blockhash, reference: id, budget },
    built.reopens ? 0 : undefined,
  );
  const change = sponsoredChange(message, signed.message);
  if (change !== undefined) return { refusal: 'changed', change };
  const { err } = await rpc.simulateTransaction(offer.signed, {
    commitment: 'processed',
    ownBlockhash: true,
    minSlot: brake.readsFromSlot,
  });
  if (err !== null) return { refusal: err === 'BlockhashNotFound' ? 'lapsed' : 'would_fail' };
  const { timeline } = brake;
  return { terms: { plan, merchant, parties }, built, ground, signed, timeline };
}

/**
 * Returns the checkout session of an offer, or null if the offer has none. Returns undefined if the
 * session belongs to another wallet or plan, or already has a subscription.
 */
async function sessionOf({ sql }: Context, offer: SignedSponsoredOffer) {
  if (offer.checkoutSessionId === null) return null;
  const session = await findCheckoutSession(sql, offer.checkoutSessionId);
  const isHeldByWallet =
    session?.planId === offer.planId &&
    session.subscriberWallet === offer.wallet &&
    session.subscriptionId === null;
  return isHeldByWallet ? session : undefined;
}

/**
 * Signs the transaction and commits it with the reserved lamports. Throws NotCommitted if a budget
 * is used up, if collection is stopped, or if another keeper has decided.
 */
async function commitSponsored(
  context: Context,
  limits: SponsorLimits,
  parts: Judged & { offer: SignedSponsoredOffer; keypair: Keypair; claimId: string },
): Promise<boolean> {
  const { sql, rpc, log } = context;
  const { offer, keypair, claimId, terms, built, ground, signed } = parts;
  const rent = async (isOpened: boolean, length: number) =>
    isOpened ? rpc.getMinimumBalanceForRentExemption(length) : 0n;
  const [latest, authorityRent, subscriptionRent, week] = await Promise.all([
    // The keeper does not trust the block height and slot in the offer, because the API wrote them.
    // The block height and slot of the latest blockhash are upper bounds. With these upper bounds,
    // the transaction never counts as expired while it can land.
    rpc.getLatestBlockhash(),
    rent(built.opensAuthority, AUTHORITY_LENGTH),
    rent(built.opensSubscription, SUBSCRIPTION_LENGTH),
    readWeekOfFees(sql),
  ]);
  const { signature, bytes: transaction } = signAsSponsor(keypair, signed);
  const fee = maxFeeOf(offer);
  const reserved = fee + authorityRent + subscriptionRent;
  const one: NewSponsorship = {
    ...termsOf(offer, terms.merchant),
    claimId,
    signature,
    transaction,
    lastValidBlockHeight: latest.lastValidBlockHeight,
    blockhashSlot: latest.slot,
    reserved,
    fee,
    authorityRent,
    subscriptionRent,
    payment: built.payment && {
      periodStart: timeOf(ground.now),
      amountGross: built.payment.gross,
      platformFee: built.payment.fee,
      amountNet: built.payment.net,
      feeOwed: built.payment.feeOwed,
    },
  };
  const cost = { fee, rent: authorityRent + subscriptionRent };
  const floor = floorOf(limits, week);
  const money = { purpose: offer.purpose, cost, balance: ground.sponsorLamports, floor };
  await sql.begin(async (tx) => {
    const refusal = stoppedBy(await lockBrake(tx, [terms.parties]), parts);
    if (refusal !== undefined) throw new NotCommitted(refusal === 'wait' ? undefined : refusal);
    await reserve(tx, limits, one, money);
  });
  log.info({ offer: offer.id, signature, reserved }, 'sponsored transaction committed');
  return true;
}

/**
 * Returns why the transaction must not be committed, or undefined if it may be committed. `wait`
 * means that Postgres has failed over. A later turn then reads the accounts again.
 */
function stoppedBy(
  brake: Brake,
  { offer, terms, timeline }: Judged & { offer: SignedSponsoredOffer },
): Refusal | 'wait' | undefined {
  if (isWaiting(brake) || brake.timeline !== timeline) return 'wait';
  if (isLeaving(offer.purpose)) return undefined;
  const { accountWallet } = terms.parties;
  const isStopped =
    isHeld(brake, { planId: offer.planId ?? '', accountWallet }) ||
    isSuspended(brake, terms.parties);
  return isStopped ? 'suspended' : undefined;
}

async function reserve(
  tx: Transaction,
  limits: SponsorLimits,
  one: NewSponsorship,
  money: Parameters<typeof overBudget>[2],
): Promise<void> {
  await lockSponsoring(tx);
  const over = overBudget(limits, await readSponsorUsage(tx, one), money);
  if (over !== undefined) throw new NotCommitted(over);
  const outcome = await insertSponsorship(tx, one);
  if (outcome === 'decided') throw new NotCommitted(undefined);
  if (outcome === 'busy') throw new NotCommitted('under_way');
}
