// Makes an offer: builds the transaction, simulates it to find its compute and data limits, and
// stores it. If the transaction is not sponsored, the wallet gets the reason and pays for its
// transaction itself.
import { createHash, randomBytes } from 'node:crypto';
import { insertOffer, type SponsoredPurpose } from '../../db/offers/offers.ts';
import { readSponsorUsage, readWeekOfFees } from '../../db/offers/sponsor-budgets.ts';
import { findSponsoredPlan } from '../../db/offers/sponsored-merchants.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { newId } from '../../db/postgres/ids.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { readWalletView, type WalletView } from '../actions/wallet-view.ts';
import {
  type ChainSender,
  type BillingAddresses,
  reaching,
  readBlockhash,
} from '../chain-reads.ts';
import { type ChangeRequest, replacedOf } from '../change/change.ts';
import { pullerAmong } from '../collecting/obstacles.ts';
import { pullersOf } from '../plans/plans.ts';
import { readReservations, refuseTaken } from '../registration/one-per-customer.ts';
import { type ForeignApproval, foreignApproval } from '../standing/standing.ts';
import type { BuiltSponsored, SponsorNetwork } from './build.ts';
import { floorOf, isLeaving, overBudget, type Refusal, type SponsorLimits } from './limits.ts';
import { creditTime, sponsoredChangeOf } from './sponsored-change.ts';
import { budgetOf, MAX_BUDGET, maxFeeOf, rentsOf } from './transaction-budget.ts';

/** Dependencies of offers. `sponsoring` is undefined if nothing is sponsored. */
export interface SponsorParts {
  readonly sql: Sql;
  readonly chain: ChainSender;
  readonly network: BillingAddresses;
  readonly sponsoring?: { readonly limits: SponsorLimits; readonly feeBps: number } | undefined;
}

export interface OfferRequest {
  readonly purpose: SponsoredPurpose;
  readonly wallet: string;
  readonly plan: PlanRow | null;
  readonly withdraws?: boolean;
  readonly session?: CheckoutSessionRow | undefined;
  /** The client's network address (http/door/addresses.ts). */
  readonly address: string;
  /** The web page that asked, if the wallet has not signed in. Undefined for a signed-in wallet. */
  readonly page?: { readonly origin: string | null };
  /** The change of plan that a signed-in wallet asks for. */
  readonly change?: SponsoredChangeRequest | undefined;
}

export interface SponsoredChangeRequest extends ChangeRequest {
  /** Minimum amount to collect, in base units (PLAN_MINIMUM_AMOUNT). */
  readonly leastPayment: bigint;
  /**
   * The `asOf` of the amounts that the wallet's owner was shown: the time for which they were
   * computed.
   */
  readonly shown?: Date | undefined;
}

/** A sponsored transaction that the wallet can sign. */
export interface SponsoredOfferMade {
  readonly transaction: string;
  readonly offerId: string;
  /** The address of the wallet's subscription to the plan. Null without a plan. */
  readonly subscriptionPda: string | null;
  readonly minContextSlot: number;
  /** Secret that replaces the sign-in of the wallet. Null for a signed-in wallet. */
  readonly secret: string | null;
  /** The wallet's approval of another program, which the transaction replaces. */
  readonly replaces: ForeignApproval | null;
  /** The time for which the credit of a change of plan was computed. Null for other offers. */
  readonly creditAt: Date | null;
}

type Outcome = { readonly offer: SponsoredOfferMade } | { readonly refusal: Refusal };

export const hashSecret = (secret: string) => createHash('sha256').update(secret).digest();

function sponsorNetwork(network: BillingAddresses): SponsorNetwork {
  const { programId, mint, treasury, backupTreasuries = [] } = network;
  const keepers = [...new Set(pullersOf(network))];
  return { programId, mint, keepers, treasuries: [treasury, ...backupTreasuries] };
}

/**
 * Makes an offer, or returns why the transaction is not sponsored. Throws CONFLICT if the session's
 * customer has another subscription, and INTERNAL_ERROR if the chain is unreachable.
 */
