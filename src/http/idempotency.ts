// Idempotency-Key (decisions.md): the same key and body get the same answer, and have one effect even when they come at once. The answer is
// stored in the transaction of the effect, so that one is never without the other. A refusal has no effect and is not stored: the key is free.
import { createHash } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Transaction } from '../db/connect.ts';
import { findAnswer, storeAnswer, takeKey, type StoredAnswer } from '../db/idempotency.ts';
import { ServiceError } from '../errors.ts';
import type { ApiDeps } from './context.ts';
import { ok } from './envelope.ts';

export const idempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      format: 'idempotency-key',
      description: 'Up to 255 characters, kept for 24 hours: a repeated request gets the first one’s answer.',
    }),
  ),
});

/**
 * Answers with what `act` returns, once for each key. `prepare` looks up what the request is about and returns `act`, which writes; it runs
 * outside the transaction (it may ask the chain). Throws CONFLICT for a key that came with another request.
 */
export async function answerOnce<T>(
  { sql }: ApiDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  status: 200 | 201,
  prepare: () => Promise<(tx: Transaction) => Promise<T>>,
): Promise<FastifyReply> {
  const key = request.headers['idempotency-key'];
  if (typeof key !== 'string') {
    const act = await prepare();
    return reply.code(status).send(ok(await sql.begin(act)));
  }
  const scope = scopeOf(request);
  const fingerprint = fingerprintOf(request);
  const earlier = await findAnswer(sql, scope, key);
  if (earlier !== undefined) return repeat(reply, earlier, fingerprint);
  const act = await prepare();
  const outcome = await sql.begin(async (tx) => {
    if (!(await takeKey(tx, { scope, key, fingerprint }))) return { earlier: await findAnswer(tx, scope, key) };
    const body = reply.serializeInput(ok(await act(tx)), String(status)) as string;
    await storeAnswer(tx, { scope, key, status, body });
    return { body };
  });
  if (outcome.body !== undefined) return reply.code(status).type('application/json; charset=utf-8').send(outcome.body);
  if (outcome.earlier === undefined) throw new ServiceError('CONFLICT', 'Another request with this Idempotency-Key is under way.');
  return repeat(reply, outcome.earlier, fingerprint);
}

function repeat(reply: FastifyReply, answer: StoredAnswer, fingerprint: Buffer): FastifyReply {
  if (!answer.fingerprint.equals(fingerprint)) {
    throw new ServiceError('CONFLICT', 'This Idempotency-Key was used for another request.');
  }
  return reply.code(answer.status).header('idempotency-replayed', 'true').type('application/json; charset=utf-8').send(answer.body);
}

function scopeOf({ caller }: FastifyRequest): string {
  if (caller === null) throw new Error('an idempotent route without a caller');
  return caller.role === 'merchant' ? `merchant:${caller.id}` : `subscriber:${caller.wallet}`;
}

/** The path and the body, whatever the order of its fields. Bodies are flat. */
function fingerprintOf({ method, url, body }: FastifyRequest): Buffer {
  const fields = Object.entries((body ?? {}) as Record<string, unknown>).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(`${method} ${url}\n${JSON.stringify(fields)}`)
    .digest();
}
