// A signed transaction is not sent blindly: when something was heard of its subscription since it was signed, or when the keeper that signed it is
// gone, the chain is looked at again. The program would let a pull through until the end of a period that was cancelled; we do not send it.
import type { ChainView } from '../domain/chain-view.ts';
import { readSubscriptions, type HeldSubscription } from '../db/subscriptions.ts';
import { sameInstance } from '../domain/decide.ts';
import { timeOf } from '../domain/network.ts';
import { settle } from '../domain/settlement.ts';
import { applyCancelSeen, draftOf, isLive } from '../domain/transitions.ts';
import type { Context } from './context.ts';
import type { Flying } from './in-flight.ts';
import { readViews } from './read.ts';

/** Whether the on-chain subscription is the one that was signed for, and not cancelled. Pure. */
function stands(row: HeldSubscription, view: ChainView | Error): boolean {
  if (view instanceof Error) return false;
  return sameInstance(row, view.subscription)?.expiresAt === 0n;
}

/**
 * Looks at the chain for these; a cancellation that is seen is written and told at once. Returns those that may be sent, with the notices that the
 * look covers. Throws as the RPC client does: then nothing is known, and nothing is sent.
 */
export async function heed(context: Context, flying: readonly Flying[]): Promise<Map<string, number>> {
  const { sql, deliveries } = context;
  const rows = await readSubscriptions(
    sql,
    flying.map(({ id }) => id),
  );
  // Not before what they were signed by, either.
  const slots = [...rows, ...flying.map(({ row }) => row)].map(({ observedSlot }) => observedSlot);
  const minSlot = slots.reduce((highest, slot) => (slot > highest ? slot : highest), 0n);
  const reading = await readViews(context, rows, { commitment: 'confirmed', ...(minSlot > 0n && { minSlot }) });
  const cancelled = new Set(rows.filter((row) => isCancelled(row, reading.of(row))).map(({ id }) => id));
  if (cancelled.size > 0) {
    const held = flying.filter(({ id }) => cancelled.has(id));
    const { queued } = await settle(sql, held, { chainNow: timeOf(reading.now) }, (row) => {
      if (!isLive(row) || row.cancelRequestedAt !== null || row.observedSlot > reading.slot) return undefined;
      const draft = draftOf(row);
      applyCancelSeen(draft, reading.now);
      draft.state.observedSlot = reading.slot;
      return { draft, keep: true };
    });
    deliveries.notify(queued);
  }
  return new Map(rows.filter((row) => stands(row, reading.of(row))).map(({ id, notices }) => [id, notices]));
}

function isCancelled(row: HeldSubscription, view: ChainView | Error): boolean {
  if (view instanceof Error) return false;
  const account = sameInstance(row, view.subscription);
  return account !== null && account.expiresAt !== 0n;
}
