// Decides about one signed offer. The keeper reads the accounts, builds the message again and
// compares it with the message that the wallet signed. Some wallets append assertion instructions
// to a message. The keeper signs only if the messages are equal apart from such assertions. Before
// the keeper sends the transaction, one database transaction stores the signed transaction, the
// reserved lamports and the payment attempt.
import type { Keypair } from '../../chain/keypair.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { forbiddenChange } from '../../chain/transactions/signed.ts';
import {
  readWalletSigned,
  signAsSponsor,
  sponsoredMessage,
  type WalletSigned,
} from '../../chain/transactions/sponsored.ts';
import type { SignedSponsoredOffer } from '../../db/offers/signed-offers.ts';
import { readSponsorUsage, readWeekOfFees } from '../../db/offers/sponsor-budgets.ts';
import { findSponsoredPlan, type SponsoredPlan } from '../../db/offers/sponsored-merchants.ts';
import {
  insertSponsorship,
  lockSponsoring,
  type NewSponsorship,
  refuseSponsorship,
  type SponsorshipTerms,
} from '../../db/offers/sponsorships.ts';
import { lockBrake, readBrake } from '../../db/operating/collection-holds.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import {
  type CheckoutSessionRow,
  findCheckoutSession,
} from '../../db/subscriptions/checkout-sessions.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { findLiveRegistration } from '../../db/subscriptions/subscriptions.ts';
import { readWalletView, type WalletView } from '../../domain/actions/wallet-view.ts';
import { holdCancel } from '../../domain/change/cancel.ts';
import { stopOf } from '../../domain/collecting/brake.ts';
import {
  type BuiltSponsored,
  buildSponsored,
  type SponsorNetwork,
} from '../../domain/offers/build.ts';
import { isResumable } from '../../domain/offers/ground.ts';
import {
  floorOf,
  isLeaving,
  isNewMerchant,
  overBudget,
  type Refusal,
  type SponsorLimits,
} from '../../domain/offers/limits.ts';
import {
  findSignedChange,
  isCreditTime,
  type SponsoredChange,
  sponsoredChangeOf,
} from '../../domain/offers/sponsored-change.ts';
import { isAllowedBudget, maxFeeOf, rentsOf } from '../../domain/offers/transaction-budget.ts';
import { PaymentUnderWay, takeOver } from '../../domain/registration/plan-credit.ts';
import type { Context } from '../base/context.ts';
import { isFaulty } from '../base/split-batch.ts';
import { hasLapsed, simulateOffer } from './simulate.ts';

/**
 * Thrown to roll back the database transaction that would commit the offer's transaction. If
 * `refusal` is set, the offer is refused for this reason. If `refusal` is missing, another keeper
 * has decided about the offer, or a later turn will decide.
 */
class NotCommitted extends Error {
  readonly refusal: Refusal | undefined;

  constructor(refusal?: Refusal) {
    super('the sponsorship is not committed');
    this.refusal = refusal;
  }
}

/**
 * The plan and the merchant of an offer, read from the database, and the wallets of the merchant
 * and the subscriber.
 */
interface Terms {
  readonly plan: PlanRow | null;
  readonly merchant: SponsoredPlan | undefined;
  readonly parties: { accountWallet: string; subscriberWallet: string };
}

const networkOf = ({
  programId,
  mint,
  keeperWallets: keepers,
  treasuries,
}: Context): SponsorNetwork => ({ programId, mint, keepers, treasuries });

/** `later`: not decided yet, so a later turn decides about the offer. */
export type Decision = 'committed' | 'refused' | 'later';

/**
 * Decides about an offer. Either signs the offer's transaction as the sponsor and stores the
 * transaction, or refuses the offer for good. `claimId` identifies the keeper that then follows the
 * transaction. Throws if the chain or the database is unreachable; a later turn then decides.
 */
export async function decideOffer(
  context: Context,
  limits: SponsorLimits,
  offer: SignedSponsoredOffer,
  claimId: string,
): Promise<Decision> {
  const { sql, keypairs, log } = context;
  const keypair = keypairs.get(offer.sponsor);
  if (keypair === undefined) return 'later';
  const merchant = offer.planId === null ? undefined : await findSponsoredPlan(sql, offer.planId);
  const refuse = async (refusal: Refusal, facts: Readonly<Record<string, unknown>> = {}) => {
    log.info({ offer: offer.id, refusal, ...facts }, 'sponsored transaction not signed');
    await refuseOffer(context, offer, merchant, refusal);
    return 'refused' as const;
  };
  try {
    const judged = await judge(context, limits, offer, merchant);
    if (judged === 'later') return judged;
    if ('refusal' in judged) return await refuse(judged.refusal, { change: judged.change });
    await commitSponsored(context, limits, { offer, keypair, claimId, ...judged });
    return 'committed';
  } catch (error) {
    // A payment or a refund of the replaced subscription is open, so a later turn decides about the
    // offer while its transaction can still land.
    if (error instanceof PaymentUnderWay)
      return (await hasLapsed(context.rpc, offer)) ? refuse('lapsed') : 'later';
    if (error instanceof NotCommitted)
      return error.refusal === undefined ? 'later' : await refuse(error.refusal);
    // The API (`serve`) writes the offers. An offer that cannot be decoded is refused, so that it
    // does not delay other offers.
    if (isFaulty(error)) return await refuse('would_fail', { err: error });
    throw error;
  }
}

