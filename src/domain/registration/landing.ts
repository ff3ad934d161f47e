// Finds the transaction that opened or resumed a subscription account, in the newest transactions
// of the account.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import { programEvents } from '../../chain/program/events.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import { type ChainReader, type Network, reaching } from '../chain-reads.ts';

/**
 * Number of the account's newest transactions that are searched. A few transactions are enough,
 * because the wallet has just opened or resumed the account. The number is limited, because anyone
 * can make the history longer.
 */
const MAX_READ = 10;

/** The transaction that last opened or resumed an account. */
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

export interface SubscriptionAddresses {
  readonly plan: string;
  readonly subscriber: string;
  readonly subscriptionPda: string;
}

/**
 * Returns a function that finds the landing of the account; undefined when the newest transactions
 * do not have it. The chain is read by the first call only. Throws INTERNAL_ERROR when the chain is
 * unreachable.
 */
export function landingOf(
  chain: ChainReader,
  network: Network,
  addresses: SubscriptionAddresses,
): () => Promise<Landing | undefined> {
  let found: Promise<Landing | undefined> | undefined;
  return () => (found ??= findLanding(chain, network, addresses));
}

async function findLanding(
  chain: ChainReader,
  { programId }: Network,
  { plan, subscriber, subscriptionPda }: SubscriptionAddresses,
): Promise<Landing | undefined> {
  const listed = await reaching(
    chain.getSignaturesForAddress(subscriptionPda, { limit: MAX_READ }),
  );
  for (const { signature } of listed.filter(({ err }) => err === null)) {
    const found = await reaching(chain.getTransaction(signature));
    if ('unreadable' in found) continue;
    try {
      const events = programEvents(found, programId).filter(
        (one) => one.kind !== 'plan_updated' && one.subscriber === subscriber,
      );
      const event = events.findLast(
        (one) => (one.kind === 'created' || one.kind === 'resumed') && one.plan === plan,
      );
      if (event?.kind !== 'created' && event?.kind !== 'resumed') continue;
      const cancels = events
        .filter((one) => one.kind === 'cancelled')
        .map((one) => subscriptionAddress(programId, one.plan, subscriber).address);
      const { blockhash } = found;
      return { signature, blockhash, kind: event.kind, at: event.at, cancels };
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
    }
  }
  return undefined;
}
