// A WebSocket may drop messages without an error. Every few minutes this check compares the
// program's signatures on chain with the signatures that the stream reported. If a message was
// lost, the sweep starts at once. Without this check, the sweep would find the change only after up
// to SWEEP_MINUTES.
import { performance } from 'node:perf_hooks';
import type { SignatureInfo } from '../../chain/rpc/responses.ts';
import type { Context } from '../base/context.ts';

/** Page size of getSignaturesForAddress, and the maximum number of pages that one check reads. */
const PAGE = 1000;
const MAX_PAGES = 10;
/**
 * Maximum number of slots by which a notification may be late (32 slots take 13 s). Each check
 * therefore leaves the signatures in the newest LATE_SLOTS slots to the next check.
 */
const LATE_SLOTS = 32n;

interface StreamCheckOptions {
  /** Called when the stream lost messages, or when no check was complete for an hour. */
  readonly onLoss: () => void;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
}

/** Compares the signatures that the program's stream reported with the signatures on chain. */
export class StreamCheck {
  readonly #context: Pick<Context, 'rpc' | 'programId' | 'log' | 'times'>;
  readonly #onLoss: () => void;
  readonly #now: () => number;
  /** Reported signatures that were not compared yet, each with its slot. */
  readonly #heard = new Map<string, bigint>();
  /** The newest slot that the stream reported. */
  #slot = 0n;
  /**
   * The next check compares the signatures after this slot. The stream has been open since this
   * slot. Undefined until the open stream has reported its first slot.
   */
  #completeFrom: bigint | undefined;
  /** The newest signature that was compared. */
  #last: string | undefined;
  #checkedAt: number;
  /** True if a check after `#checkedAt` could not list every signature. */
  #hasUnlisted = false;

  constructor(
    context: Pick<Context, 'rpc' | 'programId' | 'log' | 'times'>,
    { onLoss, now = () => performance.now() }: StreamCheckOptions,
  ) {
    this.#context = context;
    this.#onLoss = onLoss;
    this.#now = now;
    this.#checkedAt = now();
  }

  /** Records the signature of a transaction that the program's stream reported. */
  hear(signature: string, slot: bigint): void {
    this.#heard.set(signature, slot);
  }

  /** Records a slot that the stream reported. */
  slot(slot: bigint): void {
    if (slot > this.#slot) this.#slot = slot;
    this.#completeFrom ??= slot;
  }

  /** Called when the stream opened again. Signatures from before this time are not compared. */
  reopened(): void {
    this.#completeFrom = undefined;
    this.#heard.clear();
  }

  /**
   * Runs one check. Always resolves with false, so that the loop waits. Throws RpcUnreachable or
   * RpcError.
   */
  async turn(): Promise<boolean> {
    try {
      if (await this.#check()) this.#checkedAt = this.#now();
    } finally {
      if (this.#now() - this.#checkedAt >= this.#context.times.streams.maxUncheckedMs) {
        this.#context.log.warn('streams not checked for an hour, all subscriptions are read');
        this.#checkedAt = this.#now();
        this.#hasUnlisted = false;
        this.#onLoss();
      }
    }
    return false;
  }

  /**
   * Compares the signatures since the last check. Resolves with true when every signature since
   * #checkedAt could be compared.
   */
  async #check(): Promise<boolean> {
    const [from, until] = [this.#completeFrom, this.#slot - LATE_SLOTS];
    if (from === undefined || until <= from) return false;
    const listed = await this.#list();
    // The stream was interrupted during the request, so it may not have reported every signature.
    if (this.#completeFrom !== from) return false;
    const settled = listed.infos.filter(({ slot }) => slot <= until);
    const lost = settled.filter(
      ({ signature, slot, err }) => err === null && slot > from && !this.#heard.has(signature),
    );
    this.#last = settled[0]?.signature ?? this.#last;
    this.#completeFrom = until;
    for (const [signature, slot] of this.#heard) if (slot <= until) this.#heard.delete(signature);
    if (lost.length > 0) {
      const [{ signature } = { signature: '' }] = lost;
      this.#context.log.warn({ lost: lost.length, signature }, 'stream lost transactions');
      this.#onLoss();
    }
    this.#hasUnlisted ||= !listed.isComplete;
    return !this.#hasUnlisted;
  }

  /** Lists the program's signatures after the last compared signature, newest first. */
  async #list(): Promise<{ infos: SignatureInfo[]; isComplete: boolean }> {
    const { rpc, programId } = this.#context;
    const infos: SignatureInfo[] = [];
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      const page = await rpc.getSignaturesForAddress(programId, {
        until: this.#last,
        before: infos.at(-1)?.signature,
        limit: PAGE,
        commitment: 'confirmed',
      });
      infos.push(...page);
      const { slot } = page.at(-1) ?? { slot: 0n };
      // Later checks end at the signature at which the check before ended. The first check ends at
      // the first slot that the stream reported.
      if (page.length < PAGE || slot <= (this.#completeFrom ?? 0n))
        return { infos, isComplete: true };
    }
    return { infos, isComplete: false };
  }
}
