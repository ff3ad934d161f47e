// What can be decided about a subscription (decide.ts), from what, and how it is put off.
import type { OursReason } from '../chain/errors.ts';
import type { ChainView } from './chain-view.ts';
import type { FoundPull } from './pulls.ts';
import type { Split } from './money.ts';
import type { BlockReason } from './reasons.ts';
import { timeOf } from '../chain/time.ts';
import { setbackUntil } from './backoff.ts';
import type { Draft } from './transitions.ts';

export interface Rules {
  /** Wallets that this keeper signs with, the preferred one first. */
  readonly keepers: readonly string[];
  /** Whether one of them cannot pay for a transaction. */
  readonly isOutOfSol: (keeper: string) => boolean;
  readonly pastDueDays: number;
  /** The operator's fee, where the merchant has none of its own. */
  readonly feeBps: number;
}

/** What was found out, at some cost, because an earlier decision asked for it. */
export interface Findings {
  /** Pulls on chain that the database may not know of. */
  readonly pulls?: readonly FoundPull[];
  /** More transactions name the account than could be read: what was pulled is not known this time either. */
  readonly tooMany?: true;
  /** Some transactions that name the account cannot be read: each may hold a pull that `pulls` does not have. */
  readonly unreadable?: true;
  /** What the account counts as pulled is final, or in the books: a history that does not have it by now may never have it. */
  readonly pulledFinally?: true;
  /** The account is gone, but not finally yet: what was pulled before its closing may not be final either, and cannot be told. */
  readonly closingNotFinal?: true;
  /** One endpoint does not have an account that is not gone for sure. */
  readonly absenceDoubted?: true;
  /** One endpoint does not have the token account of merchant or treasury, which is not gone for sure. */
  readonly receiverDoubted?: true;
  /** The on-chain account could not be closed. */
  readonly closingFailed?: true;
}

/** What was found out about one subscription. */
export type Found = readonly [id: string, findings: Findings];

/** A payment to collect now. Times are Unix seconds. */
export interface Collectable {
  /** The wallet that pulls: one of ours that the plan names. */
  readonly keeper: string;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly amounts: Split;
  /** The wallet that takes the fee. */
  readonly treasury: string;
  /** The fee that is left out because no treasury can receive it. */
  readonly feeOwed: bigint;
}

export interface Decision {
  readonly draft: Draft;
  readonly collect?: Collectable;
  /** To be found out first; the decision is then made again. */
  readonly needs?: 'pulls' | 'closing';
  /** No payment of the plan can be collected: the plan is marked, and its subscriptions wait until the mark is taken off. */
  readonly blocks?: BlockReason;
  /** A failure that is not the subscriber's: the operator is alerted. */
  readonly alert?: {
    readonly reason: OursReason | 'pull_not_found' | 'period_mismatch';
    readonly detail?: string;
  };
}

/** Seconds between reads of a state that is confirmed and not final yet (some 13 s on a cluster). Waiting for it is no failure. */
const FINALITY_LOOK_SECONDS = 4n;

/** Retries after a failure that is not the subscriber's; the subscription keeps its status. */
export function ourSetback(draft: Draft, { now }: ChainView): Decision {
  draft.state.setbacks += 1;
  draft.state.dueAt = setbackUntil(now, draft.state.setbacks);
  return { draft };
}

/** Due again after so many seconds of chain time. */
export function retrySoon(draft: Draft, { now }: ChainView, seconds: bigint): Decision {
  return retryAt(draft, now + seconds);
}

/** Due again at `at` (chain time, Unix seconds). */
export function retryAt(draft: Draft, at: bigint): Decision {
  draft.state.dueAt = timeOf(at);
  return { draft };
}

/** Due again when the state may be final. */
export function awaitFinality(draft: Draft, view: ChainView): Decision {
  return retrySoon(draft, view, FINALITY_LOOK_SECONDS);
}
