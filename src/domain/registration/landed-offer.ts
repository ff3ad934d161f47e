// Decides from which offer a live account comes, if offers with different terms are open for its
// address. The first rule that finds an offer decides:
//
// 1. The newest transaction that opened or resumed the account: the offer with its signature, else
//    the offer with its blockhash, else the change of plan whose old subscription it has cancelled.
// 2. The offer that the wallet's page names.
// 3. The offer with the lowest first payment; among equal offers, the newest.
//
// A wallet may have signed an offer with another blockhash. So if no offer matches the newest
// transaction, an older transaction that matches an offer does not decide alone. Rules 2 and 3 then
// choose among that offer and the offers that do what the newest transaction did: open the account
// or resume it.
//
// An offer may stop fitting after its transaction landed: its checkout session has expired or was
// used by another wallet, or the subscription that it replaces is live. Such an offer counts only
// if its transaction is among those that opened or resumed the account. For a keeper, this holds
// for each change of plan: the wallet may have opened the account by other means, and a change that
// did not land must not end the subscription that it would replace. If such an offer may have
// landed but the chain does not show it, neither a keeper nor a wallet that names the offer
// registers anything.
import { unixSeconds } from '../../chain/time.ts';
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import { ServiceError } from '../../errors.ts';
import type { Landing, Landings } from './landing.ts';

/**
 * Seconds after the end of a checkout in which a transaction may land that was signed before: the
 * life of a blockhash, with a margin for slow blocks.
 */
const SIGNED_LIFE_SECONDS = 120n;

/** The account of a subscription that a change of plan replaces. */
export interface ReplacedAccount {
  readonly subscriptionPda: string;
  /** Whether the account is not cancelled on chain now. */
  readonly isRunning: boolean;
  /** Its externalId, which the change keeps, if a checkout session or the merchant has set it. */
  readonly customer: string | null;
}

/** An offer from which the account comes. */
export interface Origin {
  readonly offer: OpenOffer;
  /** The offer's transaction; undefined if the chain does not show it. */
  readonly landing?: Landing;
}

interface Grounds {
  /** The accounts of the replaced subscriptions, by the subscription's id. */
  readonly replaced: ReadonlyMap<string, ReplacedAccount>;
  /** Whether a keeper registers the account, and not its wallet. */
  readonly isKeepers: boolean;
  readonly landings: () => Promise<Landings>;
  /**
   * The offer that the wallet's page names, or the offer of the checkout session that the page
   * names.
   */
  readonly named: OpenOffer | undefined;
  /** Whether the page names the offer itself. The wallet then expects the offer's terms. */
  readonly isNamed: boolean;
  /** What is due at once under the offer's terms, in base units. */
  readonly dueUnder: (origin: Origin) => Promise<bigint>;
}

/**
 * Returns the offer from which the account comes; undefined when none fits. `offers` are sorted as
 * readOpenOffers() returns them. Reads the chain only if the offers have different terms, or one of
 * them does not fit now. Throws UnknownLanding (1) if a keeper cannot tell whether an offer that
 * does not fit now has landed, (2) if the wallet names such an offer and the chain shows no landing
 * of another offer. Throws as the callbacks of `grounds` do.
 */
export async function landedOffer(
  offers: readonly OpenOffer[],
  { replaced, isKeepers, landings, named, isNamed, dueUnder }: Grounds,
): Promise<Origin | undefined> {
  const isFitting = ({ isTaken, isLapsed, replaces }: OpenOffer) =>
    !isTaken &&
    !isLapsed &&
    (replaces === null || (!isKeepers && replaced.get(replaces)?.isRunning !== true));
  const all = newestOfEachTerms(offers.filter(isFitting).map((offer) => ({ offer })));
  if (all.length <= 1 && offers.every(isFitting)) return all[0];
  const { found, isWhole } = await landings();
  const landed = found
    .map((landing) => offersOf(offers, landing, replaced).map((offer) => ({ offer, landing })))
    .find((some) => some.length > 0);
  if (landed === undefined && isKeepers && !isWhole && !offers.every(isFitting))
    throw new UnknownLanding();
  const fitting = landed === undefined ? all : possible(all, landed, found[0]);
  const ofNamed = fitting.find(({ offer }) => named !== undefined && hasSameTerms(offer, named));
  const chosen = ofNamed ?? (await lowest(fitting, dueUnder));
  if (isNamed && ofNamed === undefined && chosen?.landing === undefined) throw new UnknownLanding();
  return chosen;
}