/**
 * Refuses an offer for good. If the offer was for a cancellation, cancels the subscription in the
 * database instead of on chain, because a wallet without SOL cannot pay for a cancellation on
 * chain. Exception: if the offer is refused because it has lapsed, nothing is cancelled, because
 * the wallet can sign a new offer.
 */
async function refuseOffer(
  { sql, deliveries }: Context,
  offer: SignedSponsoredOffer,
  merchant: SponsoredPlan | undefined,
  refusal: Refusal,
): Promise<void> {
  const { purpose, subscriptionPda } = offer;
  const holds = purpose === 'cancel' && refusal !== 'lapsed' && subscriptionPda !== null;
  await sql.begin(async (tx) => {
    const isDecided = await refuseSponsorship(tx, termsOf(offer, merchant), refusal);
    if (!isDecided || !holds) return;
    const id = await findLiveRegistration(tx, subscriptionPda);
    if (id !== undefined) await holdCancel(tx, { id });
  });
  if (holds) deliveries.notify();
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
  replaces: offer.replaces,
  creditAt: offer.creditAt,
});

interface Judged {
  readonly terms: Terms;
  readonly built: BuiltSponsored;
  readonly view: WalletView;
  readonly signed: WalletSigned;
  readonly timeline: string | null;
}

/** Builds the message again, compares it with the signed message, and simulates the transaction. */
async function judge(
  context: Context,
  limits: SponsorLimits,
  offer: SignedSponsoredOffer,
  merchant: SponsoredPlan | undefined,
): Promise<Judged | { refusal: Refusal; change?: string } | 'later'> {
  const { sql, rpc, rules } = context;
  const { purpose, wallet, sponsor, withdraws, id } = offer;
  const { computeUnits, unitPrice, loadedDataBytes } = offer;
  const budget = { computeUnits, unitPrice, loadedDataBytes };
  const signed = readWalletSigned(offer.signed);
  if (signed?.wallet !== wallet || signed.sponsor !== sponsor || !isAllowedBudget(budget))
    return { refusal: 'changed' };
  if (merchant?.sponsorship === 'off' && !isLeaving(purpose)) return { refusal: 'app_off' };
  const plan = offer.planId === null ? null : ((await findPlan(sql, offer.planId)) ?? null);
  // The wallet handed the transaction over in time, but the subscription has ended since.
  const { subscriptionPda, createdAt: offeredAt } = offer;
  if (purpose === 'resume' && !(await isResumable(sql, { subscriptionPda, offeredAt })))
    return { refusal: 'nothing_to_do' };
  const session = await sessionOf(context, offer);
  if (session === undefined) return { refusal: 'changed', change: 'its session' };
  const changed = await changeOf(context, offer, plan, session);
  if (changed !== undefined && 'refusal' in changed) return changed;
  const parties = { accountWallet: merchant?.accountWallet ?? '', subscriberWallet: wallet };
  const brake = await readBrake(sql, [parties]);
  const network = networkOf(context);
  const read = { commitment: 'confirmed', minSlot: brake.readsFromSlot } as const;
  const backupTreasuries = network.treasuries;
  const party = { wallet, plan, payer: sponsor, replaced: changed, backupTreasuries };
  const view = await readWalletView(rpc, network, party, read);
  // The keeper later finds the account by the offer's address.
  if (subscriptionPda !== view.subscriptionPda)
    return { refusal: 'changed', change: 'its account' };
  if (offer.creditAt !== null && !isCreditTime(offer.creditAt, view.now))
    return { refusal: 'lapsed' };
  const feeBps = merchant?.feeBps ?? rules.feeBps;
  const { minimumAmount } = limits;
  const terms = { session, feeBps, minimumAmount, change: changed };
  const request = { purpose, wallet, sponsor, plan, withdraws, ...terms };
  const built = buildSponsored(network, request, view);
  if ('refusal' in built) return built;
  const message = sponsoredMessage({ sponsor, wallet }, built.instructions, {
    blockhash: signed.blockhash,
    reference: built.changesPlan ? null : id,
    budget,
  });
  const change = forbiddenChange(message, signed.message, 'sponsor');
  if (change !== undefined) return { refusal: 'changed', change };
  const outcome = await simulateOffer(rpc, offer, brake.readsFromSlot);
  if (outcome === 'later') return outcome;
  if (outcome !== 'lands') {
    // The simulation may fail because another open transaction of this wallet has changed the
    // accounts. The buyer is then told that a transaction is under way.
    const { isUnderWay } = await readSponsorUsage(sql, termsOf(offer, merchant));
    return { refusal: isUnderWay ? 'under_way' : outcome };
  }
  const { timeline } = brake;
  return { terms: { plan, merchant, parties }, built, view, signed, timeline };
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
 * Returns the change of plan that an offer makes, or a refusal. Returns undefined if the offer
 * makes no change of plan.
 */
async function changeOf(
  { sql, rules }: Context,
  { replaces, creditAt, wallet, purpose }: SignedSponsoredOffer,
  plan: PlanRow | null,
  session: CheckoutSessionRow | null,
): Promise<SponsoredChange | { refusal: Refusal; change?: string } | undefined> {
  if (replaces === null || creditAt === null)
    return (session?.replaces ?? null) === null ? undefined : { refusal: 'change_of_plan' };
  const request = await findSignedChange(sql, { replaces, wallet }, plan, session);
  if (request === undefined || purpose !== 'subscribe')
    return { refusal: 'changed', change: 'its change of plan' };
  return sponsoredChangeOf(sql, request, { creditAt, leastPayment: rules.minimumAmount });
}

/**
 * Signs the transaction and commits it with the reserved lamports. Throws NotCommitted if the
 * transaction must not be committed, for example because a budget is used up or because another
 * keeper has decided about the offer.
 */
async function commitSponsored(
  context: Context,
  limits: SponsorLimits,
  parts: Judged & { offer: SignedSponsoredOffer; keypair: Keypair; claimId: string },
): Promise<void> {
  const { sql, rpc, log } = context;
  const { offer, keypair, claimId, terms, built, view, signed, timeline } = parts;
  const [latest, rents, week] = await Promise.all([
    // The keeper does not trust the block height and the slot in the offer, because the API wrote
    // them. Instead it stores the height of the latest blockhash. As slot it stores the newer of
    // that blockhash's slot and the slot at which the accounts were read. These are never lower
    // than the values of the transaction's own blockhash, so the transaction never counts as
    // expired while it can still land.
    rpc.getLatestBlockhash(),
    rentsOf((length) => rpc.getMinimumBalanceForRentExemption(length), built),
    readWeekOfFees(sql),
  ]);
  const { signature, bytes: transaction } = signAsSponsor(keypair, signed);
  const cost = { fee: maxFeeOf(offer), rent: rents.authorityRent + rents.subscriptionRent };
  const reserved = cost.fee + cost.rent;
  const sponsorship: Unreserved = {
    ...termsOf(offer, terms.merchant),
    claimId,
    signature,
    transaction,
    lastValidBlockHeight: latest.lastValidBlockHeight,
    blockhashSlot: newestSlot([latest.slot, view.slot]),
    reserved,
    fee: cost.fee,
    ...rents,
    payment: built.payment && {
      periodStart: timeOf(view.now),
      amountGross: built.payment.gross,
      platformFee: built.payment.fee,
      amountNet: built.payment.net,
      feeOwed: built.payment.feeOwed,
      invoice: built.payment.invoice,
    },
  };
  const floor = floorOf(limits, week);
  const parties = { ...terms.parties, planId: offer.planId ?? '' };
  const money = { purpose: offer.purpose, cost, balance: view.payerLamports, floor };
  await sql.begin(async (tx) => {
    const stop = stopOf(await lockBrake(tx, [parties]), parties, timeline);
    // After a failover of Postgres, a later turn reads the accounts again.
    if (stop === 'wait') throw new NotCommitted();
    if (stop === 'stopped' && !isLeaving(offer.purpose)) throw new NotCommitted('suspended');
    if (!(await locksCredit(tx, offer, built.payment?.invoice.creditApplied)))
      throw new NotCommitted();
    await reserve(tx, limits, sponsorship, money);
  });
  log.info({ offer: offer.id, signature, reserved }, 'sponsored transaction committed');
}

/**
 * Locks the credit of a change of plan until the commit. Returns false if the credit is now less
 * than the payment spends, for example after a refund. Throws PaymentUnderWay if the credit is not
 * known yet.
 */
async function locksCredit(
  tx: Transaction,
  { replaces, creditAt }: SignedSponsoredOffer,
  creditSpent = 0n,
): Promise<boolean> {
  if (replaces === null || creditAt === null) return true;
  const takenOver = await takeOver(tx, { id: replaces, when: 'now', at: unixSeconds(creditAt) });
  return takenOver !== undefined && takenOver.credit >= creditSpent;
}

/** A sponsorship before its budgets are checked. */
type Unreserved = Omit<NewSponsorship, 'merchantIsNew'>;

async function reserve(
  tx: Transaction,
  limits: SponsorLimits,
  sponsorship: Unreserved,
  money: Parameters<typeof overBudget>[2],
): Promise<void> {
  await lockSponsoring(tx);
  const usage = await readSponsorUsage(tx, sponsorship);
  const over = overBudget(limits, usage, money);
  if (over !== undefined) throw new NotCommitted(over);
  const merchantIsNew = isNewMerchant(limits, usage);
  const outcome = await insertSponsorship(tx, { ...sponsorship, merchantIsNew });
  if (outcome === 'decided') throw new NotCommitted(undefined);
  if (outcome === 'busy') throw new NotCommitted('under_way');
}
