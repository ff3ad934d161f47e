// The terms under which a live account is registered: those of the offer from which the account
// comes (landed-offer.ts), else those of the checkout session that the wallet names. The wallet's
// own registration, a keeper's, and what a page shows before it (standing.ts) take them from here.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { PullPeriod } from '../../chain/program/period.ts';
import {
  type OffersOf,
  type OpenOffer,
  readOpenOffers,
} from '../../db/offers/offered-transactions.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { readReplaced, type ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { ChainReader, Network } from '../chain-reads.ts';
import { startOfCharge } from './charge-start.ts';
import {
  dueAtOnce,
  type LiveAccount,
  type LiveTerms,
  PUBLIC_TERMS,
  type SessionTerms,
} from './first-payment.ts';
import { landedOffer } from './landed-offer.ts';
import { landingOf } from './landing.ts';

const NO_CHANGE = { replaces: null, changeWhen: null, offeredAt: null } as const;

/** An account that is live on chain, or cancelled and to be resumed, and its plan. */
interface SeenAccount {
  readonly plan: PlanRow;
  readonly subscriptionPda: string;
  readonly account: SubscriptionAccount;
  readonly period: PullPeriod;
  /** Chain time in Unix seconds. */
  readonly now: bigint;
  /** Whether the account has an earlier registration that has ended. */
  readonly isRenewed: boolean;
  /** The time after which the wallet must have asked for an offer (ended.ts); null for any time. */
  readonly offersAfter: Date | null;
}

/** What the wallet's own registration names. */
interface Named {
  readonly session?: (SessionTerms & { readonly id: string }) | undefined;
  readonly offerId?: string | undefined;
}

export interface RegistrationTerms {
  readonly live: LiveAccount;
  /** The offer from which the account comes; undefined when no offer fits. */
  readonly offer: OpenOffer | undefined;
  readonly terms: LiveTerms;
}

/**
 * Reads the open offers to which a wallet's own registration may refer. An offer whose checkout
 * session has expired or was used by another wallet does not count, because the session cannot be
 * completed.
 */
export async function readUsableOffers(sql: Queryable, of: OffersOf): Promise<OpenOffer[]> {
  const offers = await readOpenOffers(sql, of);
  return offers.filter(({ isLapsed, isTaken }) => !isLapsed && !isTaken);
}

/** Reads the subscriptions that the changes of plan in these offers replace, by id. */
export async function readReplacedBy(
  sql: Queryable,
  offers: readonly Pick<OpenOffer, 'replaces'>[],
): Promise<Map<string, ReplacedRow>> {
  const replaced = new Map<string, ReplacedRow>();
  for (const id of new Set(offers.flatMap(({ replaces }) => replaces ?? []))) {
    const row = await readReplaced(sql, id);
    if (row !== undefined) replaced.set(id, row);
  }
  return replaced;
}

/** The addresses of the replaced subscriptions for which `runs` is true, by id. */
export const runningOf = (
  replaced: ReadonlyMap<string, ReplacedRow>,
  runs: (place: number) => boolean,
): Map<string, string> =>
  new Map(
    [...replaced]
      .filter((_, place) => runs(place))
      .map(([id, { subscriptionPda }]) => [id, subscriptionPda]),
  );

/**
 * Returns the terms under which the account is registered. `running` has the replaced
 * subscriptions whose account is not cancelled on chain (landed-offer.ts). Throws INTERNAL_ERROR
 * when the chain is unreachable, and PaymentUnderWay.
 */
export async function registrationTerms(
  { sql, chain, network }: { sql: Queryable; chain: ChainReader; network: Network },
  { plan, ...seen }: SeenAccount,
  { offers, running }: { offers: readonly OpenOffer[]; running: ReadonlyMap<string, string> },
  { session, offerId }: Named,
): Promise<RegistrationTerms> {
  const { subscriptionPda, account, period, now } = seen;
  const { plan: planPda, subscriber: wallet } = account;
  const addresses = { plan: planPda, subscriber: wallet, subscriptionPda };
  // The transaction that resumes a cancelled account has not landed yet.
  const landing =
    account.expiresAt === 0n
      ? landingOf(chain, network, addresses)
      : () => Promise.resolve(undefined);
  const start = await startOfCharge(sql, { ...seen, landing });
  const live = { plan, wallet, period, now, ...start };
  const termsOf = (offer: OpenOffer): LiveTerms => {
    const { replaces, changeWhen, offeredAt } = offer;
    const change = { replaces, changeWhen, offeredAt };
    if (offer.checkoutSessionId !== null) return { ...offer, ...change };
    const trialHours = session?.trialHours ?? offer.trialHours;
    return { ...(session ?? PUBLIC_TERMS), trialHours, ...change };
  };
  const named =
    offers.find(({ id }) => id === offerId) ??
    offers.find(({ checkoutSessionId: id }) => id !== null && id === session?.id);
  const offer = await landedOffer(offers, {
    running,
    landing,
    named,
    dueUnder: (one) => dueAtOnce(sql, live, termsOf(one)),
  });
  const terms =
    offer === undefined ? { ...(session ?? PUBLIC_TERMS), ...NO_CHANGE } : termsOf(offer);
  return { live, offer, terms };
}
