// Step 4 of collecting (chain.md): the bytes go out. A merchant's cancellation and a send exclude each other by the row's lock, so that once a
// cancellation is answered nothing of its subscription is sent any more.
import { setTimeout as pause } from 'node:timers/promises';
import { RpcError, RpcUnreachable } from '../chain/rpc-errors.ts';
import { lockCollectable, readCollectable } from '../db/subscriptions.ts';
import type { Context } from './context.ts';
import type { Outgoing } from './in-flight.ts';
import { heed } from './heed.ts';

/** Transactions that go out under one transaction's locks. */
export const SENT_AT_ONCE = 64;
const LANES = 2;
const HEEDED_AT_ONCE = 200;
/** How long a send may hold up a cancellation. No endpoint is asked later than this after the row was read. */
const LOCKED_MS = 1000;
/** A slower answer may be that of a session which is over by now, and its locks with it (a process that stood still, a network): it is asked once more. */
const PROMPT_MS = 250;

/**
 * Sends those that may still be sent, each once. Throws when chain or database cannot be reached: what was not sent, and what was heard of meanwhile,
 * goes out with a later round.
 */
export async function sendAll(context: Context, ready: readonly Outgoing[]): Promise<void> {
  const unheeded = ready.filter(({ heeded }) => heeded === null);
  await inBatches(
    context,
    ready.filter(({ heeded }) => heeded !== null),
  );
  if (unheeded.length === 0) return;
  const held = new Set(await readCollectable(context.sql, unheeded));
  const rest = unheeded.filter(({ id }) => held.has(id));
  for (let start = 0; start < rest.length; start += HEEDED_AT_ONCE) {
    const some = rest.slice(start, start + HEEDED_AT_ONCE);
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
      for (let some = queue.splice(0, SENT_AT_ONCE); some.length > 0; some = queue.splice(0, SENT_AT_ONCE)) await sendLocked(context, some);
    }),
  );
}

async function sendLocked(context: Context, some: readonly Outgoing[]): Promise<void> {
  await context.sql.begin(async (tx) => {
    let askedAt = performance.now();
    let locked = await lockCollectable(tx, [...some]);
    if (performance.now() - askedAt > PROMPT_MS) {
      askedAt = performance.now();
      locked = await lockCollectable(tx, [...some]);
    }
    const withinMs = LOCKED_MS - (performance.now() - askedAt);
    const allowed = new Map(locked.map(({ id, notices }) => [id, notices]));
    const sends: Promise<void>[] = [];
    for (const one of some) {
      const notices = allowed.get(one.id);
      if (notices === undefined) continue;
      if (withinMs <= 0) one.sentAt = -Infinity;
      else if (notices === one.heeded) sends.push(sendOne(context, one, withinMs));
      // Something was heard of it since: the next round looks at the chain first.
      else Object.assign(one, { heeded: null, sentAt: -Infinity });
    }
    const waiting = new AbortController();
    try {
      await Promise.race([Promise.all(sends), pause(Math.max(0, withinMs), undefined, { signal: waiting.signal })]);
    } finally {
      waiting.abort();
    }
  });
}

async function sendOne({ rpc, log, metrics }: Context, one: Outgoing, withinMs: number): Promise<void> {
  one.sends += 1;
  one.sentAt = performance.now();
  try {
    await rpc.sendTransaction(one.attempt.transaction, { withinMs });
    metrics.sends.inc({ outcome: one.sends === 1 ? 'first' : 'again' });
  } catch (error) {
    // It may have got through nevertheless: only its status tells. It goes out again with the next round.
    metrics.sends.inc({ outcome: 'failed' });
    if (error instanceof RpcError) log.warn({ attempt: one.attempt.id, reason: error.message }, 'a payment was refused by an RPC endpoint');
    else if (!(error instanceof RpcUnreachable)) throw error;
  }
}
