// Decides from which offer a live account comes, if offers with different terms are open for its
// address. In this order:
//
//   the newest transaction that opened or resumed the account and comes from an offer -> the offer
//     with its signature, else the one with its blockhash, else the change of plan whose old
//     subscription it has cancelled
//   the offer that the wallet's page names
//   the offer whose first payment is lowest, the newest of equals
//
// What the chain shows now may have changed since the transaction landed. So an offer that does not
// fit now (its checkout session has expired or was used by another wallet, or the subscription that
// it replaces runs) fits only if its transaction is one of those. For a keeper, this holds for each
// change of plan: the wallet may have opened the account by other means, and a change that did not
// land must not end the subscription that it would replace. A keeper registers nothing where such
// an offer may have landed and the chain does not show it.
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import { ServiceError } from '../../errors.ts';
import type { Landing, Landings } from './landing.ts';

/** The account of a subscription that a change of plan replaces. */
export interface ReplacedAccount {
  readonly subscriptionPda: string;
  /** Whether the account is not cancelled on chain now. */
  readonly isRunning: boolean;
  /** Its externalId, if a checkout session or the merchant has set it: the change keeps it. */
  readonly customer: string | null;
}

interface Grounds {
  /** The accounts of the replaced subscriptions, by the subscription's id. */
  readonly replaced: ReadonlyMap<string, ReplacedAccount>;
  /** Whether a keeper registers the account, and not its wallet. */
  readonly isKeepers: boolean;
  readonly landings: () => Promise<Landings>;
  /** The offer that the wallet's page names. */
  readonly named: OpenOffer | undefined;
  /** What is due at once under the offer's terms, in base units. */
  readonly dueUnder: (offer: OpenOffer) => Promise<bigint>;
}

/**
 * Returns the offer from which the account comes; undefined when none fits. The chain is read only
 * if the offers have different terms, or one of them does not fit now. `offers` are sorted as
 * readOpenOffers() returns them. Throws UnknownLanding if a keeper cannot tell whether an offer
 * that does not fit now has landed, else as the grounds do.
 */
export async function landedOffer(
  offers: readonly OpenOffer[],
  { replaced, isKeepers, landings, named, dueUnder }: Grounds,
): Promise<OpenOffer | undefined> {
  const isFitting = ({ isTaken, isLapsed, replaces }: OpenOffer) =>
    !isTaken &&
    !isLapsed &&
    (replaces === null || (!isKeepers && replaced.get(replaces)?.isRunning !== true));
  const all = newestOfEachTerms(offers.filter(isFitting));
  if (all.length <= 1 && offers.every(isFitting)) return all[0];
  const { found, isWhole } = await landings();
  const landed = newestOfEachTerms(
    found.map((one) => offersOf(offers, one, replaced)).find((some) => some.length > 0) ?? [],
  );
  if (isKeepers && landed.length === 0 && !isWhole && !offers.every(isFitting))
    throw new UnknownLanding();
  const fitting = landed.length === 0 ? all : landed;
  if (fitting.length <= 1) return fitting[0];
  return (
    fitting.find((one) => named !== undefined && hasSameTerms(one, named)) ??
    lowest(fitting, dueUnder)
  );
}

/**
 * Whether the offers are for different customers (externalId of the checkout session). Leaves out
 * those whose session another wallet has used, and those that were not relayed before it expired.
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

/** The newest offer of each set of terms, the newest first. */
function newestOfEachTerms(offers: readonly OpenOffer[]): OpenOffer[] {
  const newest: OpenOffer[] = [];
  for (const offer of [...offers].sort((a, b) => (a.id < b.id ? 1 : -1)))
    if (!newest.some((one) => hasSameTerms(one, offer))) newest.push(offer);
  return newest;
}

/**
 * The offers from which the transaction may come: by its signature, else by its blockhash, else by
 * the subscription that it has cancelled. By the blockhash, a change of plan whose replaced
 * subscription runs now is one of them only if the transaction has cancelled that subscription.
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
  const made = offers.filter((one) => {
    const account = accountOf(one);
    const isPossible = account?.isRunning !== true || isCancelling(account);
    return one.blockhash === landing.blockhash && isPossible;
  });
  return made.length > 0 ? made : offers.filter((one) => isCancelling(accountOf(one)));
}

async function lowest(
  offers: readonly OpenOffer[],
  dueUnder: Grounds['dueUnder'],
): Promise<OpenOffer | undefined> {
  const dues: { offer: OpenOffer; due: bigint }[] = [];
  for (const offer of offers) dues.push({ offer, due: await dueUnder(offer) });
  return dues.reduce<(typeof dues)[number] | undefined>(
    (least, one) => (least === undefined || one.due < least.due ? one : least),
    undefined,
  )?.offer;
}

/** Thrown where the chain does not show which of the offers has opened the account. */
export class UnknownLanding extends ServiceError {
  constructor() {
    super(
      'CONFLICT',
      'An offer may have opened the account, and the chain does not show what has.',
    );
  }
}
