// Closes on-chain subscriptions whose rent we paid, once the prepaid time is over, outside the
// collect loop. No one else's money moves and the program refuses a second close, so nothing is
// committed before it is sent.
import { setTimeout as pause } from 'node:timers/promises';
import { subscriptionIn } from '../chain/program/accounts.ts';
import { describeTransactionError } from '../chain/program/errors.ts';
import { revokeDelegation } from '../chain/program/instructions.ts';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { STATUSES_AT_ONCE } from '../chain/rpc/transactions.ts';
import { signTransaction } from '../chain/transactions/subscriptions.ts';
import { computeUnitLimit, computeUnitPrice } from '../chain/transactions/system-instructions.ts';
import { heldUnder, releaseClaims } from '../db/subscription-leases.ts';
import type { ReadSubscription } from '../db/subscription-work.ts';
import { putOffUntil } from '../domain/collecting/keeper-backoff.ts';
import type { Context } from './preflight.ts';

const CLOSING_UNITS = 50_000;
const POLL_MS = 400;
const RESEND_MS = 2000;
const PATIENCE_MS = 20_000;
/** Batches under way at once. */
const MAX_CLOSINGS = 4;

/** Subscriptions by id whose account is closed, with the slot of that. */
export type Closed = ReadonlyMap<string, bigint>;

/** Closes accounts outside the turns of the collector. `finish` writes what became of a batch. */
export class Closings {
  readonly #context: Context;
  readonly #finish: (
    claimId: string,
    rows: readonly ReadSubscription[],
    closed: Closed,
  ) => Promise<void>;
  readonly #underWay = new Set<Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(
    context: Context,
    finish: (claimId: string, rows: readonly ReadSubscription[], closed: Closed) => Promise<void>,
  ) {
    this.#context = context;
    this.#finish = finish;
  }

  /**
   * Begins to close the accounts of subscriptions held under a claim, or postpones them without
   * room. Does not wait for the closing.
   */
  async take(claimId: string, rows: readonly ReadSubscription[]): Promise<void> {
    const { sql, clock } = this.#context;
    if (this.#underWay.size >= MAX_CLOSINGS || this.#stopping.signal.aborted) {
      const until = putOffUntil(await clock.now());
      await releaseClaims(sql, heldUnder(claimId, rows), { until });
      return;
    }
    const closing = this.#close(claimId, rows).finally(() => this.#underWay.delete(closing));
    this.#underWay.add(closing);
  }

  /** Aborts and releases the claims; the next keeper reads how far it got. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#underWay);
  }

  async #close(claimId: string, rows: readonly ReadSubscription[]): Promise<void> {
    const { sql, log } = this.#context;
    const { signal } = this.#stopping;
    try {
      await this.#finish(claimId, rows, await closeAccounts(this.#context, rows, signal));
    } catch (error) {
      if (!signal.aborted && !(error instanceof RpcUnreachable))
        log.error({ err: error }, 'closing accounts failed');
      // Without Postgres the leases run out by themselves.
      await releaseClaims(sql, heldUnder(claimId, rows)).catch(() => undefined);
    }
  }
}

/**
 * Tries to close the accounts; returns those that are closed. Logs failures. Throws as the RPC
 * client does, and when `signal` aborts.
 */
async function closeAccounts(
  { rpc, fees, keypairs, programId, log }: Context,
  rows: readonly ReadSubscription[],
  signal: AbortSignal,
): Promise<Closed> {
  const { accounts } = await rpc.getMultipleAccounts(rows.map((row) => row.subscriptionPda));
  const { blockhash } = await rpc.getLatestBlockhash();
  const price = await fees.price();
  let open = rows.flatMap((row, place) => {
    // Only the wallet that paid the rent may close the account.
    const payer = subscriptionIn(accounts[place] ?? null, programId)?.payer ?? '';
    const keypair = keypairs.get(payer);
    if (keypair === undefined) return [];
    const authority = keypair.address;
    const close = revokeDelegation(programId, {
      authority,
      plan: row.planPda,
      subscription: row.subscriptionPda,
    });
    const instructions = [computeUnitLimit(CLOSING_UNITS), computeUnitPrice(price), close];
    return [{ row, ...signTransaction(keypair, instructions, blockhash) }];
  });
  const closed = new Map<string, bigint>();
  const deadline = performance.now() + PATIENCE_MS;
  let sentAt = -Infinity;
  while (open.length > 0 && performance.now() < deadline) {
    if (performance.now() - sentAt >= RESEND_MS) {
      sentAt = performance.now();
      // Only the status shows the outcome.
      await Promise.allSettled(open.map(({ bytes }) => rpc.sendTransaction(bytes)));
    }
    const { statuses } = await rpc.getSignatureStatuses(
      open.slice(0, STATUSES_AT_ONCE).map(({ signature }) => signature),
    );
    open = open.filter(({ row, signature }, place) => {
      const status = statuses[place] ?? null;
      if (status === null || status.commitment === 'processed') return true;
      const reason = describeTransactionError(status.err);
      if (status.err === null) closed.set(row.id, status.slot);
      else
        log.warn(
          { subscription: row.id, signature, reason },
          'subscription account could not be closed',
        );
      return false;
    });
    if (open.length > 0) await pause(POLL_MS, undefined, { signal });
  }
  return closed;
}
