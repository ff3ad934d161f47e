// Decides from which offer a live account comes, if offers with different terms are open for its
// address. In this order:
//
//   the transaction that opened or resumed the account -> the offer with its signature, else the
//     offer with its blockhash
//   the offer that the wallet's page names
//   the offer whose first payment is lowest, the newest of equals
import type { OpenOffer } from '../../db/offered-transactions.ts';
import type { Landing } from './landing.ts';

interface Grounds {
  readonly landing: () => Promise<Landing | undefined>;
  /** The offer that the wallet's page names. */
  readonly named: OpenOffer | undefined;
  /** What is due at once under the offer's terms, in base units. */
  readonly dueUnder: (offer: OpenOffer) => Promise<bigint>;
}

/**
 * Returns the offer from which the account comes; undefined when there is no offer. The chain is
 * read only if the offers have different terms. `offers` are sorted as readOpenOffers() returns
 * them. Throws as the grounds do.
 */
export async function landedOffer(
  offers: readonly OpenOffer[],
  { landing, named, dueUnder }: Grounds,
): Promise<OpenOffer | undefined> {
  const all = newestOfEachTerms(offers);
  if (all.length <= 1) return all[0];
  const landed = newestOfEachTerms(offersOf(offers, await landing()));
  const fitting = landed.length === 0 ? all : landed;
  if (fitting.length === 1) return fitting[0];
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
  a.changeWhen === b.changeWhen;

/** The newest offer of each set of terms, the newest first. */
function newestOfEachTerms(offers: readonly OpenOffer[]): OpenOffer[] {
  const newest: OpenOffer[] = [];
  for (const offer of [...offers].sort((a, b) => (a.id < b.id ? 1 : -1)))
    if (!newest.some((one) => hasSameTerms(one, offer))) newest.push(offer);
  return newest;
}

/** The offers from which the transaction may come, by its signature, else by its blockhash. */
function offersOf(offers: readonly OpenOffer[], landing: Landing | undefined): OpenOffer[] {
  if (landing === undefined) return [];
  const signed = offers.filter(({ signature }) => signature === landing.signature);
  return signed.length > 0
    ? signed
    : offers.filter(({ blockhash }) => blockhash === landing.blockhash);
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
