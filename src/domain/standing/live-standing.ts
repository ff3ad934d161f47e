// Computes what a wallet pays when its account, which has no live registration, is registered. A
// live account is registered at once, a cancelled account after a transaction has resumed it. Uses
// the terms of the registration itself (registration-terms.ts), so that a page can show the amount
// first.
import { subscriptionIn } from '../../chain/program/accounts.ts';
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { type ChainReader, type BillingAddresses, readAccounts } from '../chain-reads.ts';
import {
  dueAtOnce,
  type LiveTerms,
  type RunningPeriod,
  takenOverBy,
  trialEndOf,
  trialOf,
} from '../registration/first-payment.ts';
import type { ReplacedAccount } from '../registration/landed-offer.ts';
import { PaymentUnderWay } from '../registration/plan-credit.ts';
import {
  accountsOf,
  type NamedSession,
  readReplacedBy,
  readUsableOffers,
  registrationTerms,
} from '../registration/registration-terms.ts';

interface Live {
  readonly subscriptionPda: string;
  readonly account: SubscriptionAccount;
  readonly onPlan: PlanAccount | null;
  /** Chain time in Unix seconds. */
  readonly now: bigint;
  /** Whether the account has an earlier registration that has ended. */
  readonly isRenewed: boolean;
  /** The time after which the wallet must have asked for an offer (ended.ts); null for any time. */
  readonly offersAfter: Date | null;
  /** The customer's credit in base units. */
  readonly credit: bigint;
  /** Minimum amount to collect (PLAN_MINIMUM_AMOUNT). */
  readonly minimum: bigint;
}

/** The terms under which a live account would be registered now. */
export interface LiveStanding {
  /** What is due at once, in base units. */
  readonly usdcNeeded: bigint;
  /** Hours of the trial if it still runs; else null. */
  readonly trialHours: number | null;
  readonly running: RunningPeriod;
  readonly terms: LiveTerms;
  /** The deferred start that is taken over from the replaced subscription, and the credit. */
  readonly beginning: { readonly startsAt: Date | null; readonly credit: bigint };
}

/**
 * Reads the terms under which a live account would be registered. Returns undefined while a payment
 * of the subscription that it replaces may still land. Throws INTERNAL_ERROR when the chain is
 * unreachable.
 */
export async function readLiveStanding(
  parts: { sql: Queryable; chain: ChainReader; network: BillingAddresses },
  plan: PlanRow,
  { onPlan, ...live }: Live,
  session: NamedSession | undefined,
): Promise<LiveStanding | undefined> {
  const { sql } = parts;
  const { account, now, subscriptionPda } = live;
  const { subscriber: wallet } = account;
  const period = pullPeriod(account, onPlan, now);
  const of = { wallet, subscriptionPda, after: live.offersAfter };
  // The transaction that resumes a cancelled account will have an offer of its own.
  const offers = account.expiresAt === 0n ? await readUsableOffers(sql, of) : [];
  const replaced = await readAccountsOf(parts, offers);
  try {
    const seen = { plan, ...live, period };
    const offered = { offers, replaced, isKeepers: false };
    const found = await registrationTerms(parts, seen, offered, { session });
    const { terms } = found;
    const taken = await takenOverBy(sql, found.live, terms);
    const trialEndsAt = taken === undefined ? await trialEndOf(sql, found.live, terms) : null;
    const isInTrial = trialEndsAt !== null && unixSeconds(trialEndsAt) > now;
    const { start, end, pulled } = period;
    const from = found.live.billedFrom;
    const charged = [
      from === null ? start : unixSeconds(from),
      ...(isInTrial ? [unixSeconds(trialEndsAt)] : []),
      ...(pulled > 0n ? [end] : []),
    ].reduce((latest, one) => (one > latest ? one : latest));
    return {
      usdcNeeded: await dueAtOnce(sql, found.live, terms),
      trialHours: isInTrial ? await trialOf(sql, plan, wallet, terms) : null,
      running: { start, end, chargedFrom: charged },
      terms,
      beginning: { startsAt: taken?.startsAt ?? null, credit: taken?.credit ?? live.credit },
    };
  } catch (error) {
    if (error instanceof PaymentUnderWay) return undefined;
    throw error;
  }
}

/** Reads the accounts of the subscriptions that the offers replace, by the subscription's id. */
async function readAccountsOf(
  { sql, chain, network }: { sql: Queryable; chain: ChainReader; network: BillingAddresses },
  offers: Awaited<ReturnType<typeof readUsableOffers>>,
): Promise<Map<string, ReplacedAccount>> {
  const replaced = await readReplacedBy(sql, offers);
  if (replaced.size === 0) return new Map();
  const pdas = [...replaced.values()].map((row) => row.subscriptionPda);
  const { accounts } = await readAccounts(chain, pdas);
  return accountsOf(
    replaced,
    (index) => subscriptionIn(accounts[index] ?? null, network.programId)?.expiresAt === 0n,
  );
}
