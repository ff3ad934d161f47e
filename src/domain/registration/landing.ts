// Finds the transactions that opened or resumed a subscription account, in the account's newest
// transactions.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError, type SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { type ChainReader, type BillingAddresses, reaching } from '../chain-reads.ts';

/**
 * Number of the account's newest transactions that are searched. A few transactions are enough,
 * because the wallet has just opened or resumed the account. The number is limited, because anyone
 * can make the history longer.
 */
const MAX_READ = 10;

/** A transaction that opened or resumed an account. */
export interface Landing {
  readonly signature: string;
  /** Null if the endpoint does not report it. */
  readonly blockhash: string | null;
  readonly kind: 'created' | 'resumed';
  /** Chain time, Unix seconds. */
  readonly at: bigint;
  /** Addresses of the wallet's subscriptions that the transaction has cancelled. */
  readonly cancels: readonly string[];
}

/** What the newest transactions of an account show. */
export interface Landings {
  /** The transactions that opened or resumed the account, newest first. */
  readonly found: readonly Landing[];
  /** Whether `found` is complete: it goes back to the transaction that opened the account. */
  readonly isWhole: boolean;
}

/** The landings of an account whose resume transaction has not landed yet. */
export const NOT_LANDED: Landings = { found: [], isWhole: true };

/** A live account and its address. */
interface Opened {
  readonly account: SubscriptionAccount;
  readonly subscriptionPda: string;
}

/**
 * Returns a function that finds the landings of the account. The chain is read by the first call
 * only. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export function landingsOf(
  chain: ChainReader,
  network: BillingAddresses,
  opened: Opened,
): () => Promise<Landings> {
  let found: Promise<Landings> | undefined;
  return () => (found ??= findLandings(chain, network, opened));
}

/**
 * Asks all endpoints, because a lagging one would show an older landing as the newest. The address
 * may have transactions of an earlier account too, which are left out: the account was opened at
 * one of its period boundaries, and no resume of it is older than the opening or its current
 * period.
 */
async function findLandings(
  chain: ChainReader,
  network: BillingAddresses,
  { account, subscriptionPda }: Opened,
): Promise<Landings> {
  const { periodStart, periodHours } = account;
  const options = { limit: MAX_READ, everywhere: true };
  const listed = await reaching(chain.getSignaturesForAddress(subscriptionPda, options));
  const found: Landing[] = [];
  for (const { signature } of listed.filter(({ err }) => err === null)) {
    const landing = await readLanding(chain, network, account, signature);
    if (landing === 'missing') break;
    if (landing === undefined) continue;
    if (landing.kind === 'resumed') found.push(landing);
    else if ((landing.at - periodStart) % periodSeconds(periodHours) !== 0n) break;
    else return { found: [...found, landing], isWhole: true };
  }
  return { found: found.filter(({ at }) => at >= periodStart), isWhole: false };
}

/**
 * Reads what the transaction did to the account. Returns undefined if it neither opened nor resumed
 * the account, and `missing` if no endpoint has the transaction yet.
 */
async function readLanding(
  chain: ChainReader,
  { programId }: BillingAddresses,
  { plan, subscriber }: SubscriptionAccount,
  signature: string,
): Promise<Landing | 'missing' | undefined> {
  const read = await reaching(chain.getTransaction(signature));
  if ('unreadable' in read) return read.unreadable === 'missing' ? 'missing' : undefined;
  try {
    const events = programEvents(read, programId).filter(
      (one) => one.kind !== 'plan_updated' && one.subscriber === subscriber,
    );
    const event = events.findLast(
      (one) => (one.kind === 'created' || one.kind === 'resumed') && one.plan === plan,
    );
    if (event?.kind !== 'created' && event?.kind !== 'resumed') return undefined;
    const cancels = events
      .filter((one) => one.kind === 'cancelled')
      .map((one) => subscriptionAddress(programId, one.plan, subscriber).address);
    const { blockhash } = read;
    return { signature, blockhash, kind: event.kind, at: event.at, cancels };
  } catch (error) {
    if (!(error instanceof ChainDataError)) throw error;
    return undefined;
  }
}
