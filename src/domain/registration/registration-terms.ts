// Determines the terms under which a live account is registered: those of the offer from which the
// account comes (landed-offer.ts), else those of the checkout session that the wallet names. Used
// by the wallet's own registration, by a keeper's registration, and by the page that shows the
// terms before (standing.ts).
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { PullPeriod } from '../../chain/program/period.ts';
import { type OffersOf, type OpenOffer, readOpenOffers } from '../../db/offers/open-offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import { readNewestReplaced, type ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { takerOf } from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import type { ChainReader, BillingAddresses } from '../chain-reads.ts';
import { promptSeconds } from '../collecting/late.ts';
import { startOfCharge } from './charge-start.ts';
import {
  dueAtOnce,
  type LiveAccount,
  type LiveTerms,
  PUBLIC_TERMS,
  type SessionTerms,
} from './first-payment.ts';
import { landedOffer, type Origin, type ReplacedAccount, UnknownLanding } from './landed-offer.ts';
import { landingsOf, NOT_LANDED } from './landing.ts';
import { isOfOther } from './own-terms.ts';

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
  /** The customer's credit in base units. Default: 0. */
  readonly credit?: bigint;
  /** Minimum amount to collect (PLAN_MINIMUM_AMOUNT). */
  readonly minimum: bigint;
}

/** A checkout session that the wallet's own registration, or its page, names. */
export type NamedSession = SessionTerms & Pick<CheckoutSessionRow, 'id' | 'replaces'>;

/** The session, the offer and the transaction that the wallet's own registration names. */
interface Named {
  readonly session?: NamedSession | undefined;
  readonly offerId?: string | undefined;
  /** The signature of the transaction that the relay has seen land. */
  readonly relayed?: string | undefined;
}

export interface RegistrationTerms {
  readonly live: LiveAccount;
  /** The offer from which the account comes; undefined when no offer fits. */
  readonly offer: OpenOffer | undefined;
  readonly terms: LiveTerms;
}

/**
 * Reads the open offers to which a wallet's own registration may refer. An offer whose checkout
 * session was used by another wallet does not count, because the session cannot be completed.
 */
export async function readUsableOffers(sql: Queryable, of: OffersOf): Promise<OpenOffer[]> {
  const offers = await readOpenOffers(sql, of);
  return offers.filter(({ isTaken }) => !isTaken);
}

/**
 * Reads the subscriptions that these offers would replace, by the id that the offers name. If the
 * account of such a subscription was registered again, the newest registration is read.
 */
export async function readReplacedBy(
  sql: Queryable,
  offers: readonly Pick<OpenOffer, 'replaces'>[],
): Promise<Map<string, ReplacedRow>> {
  const replaced = new Map<string, ReplacedRow>();
  for (const id of new Set(offers.flatMap(({ replaces }) => replaces ?? []))) {
    const row = await readNewestReplaced(sql, id);
    if (row !== undefined) replaced.set(id, row);
  }
  return replaced;
}

/**
 * The accounts of the replaced subscriptions, by id. `runs` returns whether the account at this
 * index of `replaced` is not cancelled on chain.
 */
export const accountsOf = (
  replaced: ReadonlyMap<string, ReplacedRow>,
  runs: (index: number) => boolean,
): Map<string, ReplacedAccount> =>
  new Map(
    [...replaced].map(([id, row], index) => {
      const { externalId: customer } = takerOf({ ...row, subscriberWallet: '' });
      return [id, { subscriptionPda: row.subscriptionPda, isRunning: runs(index), customer }];
    }),
  );

/** The open offers to the wallet, and who asks for the terms. */
interface Offered {
  readonly offers: readonly OpenOffer[];
  readonly replaced: ReadonlyMap<string, ReplacedAccount>;
  /** Whether a keeper registers the account, and not its wallet. */
  readonly isKeepers: boolean;
}

/**
 * Returns the terms under which the account is registered. Throws INTERNAL_ERROR when the chain is
 * unreachable, PaymentUnderWay, UnlistedLanding, and as landedOffer() does.
 */
export async function registrationTerms(
  { sql, chain, network }: { sql: Queryable; chain: ChainReader; network: BillingAddresses },
  { plan, credit = 0n, minimum, ...seen }: SeenAccount,
  { offers, replaced, isKeepers }: Offered,
  { session, offerId, relayed }: Named,
): Promise<RegistrationTerms> {
  const { subscriptionPda, account, period, now } = seen;
  const { subscriber: wallet } = account;
  const read = landingsOf(chain, network, { account, subscriptionPda });
  const landings = async () => {
    if (account.expiresAt !== 0n) return NOT_LANDED;
    const all = await read();
    if (relayed !== undefined && !all.found.some(({ signature }) => signature === relayed))
      throw new UnlistedLanding();
    return all;
  };
  const billedFrom = await startOfCharge(sql, { ...seen, landings });
  const liveAccount = { plan, wallet, period, now, credit, minimum, billedFrom };
  const termsOf = (offer: OpenOffer | undefined): LiveTerms => {
    const sessionTerms =
      session === undefined || isOfOther(session, offer) ? PUBLIC_TERMS : session;
    if (offer === undefined) return { ...sessionTerms, ...NO_CHANGE };
    const { replaces, changeWhen, offeredAt } = offer;
    const trialHours = sessionTerms.trialHours ?? offer.trialHours;
    const terms: SessionTerms =
      offer.checkoutSessionId === null ? { ...sessionTerms, trialHours } : offer;
    const customer = replaces === null ? null : (replaced.get(replaces)?.customer ?? null);
    const externalId = terms.externalId ?? customer;
    return { ...terms, externalId, replaces, changeWhen, offeredAt };
  };
  const named =
    offers.find(({ id }) => id === offerId) ??
    offers.find(({ checkoutSessionId: id }) => id !== null && id === session?.id);
  const isNamed = named !== undefined && named.id === offerId;
  const liveAt = async (origin: Origin | undefined): Promise<LiveAccount> => {
    if ((origin?.offer.replaces ?? null) === null) return { ...liveAccount, landedAt: now };
    const landing = origin?.landing ?? (await landings()).found[0];
    return { ...liveAccount, landedAt: landing?.at ?? unlistedAt(account, now, { isNamed }) };
  };
  const origin = await landedOffer(offers, {
    replaced,
    isKeepers,
    landings,
    named,
    isNamed,
    dueUnder: async (one) => dueAtOnce(sql, await liveAt(one), termsOf(one.offer)),
  });
  const offer = origin?.offer;
  return { live: await liveAt(origin), offer, terms: termsOf(offer) };
}

/**
 * The time at which a change of plan takes over if the history does not list its landing: the time
 * of the registration. A wallet therefore gains nothing by hiding the landing. Throws
 * UnknownLanding if the wallet names the offer and the account is not new, because the credit would
 * be less than the credit shown.
 */
function unlistedAt(
  { periodStart, periodHours }: SubscriptionAccount,
  now: bigint,
  { isNamed }: { isNamed: boolean },
): bigint {
  if (isNamed && now - periodStart > promptSeconds(periodHours)) throw new UnknownLanding();
  return now;
}

/** Thrown while the account's history does not list a transaction that the relay has seen land. */
export class UnlistedLanding extends ServiceError {
  constructor() {
    super('NOT_FOUND', 'The history of the account does not list the transaction yet.');
  }
}
