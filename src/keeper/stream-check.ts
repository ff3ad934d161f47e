// Checks that the streams lose no messages. A WebSocket drops messages unseen, so the program's
// signatures are listed every few minutes and compared with those that the stream reported. A lost
// message starts the sweep; without one a lap of the sweep may take hours (SWEEP_MINUTES).
import { performance } from 'node:perf_hooks';
import type { SignatureInfo } from '../chain/rpc/responses.ts';
import type { Context } from './context.ts';

/** Page size of getSignaturesForAddress, and the pages that one check reads at most. */
const PAGE = 1000;
const MAX_PAGES = 10;
/**
 * Slots that a notification may be late (13 s). Younger signatures are compared by the next check.
 */
const LATE_SLOTS = 32n;
/** After this time without a complete check, the sweep starts as after a lost message. */
const MAX_UNCHECKED_MS = 3_600_000;

interface StreamCheckOptions {
  /** Called when the stream lost messages, or when this cannot be excluded for an hour. */
  readonly onLoss: () => void;
  /** Monotonic clock, ms. */
  readonly now?: () => number;
}

/** Compares the signatures that the program's stream reported with those that the chain lists. */
export class StreamCheck {
  readonly #context: Pick<Context, 'rpc' | 'programId' | 'log'>;
  readonly #onLoss: () => void;
  readonly #now: () => number;
  /** Slots of the reported signatures that are not compared yet. */
  readonly #heard = new Map<string, bigint>();
  /** Newest slot of the stream. */
  #slot = 0n;
  /** Slot after which the stream reports everything; undefined until its first slot. */
  #completeFrom: bigint | undefined;
  /** Newest signature that was compared. */
  #last: string | undefined;
  #checkedAt: number;

  constructor(
    context: Pick<Context, 'rpc' | 'programId' | 'log'>,
    { onLoss, now = () => performance.now() }: StreamCheckOptions,
  ) {
    this.#context = context;
    this.#onLoss = onLoss;
    this.#now = now;
    this.#checkedAt = now();
  }

  /** Takes a reported signature of the program. */
  hear(signature: string, slot: bigint): void {
    this.#heard.set(signature, slot);
  }

  /** Takes a slot of the stream. */
  slot(slot: bigint): void {
    if (slot > this.#slot) this.#slot = slot;
    this.#completeFrom ??= slot;
  }

  /** Called when the stream opened again. Earlier signatures are not compared. */
  reopened(): void {
    this.#completeFrom = undefined;
    this.#heard.clear();
  }

  /** Runs one check. Resolves with false. Throws as the RPC client does. */
  async turn(): Promise<boolean> {
    try {
      if (await this.#check()) this.#checkedAt = this.#now();
    } finally {
      if (this.#now() - this.#checkedAt >= MAX_UNCHECKED_MS) {
        this.#context.log.warn('streams not checked for an hour, all subscriptions are read');
        this.#checkedAt = this.#now();
        this.#onLoss();
      }
    }
    return false;
  }

  /** Whether all signatures since the last check could be compared. */
  async #check(): Promise<boolean> {
    const [from, until] = [this.#completeFrom, this.#slot - LATE_SLOTS];
    if (from === undefined || until <= from) return false;
    const listed = await this.#list();
    // A gap during the request: the signatures before it are not complete.
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
    return listed.isComplete;
  }

  /** Lists the program's signatures since the last compared one, newest first. */
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
      // The first list has no end: it stops where the stream began.
      if (page.length < PAGE || slot <= (this.#completeFrom ?? 0n))
        return { infos, isComplete: true };
    }
    return { infos, isComplete: false };
  }
}
