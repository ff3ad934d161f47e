// Closing on-chain subscriptions whose rent we paid, once the prepaid time is over. No money of anybody else moves, and closing twice is refused by
// the program, so nothing is committed before it is sent. It takes as long as a confirmation does, beside the collecting.
import { setTimeout as pause } from 'node:timers/promises';
import { revokeDelegation } from '../chain/instructions.ts';
import { signTransaction } from '../chain/transactions.ts';
import { computeUnitLimit, computeUnitPrice } from '../chain/companions.ts';
import { releaseClaims } from '../db/subscription-leases.ts';
import type { ReadSubscription } from '../db/subscriptions.ts';
import { describeTransactionError } from '../chain/errors.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import type { Context } from './context.ts';
import type { Fees } from './fees.ts';

const CLOSING_UNITS = 50_000;
const POLL_MS = 400;
const RESEND_MS = 2000;
const PATIENCE_MS = 20_000;
/** Batches under way at once. */
const MOST_CLOSINGS = 4;

/** Subscriptions by id whose account is closed, with the slot of that. */
export type Closed = ReadonlyMap<string, bigint>;

export interface Closings {
  /** Begins to close the accounts of subscriptions held under a claim; resolves at once, or when there is room for another batch. */
  take(claimId: string, rows: readonly ReadSubscription[]): Promise<void>;
  /** Gives up what is under way: the claims go back, and the next keeper sees how far it got. */
  stop(): Promise<void>;
}

/** Closings for `context`; `finish` writes what became of a batch. */
export function createClosings(
  context: Context,
  fees: Fees,
  finish: (claimId: string, rows: readonly ReadSubscription[], closed: Closed) => Promise<void>,
): Closings {
  const { sql, log } = context;
  const underWay = new Set<Promise<void>>();
  const stopping = new AbortController();

  async function close(claimId: string, rows: readonly ReadSubscription[]): Promise<void> {
    try {
      await finish(claimId, rows, await closeAccounts(context, fees, rows, stopping.signal));
    } catch (error) {
      if (!stopping.signal.aborted && !(error instanceof RpcUnreachable))
        log.error({ err: error }, 'accounts could not be closed; it is tried again');
      // When the database is gone, the leases run out by themselves.
      await releaseClaims(
        sql,
        rows.map(({ id }) => ({ id, claimId })),
      ).catch(() => undefined);
    }
  }

  return {
    async take(claimId, rows) {
      while (underWay.size >= MOST_CLOSINGS) await Promise.race(underWay);
      const closing = close(claimId, rows).finally(() => underWay.delete(closing));
      underWay.add(closing);
    },
    async stop() {
      stopping.abort();
      await Promise.all(underWay);
    },
  };
}

/** Tries to close the accounts; returns those that are closed. Failures are logged. Throws as the RPC client does, and when `signal` says so. */
async function closeAccounts(context: Context, fees: Fees, rows: readonly ReadSubscription[], signal: AbortSignal): Promise<Closed> {
  const { rpc, keypair, programId, log } = context;
  const authority = keypair.address;
  const { blockhash } = await rpc.getLatestBlockhash();
  const price = await fees.price([authority]);
  let open = rows.map((row) => {
    const close = revokeDelegation(programId, { authority, plan: row.planPda, subscription: row.subscriptionPda });
    return { row, ...signTransaction(keypair, [computeUnitLimit(CLOSING_UNITS), computeUnitPrice(price), close], blockhash) };
  });
  const closed = new Map<string, bigint>();
  const deadline = performance.now() + PATIENCE_MS;
  let sentAt = -Infinity;
  while (open.length > 0 && performance.now() < deadline) {
    if (performance.now() - sentAt >= RESEND_MS) {
      sentAt = performance.now();
      // Whatever an endpoint says to that: only the status tells.
      await Promise.allSettled(open.map(({ bytes }) => rpc.sendTransaction(bytes)));
    }
    const { statuses } = await rpc.getSignatureStatuses(open.slice(0, 256).map(({ signature }) => signature));
    open = open.filter(({ row, signature }, place) => {
      const status = statuses[place] ?? null;
      if (status === null || status.commitment === 'processed') return true;
      const reason = describeTransactionError(status.err);
      if (status.err === null) closed.set(row.id, status.slot);
      else log.warn({ subscription: row.id, signature, reason }, 'an account whose rent is ours could not be closed');
      return false;
    });
    if (open.length > 0) await pause(POLL_MS, undefined, { signal });
  }
  return closed;
}
