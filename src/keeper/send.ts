// Step 4 of collecting (chain.md): the bytes go out. A merchant's cancellation and a send exclude each other by the row's lock, so that once a
// cancellation is answered nothing of its subscription is sent any more.
import { setTimeout as pause } from 'node:timers/promises';
import { RpcError, RpcUnreachable } from '../chain/rpc-errors.ts';
import { lockCollectable, readCollectable } from '../db/subscriptions.ts';
import type { Context } from './context.ts';
import type { Flying } from './flight.ts';
import { heed } from './heed.ts';

/** A transaction to send. */
export interface Outgoing extends Flying {
  /** The notices that the last look at the chain covers; null when this process has not looked. */
  heeded: number | null;
  sends: number;
}

const AT_ONCE = 64;
const LANES = 2;
const HEEDED_AT_ONCE = 200;
/** How long a send may hold up a cancellation. No endpoint is asked later than this after the row was read. */
const LOCKED_MS = 1000;

/** Sends those that may still be sent, each once. Throws when chain or database cannot be reached: what was not sent goes out with the next round. */
export async function sendAll(context: Context, ready: readonly Outgoing[]): Promise<void> {
  const known = new Map((await readCollectable(context.sql, [...ready])).map(({ id, notices }) => [id, notices]));
  const held = ready.filter(({ id }) => known.has(id));
  await inBatches(
    context,
    held.filter(({ id, heeded }) => known.get(id) === heeded),
  );
  const unheeded = held.filter(({ id, heeded }) => known.get(id) !== heeded);
  for (let start = 0; start < unheeded.length; start += HEEDED_AT_ONCE) {
    const some = unheeded.slice(start, start + HEEDED_AT_ONCE);
    const seen = await heed(context, some);
    for (const one of some) one.heeded = seen.get(one.id) ?? null;
    await inBatches(
      context,
      some.filter(({ heeded }) => heeded !== null),
    );
  }
}

async function inBatches(context: Context, queue: Outgoing[]): Promise<void> {
  await Promise.all(
    Array.from({ length: LANES }, async () => {
      for (let some = queue.splice(0, AT_ONCE); some.length > 0; some = queue.splice(0, AT_ONCE)) await sendLocked(context, some);
    }),
  );
}

async function sendLocked(context: Context, some: readonly Outgoing[]): Promise<void> {
  await context.sql.begin(async (tx) => {
    const allowed = new Map((await lockCollectable(tx, [...some])).map(({ id, notices }) => [id, notices]));
    const sends = some.filter(({ id, heeded }) => allowed.get(id) === heeded).map((one) => sendOne(context, one));
    const waiting = new AbortController();
    try {
      await Promise.race([Promise.all(sends), pause(LOCKED_MS, undefined, { signal: waiting.signal })]);
    } finally {
      waiting.abort();
    }
  });
}

async function sendOne({ rpc, log, metrics }: Context, one: Outgoing): Promise<void> {
  one.sends += 1;
  try {
    await rpc.sendTransaction(one.attempt.transaction, { withinMs: LOCKED_MS });
    metrics.sends.inc({ outcome: one.sends === 1 ? 'first' : 'again' });
  } catch (error) {
    // It may have got through nevertheless: only its status tells. It goes out again with the next round.
    metrics.sends.inc({ outcome: 'failed' });
    if (error instanceof RpcError) log.warn({ attempt: one.attempt.id, reason: error.message }, 'a payment was refused by an RPC endpoint');
    else if (!(error instanceof RpcUnreachable)) throw error;
  }
}