/**
 * The offers from which the account may come: those of the newest landing. If there are none: (1)
 * the offers of the newest landing that comes from an offer (`landed`), and (2) the fitting offers
 * of the newest landing's kind.
 */
function possible(
  fitting: readonly Origin[],
  landed: readonly Origin[],
  newest: Landing | undefined,
): Origin[] {
  if (landed.some(({ landing }) => landing === newest)) return newestOfEachTerms(landed);
  const isOther = ({ offer }: Origin) =>
    offer.resumes === (newest?.kind === 'resumed') &&
    !landed.some((one) => hasSameTerms(one.offer, offer));
  return newestOfEachTerms([...landed, ...fitting.filter(isOther)]);
}

/**
 * Whether the offers are for different customers (externalId of the checkout session). Ignores (1)
 * offers whose session another wallet has used, (2) offers that were not relayed before their
 * session expired.
 */
export const areOfTwoCustomers = (offers: readonly OpenOffer[]): boolean => {
  const counted = offers.filter(({ isTaken, isLapsed }) => !isTaken && !isLapsed);
  return new Set(counted.flatMap(({ externalId }) => externalId ?? [])).size > 1;
};

/** Whether two offers have the same terms. */
const hasSameTerms = (a: OpenOffer, b: OpenOffer): boolean =>
  a.checkoutSessionId === b.checkoutSessionId &&
  a.replaces === b.replaces &&
  a.changeWhen === b.changeWhen &&
  a.trialHours === b.trialHours;

/** Returns the newest offer for each distinct set of terms, sorted from newest to oldest. */
function newestOfEachTerms(origins: readonly Origin[]): Origin[] {
  const newest: Origin[] = [];
  for (const one of [...origins].sort((a, b) => (a.offer.id < b.offer.id ? 1 : -1)))
    if (!newest.some(({ offer }) => hasSameTerms(offer, one.offer))) newest.push(one);
  return newest;
}

/**
 * The offers from which the transaction may come: by its signature, else by its blockhash, else by
 * the subscription that it has cancelled. `serve` may give one blockhash to several offers. The
 * offer is then the one whose replaced subscription the transaction cancelled. Without the
 * blockhash, the offer of a checkout session counts only if it was still open.
 */
function offersOf(
  offers: readonly OpenOffer[],
  landing: Landing,
  replaced: Grounds['replaced'],
): OpenOffer[] {
  const signed = offers.filter(({ signature }) => signature === landing.signature);
  if (signed.length > 0) return signed;
  const accountOf = ({ replaces }: OpenOffer) =>
    replaces === null ? undefined : replaced.get(replaces);
  const isCancelling = (account: ReplacedAccount | undefined) =>
    account !== undefined && landing.cancels.includes(account.subscriptionPda);
  const cancelsAny = [...replaced.values()].some(isCancelling);
  const isPossible = (offer: OpenOffer) => {
    const account = accountOf(offer);
    if (offer.cancels !== null) return offer.cancels ? isCancelling(account) : !cancelsAny;
    return account?.isRunning !== true || isCancelling(account);
  };
  const sameBlockhash = offers.filter(
    (one) => one.blockhash === landing.blockhash && isPossible(one),
  );
  if (sameBlockhash.length > 0) return sameBlockhash;
  const wasOpen = ({ expiresAt }: OpenOffer) =>
    expiresAt === null || landing.at <= unixSeconds(expiresAt) + SIGNED_LIFE_SECONDS;
  return offers.filter(
    (one) => one.cancels !== false && isCancelling(accountOf(one)) && wasOpen(one),
  );
}

async function lowest(
  origins: readonly Origin[],
  dueUnder: Grounds['dueUnder'],
): Promise<Origin | undefined> {
  if (origins.length <= 1) return origins[0];
  const dues: { origin: Origin; due: bigint }[] = [];
  for (const origin of origins) dues.push({ origin, due: await dueUnder(origin) });
  return dues.reduce<(typeof dues)[number] | undefined>(
    (least, one) => (least === undefined || one.due < least.due ? one : least),
    undefined,
  )?.origin;
}

/** Thrown when the chain does not show whether an offer that does not fit now has landed. */
export class UnknownLanding extends ServiceError {
  constructor() {
    const message = 'may not have landed: the chain does not show what has opened the account';
    super(
      'CONFLICT',
      `The transaction of the offer ${message}. Read the standing of the plan, which has its amount, and register without offerId to accept it.`,
      [{ path: 'offerId', message }],
    );
  }
}