export async function offerSponsored(parts: SponsorParts, request: OfferRequest): Promise<Outcome> {
  const { sql, chain, network, sponsoring } = parts;
  if (sponsoring === undefined) return { refusal: 'off' };
  const { limits } = sponsoring;
  const { purpose, wallet, plan, session, address, change, page } = request;
  const isChange = (session?.replaces ?? null) !== null || change !== undefined;
  if (isChange && (change === undefined || page !== undefined))
    return { refusal: 'change_of_plan' };
  const merchant = plan === null ? undefined : await findSponsoredPlan(sql, plan.id);
  if (merchant?.sponsorship === 'off' && !isLeaving(purpose)) return { refusal: 'app_off' };
  const names = sponsorNetwork(network);
  const { sponsor, view } = await viewFor(parts, names, request);
  if (sponsor === undefined) return { refusal: 'not_collectable' };
  const { buildSponsored } = await import('./build.ts');
  const creditAt = change === undefined ? null : creditTime(view.now, change.shown);
  const changed =
    change && creditAt && (await sponsoredChangeOf(sql, change, { ...change, creditAt }));
  if (changed && 'refusal' in changed) return changed;
  const feeBps = merchant?.feeBps ?? sponsoring.feeBps;
  const { withdraws = false } = request;
  const { minimumAmount } = limits;
  const sponsoredRequest = {
    ...{ purpose, wallet, sponsor, plan, withdraws, session, feeBps, minimumAmount },
    ...(changed && { change: changed }),
  };
  const built = buildSponsored(names, sponsoredRequest, view);
  if ('refusal' in built) return built;
  const { subscriptionPda } = view;
  const merchantId = merchant?.merchantId ?? null;
  const of = {
    ...{ merchantId, wallet, address, sponsor, purpose, subscriptionPda },
    replaces: change?.old.id ?? null,
  };
  const [usage, week, { authorityRent, subscriptionRent }] = await Promise.all([
    readSponsorUsage(sql, of),
    readWeekOfFees(sql),
    rentsOf((length) => reaching(chain.getMinimumBalanceForRentExemption(length)), built),
  ]);
  const cost = { fee: maxFeeOf(MAX_BUDGET), rent: authorityRent + subscriptionRent };
  const balance = view.payerLamports;
  const over = overBudget(limits, usage, { purpose, cost, balance, floor: floorOf(limits, week) });
  if (over !== undefined) return { refusal: over };
  const replaces = foreignApproval(view.subscriberTokens, view.authorityAddress);
  const about = { sponsor, subscriptionPda, replaces, creditAt };
  return store(parts, { ...request, withdraws }, about, built);
}

/**
 * Chooses the sponsor: a keeper's wallet that the plan names as a puller. Reads the accounts and
 * the sponsor's balance. `sponsor` is undefined if the plan names no keeper's wallet.
 */
async function viewFor(
  { chain, network }: SponsorParts,
  names: SponsorNetwork,
  { wallet, plan, change }: OfferRequest,
): Promise<{ sponsor: string | undefined; view: WalletView }> {
  const replaced = change && replacedOf(change);
  const of = { wallet, plan, replaced, backupTreasuries: names.treasuries };
  const read = (payer: string) => reaching(readWalletView(chain, names, { ...of, payer }));
  const view = await read(network.puller);
  if (plan === null) return { sponsor: network.puller, view };
  const sponsor = view.plan === null ? undefined : pullerAmong(view.plan, names.keepers);
  if (sponsor === undefined || sponsor === network.puller) return { sponsor, view };
  return { sponsor, view: await read(sponsor) };
}

async function store(
  { sql, chain }: SponsorParts,
  request: OfferRequest & { withdraws: boolean },
  about: Pick<SponsoredOfferMade, 'subscriptionPda' | 'replaces' | 'creditAt'> & {
    sponsor: string;
  },
  { instructions, changesPlan }: BuiltSponsored,
): Promise<Outcome> {
  const { purpose, wallet, plan, session, address, page, withdraws } = request;
  const { sponsor, subscriptionPda, replaces, creditAt } = about;
  const { leavesRoom, sponsoredMessage, unsignedSponsored } =
    await import('../../chain/transactions/sponsored.ts');
  const [recent, id] = await Promise.all([readBlockhash(chain), newId(sql)]);
  const { blockhash, lastValidBlockHeight, slot } = recent;
  const compileMessage = (budget: typeof MAX_BUDGET) =>
    sponsoredMessage({ sponsor, wallet }, instructions, {
      blockhash,
      reference: changesPlan ? null : id,
      budget,
    });
  const longest = compileMessage(MAX_BUDGET);
  if (!leavesRoom(longest)) return { refusal: 'no_room' };
  const draft = Buffer.from(unsignedSponsored(longest), 'base64');
  const { err, unitsConsumed, loadedDataBytes } = await reaching(chain.simulateTransaction(draft));
  if (err !== null) return { refusal: 'would_fail' };
  const budget = budgetOf(unitsConsumed, loadedDataBytes);
  const message = compileMessage(budget);
  const secret = page === undefined ? null : randomBytes(32).toString('base64url');
  if (session !== undefined && purpose === 'subscribe' && subscriptionPda !== null) {
    const reservations = await readReservations({ sql, chain }, session, subscriptionPda);
    await refuseTaken(sql, session, reservations);
  }
  await insertOffer(sql, {
    id,
    purpose,
    wallet,
    sponsor,
    planId: plan?.id ?? null,
    subscriptionPda,
    checkoutSessionId: session?.id ?? null,
    address,
    origin: page?.origin ?? null,
    secretHash: secret === null ? null : hashSecret(secret),
    message,
    blockhash,
    lastValidBlockHeight,
    blockhashSlot: slot,
    ...budget,
    withdraws,
    replaces: request.change?.old.id ?? null,
    creditAt,
  });
  const transaction = unsignedSponsored(message);
  const minContextSlot = Number(slot);
  const made = { subscriptionPda, replaces, creditAt };
  return { offer: { transaction, offerId: id, minContextSlot, secret, ...made } };
}
