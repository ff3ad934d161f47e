// Finds the time from which a registration is charged. If the account was opened for the
// registration, the whole period is charged. If the account was resumed or registered late, only
// the rest of the period is charged, and a period that was over by then costs nothing.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError, type SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import { isResumeTaken, readOffered } from '../../db/offered-transactions.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { promptSeconds } from '../collecting/late.ts';
import { type ChainReader, type Network, reaching } from './chain-reads.ts';

/**
 * Number of the account's newest transactions that are searched for the resume. A few transactions
 * are enough, because the wallet has just resumed. The number is limited, because anyone can make
 * the history longer.
 */
const MAX_READ = 10;

interface Registered {
  readonly account: SubscriptionAccount;
  readonly period: PullPeriod;
  /** Chain time of the registration, Unix seconds. */
  readonly now: bigint;
  /** Whether the account has an earlier registration that has ended. */
  readonly isRenewed: boolean;
  /** The time after which the wallet must have asked for an offer (ended.ts); null for any time. */
  readonly offersAfter: Date | null;
}

/**
 * Returns the chain time from which the registration is charged. For an account that an offer
 * resumed, this is the time of the resume, which may lie in an earlier period; otherwise it is the
 * time of the registration. Null means that whole periods are charged. This is so (1) if a new
 * account is registered promptly, (2) if an offer opened the account in this period. Throws
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function startOfCharge(
  { sql, chain, network }: { sql: Queryable; chain: ChainReader; network: Network },
  registered: Registered,
): Promise<Date | null> {
  const { account, period, now, offersAfter: after } = registered;
  const { plan, subscriber } = account;
  if (isPrompt(registered)) return null;
  const subscriptionPda = subscriptionAddress(network.programId, plan, subscriber).address;
  const of = { wallet: subscriber, subscriptionPda, after };
  const offered = await readOffered(sql, of);
  if (!registered.isRenewed)
    return offered.opening && period.start === account.periodStart ? null : timeOf(now);
  const isResumed =
    offered.resuming || (after !== null && (await isResumeTaken(sql, { ...of, after })));
  const resumedAt = isResumed
    ? await findResume(chain, network, { plan, subscriber, subscriptionPda })
    : undefined;
  return timeOf(resumedAt ?? now);
}

/**
 * Whether a new account is registered so soon that its whole period is charged. If a wallet opens
 * an account with its own client, the account is registered some seconds later. Pure.
 */
function isPrompt({ account, period, now, isRenewed }: Registered): boolean {
  return !isRenewed && now - period.start <= promptSeconds(account.periodHours);
}

/**
 * Chain time of the account's newest resume; undefined when the newest transactions have no resume.
 */
async function findResume(
  chain: ChainReader,
  { programId }: Network,
  {
    plan,
    subscriber,
    subscriptionPda,
  }: { plan: string; subscriber: string; subscriptionPda: string },
): Promise<bigint | undefined> {
  const listed = await reaching(
    chain.getSignaturesForAddress(subscriptionPda, { limit: MAX_READ }),
  );
  for (const { signature } of listed.filter(({ err }) => err === null)) {
    const found = await reaching(chain.getTransaction(signature));
    if ('unreadable' in found) continue;
    try {
      const resumed = programEvents(found, programId).findLast(
        (event) =>
          event.kind === 'resumed' && event.plan === plan && event.subscriber === subscriber,
      );
      if (resumed?.kind === 'resumed') return resumed.at;
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
    }
  }
  return undefined;
}
