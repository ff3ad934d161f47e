// Reads the history of a subscription's account, for pulls that the database lacks and for payments
// whose period the accounts alone do not show.
import { ChainDataError } from '../chain/program/layouts.ts';
import type { SignatureInfo, UnreadableTransaction } from '../chain/rpc/responses.ts';
import type { Rpc } from '../chain/rpc/rpc.ts';
import { readListed } from '../chain/rpc/transactions.ts';
import type { KeeperSubscription } from '../db/subscription-work.ts';
import type { Pull, View } from '../domain/collecting/chain-view.ts';
import { registeredAccount } from '../domain/collecting/decide.ts';
import { type PullParties, pullsIn } from '../domain/collecting/pulls.ts';
import { chunks } from '../each.ts';
import type { Context } from './context.ts';
import type { InFlightPayment } from './in-flight.ts';
import { asSigned, landedPull } from './landed-pull.ts';

/** The parties by which the pulls of a subscription are recognised. */
export function partiesOf(
  {
    programId,
    keeperWallets,
    treasuries,
    rules,
  }: Pick<Context, 'programId' | 'keeperWallets' | 'treasuries' | 'rules'>,
  {
    treasury,
    subscriptionPda,
    feeBps,
  }: Pick<KeeperSubscription, 'treasury' | 'subscriptionPda' | 'feeBps'>,
): PullParties {
  return {
    programId,
    keepers: keeperWallets,
    treasuries: [treasury, ...treasuries],
    subscriptionPda,
    feeBps: feeBps ?? rules.feeBps,
  };
}

/** Page size of getSignaturesForAddress. */
const PAGE = 1000;
const AT_ONCE = 8;
/**
 * Time limit of a look-up (ms): anyone can name a subscription in many transactions, and the caller
 * holds a lease.
 */
const PATIENCE_MS = 10_000;

/** A listed transaction that no endpoint returns readable: it may hold a pull. */
export type UnreadableListed = UnreadableTransaction & Pick<SignatureInfo, 'slot' | 'blockTime'>;

export interface PullHistory {
  /** Newest first. */
  readonly pulls: Pull[];
  /** Each may hold a pull: with any of them the history is incomplete. */
  readonly unreadable: UnreadableListed[];
  /**
   * Block time of the newest listed transaction, failed ones included; null when no endpoint has a
   * time.
   */
  readonly newestAt: bigint | null;
}

/** The pulls of one listed transaction under a subscription. Throws RpcUnreachable. */
async function pullsOfListed(
  rpc: Pick<Rpc, 'getTransaction'>,
  parties: PullParties,
  { signature, slot, blockTime }: SignatureInfo,
): Promise<Pull[] | UnreadableListed> {
  const found = await readListed(rpc, signature);
  if ('unreadable' in found) return { ...found, slot, blockTime };
  try {
    return pullsIn(found, parties);
  } catch (error) {
    if (!(error instanceof ChainDataError)) throw error;
    return { signature, slot, blockTime, unreadable: 'undecodable' };
  }
}

/**
 * Final pulls under a subscription whose period began at `since` (Unix seconds) or later, in the
 * history of any endpoint. Undefined when there are more transactions than can be read in
 * `patienceMs`. Throws as the RPC client does; an unreadable transaction is returned.
 */
export async function findPulls(
  rpc: Pick<Rpc, 'getSignaturesForAddress' | 'getTransaction'>,
  parties: PullParties,
  since: bigint,
  patienceMs = PATIENCE_MS,
): Promise<PullHistory | undefined> {
  const deadline = performance.now() + patienceMs;
  const history = { pulls: [] as Pull[], unreadable: [] as UnreadableListed[] };
  let newestAt: bigint | null = null;
  let before: string | undefined;
  for (;;) {
    const options = { before, limit: PAGE, commitment: 'finalized', everywhere: true } as const;
    const page = await rpc.getSignaturesForAddress(parties.subscriptionPda, options);
    newestAt ??= page.find(({ blockTime }) => blockTime !== null)?.blockTime ?? null;
    const older = page.findIndex(({ blockTime }) => blockTime !== null && blockTime < since);
    const wanted = page.slice(0, older < 0 ? page.length : older).filter(({ err }) => err === null);
    for (const some of chunks(wanted, AT_ONCE)) {
      if (performance.now() > deadline) return undefined;
      for (const found of await Promise.all(some.map((one) => pullsOfListed(rpc, parties, one)))) {
        if ('unreadable' in found) history.unreadable.push(found);
        else history.pulls.push(...found.filter(({ periodStart }) => periodStart >= since));
      }
    }
    before = page.at(-1)?.signature;
    if (older >= 0 || page.length < PAGE) return { ...history, newestAt };
  }
}

/**
 * The pull of a landed payment: from the account where that is certain, else from the transaction's
 * events, else (when no endpoint returns the transaction) from its block time. Undefined when none
 * shows it.
 */
export async function pullOfLanded(
  context: Context,
  { attempt, periodEnd }: Pick<InFlightPayment, 'attempt' | 'periodEnd'>,
  row: KeeperSubscription,
  { view, at }: { view: View; at: bigint | null },
): Promise<Pull | undefined> {
  const account = view instanceof Error ? null : registeredAccount(row, view.subscription);
  const seen = { view, account, at };
  if (periodEnd !== null) {
    const pull = landedPull(attempt, seen, periodEnd);
    if (pull !== undefined) return pull;
  }
  const found = await readListed(context.rpc, attempt.signature);
  try {
    const pull = 'unreadable' in found ? undefined : pullsIn(found, partiesOf(context, row))[0];
    if (pull !== undefined) return asSigned(pull, attempt);
  } catch (error) {
    if (!(error instanceof ChainDataError)) throw error;
  }
  const unreadable = 'unreadable' in found ? found.unreadable : 'undecodable';
  context.reportUnreadable([{ signature: attempt.signature, unreadable }]);
  return landedPull(attempt, seen);
}
