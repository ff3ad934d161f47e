// Decides from which offer a live account comes, if offers with different terms are open for its
// address. In this order:
//
//   the transaction that opened or resumed the account -> the offer with its signature, else the
//     offer with its blockhash
//   the offer that the wallet's page names
//   the offer whose first payment is lowest, the newest of equals
//
// What the chain shows now may have changed since the transaction landed. So an offer that does not
// fit now (its checkout session was used by another wallet, or the subscription that it replaces
// runs) fits only if its transaction is the one that landed.
import type { OpenOffer } from '../../db/offers/offered-transactions.ts';
import type { Landing } from './landing.ts';

interface Grounds {
  /** Addresses of the replaced subscriptions that are not cancelled on chain now, by id. */
  readonly running: ReadonlyMap<string, string>;
  readonly landing: () => Promise<Landing | undefined>;
  /** The offer that the wallet's page names. */
  readonly named: OpenOffer | undefined;
  /** What is due at once under the offer's terms, in base units. */
  readonly dueUnder: (offer: OpenOffer) => Promise<bigint>;
}

/**
 * Returns the offer from which the account comes; undefined when none fits. The chain is read only
 * if the offers have different terms, or one of them does not fit now. `offers` are sorted as
 * readOpenOffers() returns them. Throws as the grounds do.
 */
export async function landedOffer(
  offers: readonly OpenOffer[],
  { running, landing, named, dueUnder }: Grounds,
): Promise<OpenOffer | undefined> {
  const isFitting = ({ isTaken, replaces }: OpenOffer) =>
    !isTaken && (replaces === null || !running.has(replaces));
  const all = newestOfEachTerms(offers.filter(isFitting));
  if (all.length <= 1 && offers.every(isFitting)) return all[0];
  const landed = newestOfEachTerms(offersOf(offers, await landing(), running));
  const fitting = landed.length === 0 ? all : landed;
  if (fitting.length <= 1) return fitting[0];
  return (
    fitting.find((one) => named !== undefined && hasSameTerms(one, named)) ??
    lowest(fitting, dueUnder)
  );
}

/** Whether the offers are for different customers (externalId of the checkout session). */
export const areOfTwoCustomers = (offers: readonly OpenOffer[]): boolean =>
  new Set(offers.flatMap(({ externalId }) => externalId ?? [])).size > 1;

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
 * The offers from which the transaction may come, by its signature, else by its blockhash. By the
 * blockhash, a change of plan whose replaced subscription runs now is one of them only if the
 * transaction has cancelled that subscription.
 */
function offersOf(
  offers: readonly OpenOffer[],
  landing: Landing | undefined,
  running: Grounds['running'],
): OpenOffer[] {
  if (landing === undefined) return [];
  const signed = offers.filter(({ signature }) => signature === landing.signature);
  if (signed.length > 0) return signed;
  const isMade = ({ replaces }: OpenOffer) => {
    const address = replaces === null ? undefined : running.get(replaces);
    return address === undefined || landing.cancels.includes(address);
  };
  return offers.filter((one) => one.blockhash === landing.blockhash && isMade(one));
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
