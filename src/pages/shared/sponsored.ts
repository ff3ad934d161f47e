// Passes a sponsored transaction to the service, and follows it until its final state.
import type { components } from '../../client/openapi.ts';
import { AlteredTransaction, isCode, type WalletRefusal } from './errors.ts';
import { isPassing, persistently } from './persistently.ts';
import { noteLapse, notePays, type SolanaWallet } from './wallets.ts';

export type Progress = components['schemas']['SponsoredProgress'];

export interface ProgressQuery {
  known: string;
  wait: number;
}

/**
 * The outcome of a transaction. `sent`: the wallet itself sent the transaction, so the page reads
 * the result from the chain. `unsponsored`: the service does not pay at the moment. `refused`: the
 * service refused to sign for another reason. `slow`: the result is not known in time.
 */
export interface Submitted {
  status: 'confirmed' | 'sent' | 'lapsed' | 'failed' | 'unsponsored' | 'refused' | 'slow';
  reason: string | null;
  signature: string;
  /**
   * The error of a wallet that may have sent the transaction before it failed. Set only with
   * `sent`.
   */
  doubt?: WalletRefusal | undefined;
}

/** Long polling: maximum seconds that the service waits for a new state before it responds. */
const WAIT_SECONDS = 8;
/**
 * Pause (ms) before the next poll if the service responded sooner than WAIT_SECONDS and the state
 * is unchanged.
 */
const PAUSE_MS = 1000;
/** A signed transaction counts as slow after this time (ms). Its blockhash has then expired. */
const UNDECIDED_MS = 100_000;

/**
 * The states that end the polling. `offered` is one of them, because it means that the service did
 * not store the signed transaction: the offer was too old.
 */
const ENDS: readonly Progress['state'][] = [
  'final',
  'unsponsored',
  'refused',
  'failed',
  'lapsed',
  'offered',
];

/**
 * Posts a signed transaction. Repeats the request if the service does not respond or is busy. This
 * is safe, because the service stores a transaction only once. If the wallet changed the
 * transaction, records that the service cannot sponsor the wallet, and throws an
 * AlteredTransaction.
 */
export async function handingOver<T>(wallet: SolanaWallet, post: () => Promise<T>): Promise<T> {
  try {
    return await persistently(post);
  } catch (error) {
    if (!isCode(error, 'VALIDATION_ERROR')) throw error;
    notePays(wallet);
    throw new AlteredTransaction(error, { sponsored: true });
  }
}

/**
 * Polls until the state is one of ENDS or `isEnough` returns true. Calls `shown` with each state.
 * If the transaction stays in the state `signed` for UNDECIDED_MS, or if the service does not
 * respond, the result has the state `signed`.
 */
export async function follow(
  first: Progress,
  read: (query: ProgressQuery) => Promise<Progress>,
  isEnough: (progress: Progress) => boolean = () => false,
  shown: (state: Progress['state']) => void = () => undefined,
): Promise<Progress> {
  const deadline = Date.now() + UNDECIDED_MS;
  for (let progress = first; ;) {
    shown(progress.state);
    const isUndecided = progress.state === 'signed' && Date.now() > deadline;
    if (ENDS.includes(progress.state) || isEnough(progress) || isUndecided) return progress;
    const query = { known: progress.state, wait: WAIT_SECONDS };
    const askedAt = Date.now();
    try {
      const next = await persistently(() => read(query));
      // While too many requests wait, the service responds at once.
      if (next.state === progress.state && Date.now() - askedAt < PAUSE_MS)
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      progress = next;
    } catch (error) {
      if (!isPassing(error)) throw error;
      return { ...progress, state: 'signed' };
    }
  }
}

/** The outcome of a signed transaction when the service does not respond. */
export const unanswered: Submitted = { status: 'slow', reason: null, signature: '' };

/** Returns the result of `work`, or `unanswered` if the service does not respond. */
export async function orUnanswered<T>(work: Promise<T>): Promise<T | Submitted> {
  try {
    return await work;
  } catch (error) {
    if (!isPassing(error)) throw error;
    return unanswered;
  }
}

/**
 * Converts the progress of a sponsored transaction to the outcome of a transaction. If the
 * transaction lapsed, records the lapse. A wallet that can send transactions then sends the next
 * one itself.
 */
export function submittedOf(wallet: SolanaWallet, progress: Progress): Submitted {
  const { state, refusal, reason, cancelled, signature } = progress;
  const of = (status: Submitted['status']) => ({ status, reason, signature: signature ?? '' });
  if (cancelled) return of('confirmed');
  if (state === 'lapsed' || state === 'offered' || refusal === 'lapsed') {
    noteLapse(wallet);
    return of('lapsed');
  }
  if (state === 'unsponsored' || state === 'refused' || state === 'failed') return of(state);
  return of(state === 'signed' ? 'slow' : 'confirmed');
}
