// Reads the transaction history of a subscription's account. The history shows (1) pulls that are
// not in the database, and (2) the period of a payment if the accounts do not show this period.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import { type ExecutedTransaction, programEvents } from '../../chain/program/events.ts';
import { instructionKind } from '../../chain/program/instructions.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import type { SignatureInfo, UnreadableTransaction } from '../../chain/rpc/responses.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { readListed } from '../../chain/rpc/transactions.ts';
import type { AttemptRow } from '../../db/money/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { Pull, ViewOrError } from '../../domain/collecting/chain-view.ts';
import { registeredAccount } from '../../domain/collecting/decide.ts';
import { type PullParties, pullsIn } from '../../domain/collecting/transaction-pulls.ts';
import { chunks } from '../../each.ts';
import type { Context } from '../base/context.ts';
import { asSigned, landedPull } from './landed-pull.ts';

/** Returns the addresses and the fee rate that identify a subscription's pulls and their fees. */
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
 * Time limit (ms) for reading a history. Anyone can make a history long by naming the account in
 * many transactions. Without a limit, reading could outlast the lease of the claim.
 */
const PATIENCE_MS = 10_000;

/**
 * A transaction in the history that no endpoint returns in readable form. The transaction may
 * contain a pull of the subscription.
 */
export type UnreadableListed = UnreadableTransaction & Pick<SignatureInfo, 'slot' | 'blockTime'>;

/** A pull with the slot in which its transaction landed. */
export type ListedPull = Pull & Pick<SignatureInfo, 'slot'>;

export interface PullHistory {
  /** The pulls found in the history, newest first. */
  readonly pulls: ListedPull[];
  /**
   * Unreadable transactions in the history. Each of them may contain a pull, so the history is
   * complete only if this list is empty.
   */
  readonly unreadable: UnreadableListed[];
  /**
   * Block time (Unix seconds) of the newest transaction in the history, including failed
   * transactions. Null when no endpoint returns a block time.
   */
  readonly newestAt: bigint | null;
  /** Block times of all successful transactions in the history, by signature. */
  readonly listed: ReadonlyMap<string, bigint | null>;
  /** Slot of the oldest transaction in the history. Null when the history is empty. */
  readonly oldestSlot: bigint | null;
  /**
   * Chain time at which the oldest transaction that was read opened an account at the address. Null
   * when none did, or when a transaction at or before this one closed an earlier account.
   */
  readonly openedAt: bigint | null;
  /** Whether a transaction that was read closed an account at the address. */
  readonly hasClosing: boolean;
}

/** What a transaction of the history did to the account at the subscription's address. */
interface ReadListed {
  readonly pulls: ListedPull[];
  /** Chain time if the transaction opened an account. */
  readonly openedAt: bigint | null;
  readonly closes: boolean;
}

/** Reads one transaction of the history. Throws RpcUnreachable when no endpoint responds. */
async function readOne(
  rpc: Pick<Rpc, 'getTransaction'>,
  parties: PullParties,
  { signature, slot, blockTime }: SignatureInfo,
): Promise<ReadListed | UnreadableListed> {
  const found = await readListed(rpc, signature);
  if ('unreadable' in found) return { ...found, slot, blockTime };
  try {
    const pulls = pullsIn(found, parties).map((pull) => ({ ...pull, slot }));
    return { pulls, openedAt: openingIn(found, parties), closes: closesAccount(found, parties) };
  } catch (error) {
    if (!(error instanceof ChainDataError)) throw error;
    return { signature, slot, blockTime, unreadable: 'undecodable' };
  }
}

/** The chain time at which a transaction opened an account at the subscription's address. */
function openingIn(
  transaction: ExecutedTransaction,
  { programId, subscriptionPda }: PullParties,
): bigint | null {
  for (const event of programEvents(transaction, programId))
    if (
      event.kind === 'created' &&
      subscriptionAddress(programId, event.plan, event.subscriber).address === subscriptionPda
    )
      return event.at;
  return null;
}

const CLOSING = ['revokeDelegation', 'revokeAbandoned'];

/** Whether a transaction closed an account at the subscription's address. */
const closesAccount = (
  { err, instructions, inner }: ExecutedTransaction,
  { programId, subscriptionPda }: PullParties,
): boolean =>
  err === null &&
  [...instructions, ...[...inner.values()].flat()].some(
    (call) =>
      call.programId === programId &&
      CLOSING.includes(instructionKind(call.data) ?? '') &&
      call.accounts[1] === subscriptionPda,
  );

/**
 * Finds finalized pulls of periods that began at `since` (Unix seconds) or later, in the histories
 * of all endpoints. Returns undefined when reading takes longer than `patienceMs`. Throws
 * RpcUnreachable or RpcError. Unreadable transactions are part of the result.
 */
export async function findPulls(
  rpc: Pick<Rpc, 'getSignaturesForAddress' | 'getTransaction'>,
  parties: PullParties,
  since: bigint,
  patienceMs = PATIENCE_MS,
): Promise<PullHistory | undefined> {
  const deadline = performance.now() + patienceMs;
  const history = { pulls: [] as ListedPull[], unreadable: [] as UnreadableListed[] };
  const listed = new Map<string, bigint | null>();
  let newestAt: bigint | null = null;
  let oldestSlot: bigint | null = null;
  let openedAt: bigint | null = null;
  let hasClosing = false;
  let before: string | undefined;
  for (;;) {
    if (performance.now() > deadline) return undefined;
    const options = { before, limit: PAGE, commitment: 'finalized', everywhere: true } as const;
    const page = await rpc.getSignaturesForAddress(parties.subscriptionPda, options);
    newestAt ??= page.find(({ blockTime }) => blockTime !== null)?.blockTime ?? null;
    for (const { signature, err, slot, blockTime } of page) {
      if (err === null) listed.set(signature, blockTime);
      if (oldestSlot === null || slot < oldestSlot) oldestSlot = slot;
    }
    const older = page.findIndex(({ blockTime }) => blockTime !== null && blockTime < since);
    const wanted = page.slice(0, older < 0 ? page.length : older).filter(({ err }) => err === null);
    for (const some of chunks(wanted, AT_ONCE)) {
      if (performance.now() > deadline) return undefined;
      for (const found of await Promise.all(some.map((one) => readOne(rpc, parties, one)))) {
        if ('unreadable' in found) history.unreadable.push(found);
        else {
          history.pulls.push(...found.pulls.filter(({ periodStart }) => periodStart >= since));
          openedAt = found.closes ? null : (found.openedAt ?? openedAt);
          hasClosing ||= found.closes;
        }
      }
    }
    before = page.at(-1)?.signature;
    if (older >= 0 || page.length < PAGE)
      return { ...history, newestAt, listed, oldestSlot, openedAt, hasClosing };
  }
}

/**
 * Determines the pull of a landed payment. The account may show the paid period with certainty. If
 * not, the transaction's events show the period. If the transaction is unreadable, the block time
 * is used. Returns undefined when none of these shows the period.
 */
export async function pullOfLanded(
  context: Context,
  { attempt, periodEnd }: { attempt: AttemptRow; periodEnd: bigint | null },
  row: KeeperSubscription,
  { view, at }: { view: ViewOrError; at: bigint | null },
): Promise<Pull | undefined> {
  const account = view instanceof Error ? null : registeredAccount(row, view.subscription);
  const stateAfter = { view, account, at };
  if (periodEnd !== null) {
    const pull = landedPull(attempt, stateAfter, periodEnd);
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
  return landedPull(attempt, stateAfter);
}
