// Idempotency-Key: requests with the same key and body have one effect and get the same response,
// even when they are concurrent. The encrypted response is committed in the same database
// transaction as the effect. A failed request has no effect and its response is not stored, so the
// key can be used again.
import { createHash } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  findResponse,
  storeResponse,
  takeKey,
  type StoredResponse,
} from '../../db/accounts/idempotency.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { ok } from '../shapes/envelope.ts';
import { type ApiDeps, callerKey } from './context.ts';

export const idempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      format: 'idempotency-key',
      description:
        'Up to 255 characters, kept for 24 hours. A repeated request gets the response of the first.',
    }),
  ),
});

/**
 * Returns the error for an Idempotency-Key on a route that ignores the header. Without this error,
 * the client would believe that a retry is safe.
 */
export function unusedKey({
  method,
  headers,
  routeOptions,
  is404,
}: FastifyRequest): ServiceError | undefined {
  const isRead = method === 'GET' || method === 'HEAD';
  if (headers['idempotency-key'] === undefined || isRead || is404) return undefined;
  if (routeOptions.schema?.headers === idempotencyHeaders) return undefined;
  return invalidField('idempotency-key', 'must be left out: this request takes none');
}

/**
 * Calls `prepare`, runs the returned function in a database transaction and responds with its
 * result. `prepare` runs before the transaction begins, so `prepare` may read the chain. With an
 * Idempotency-Key, the function takes effect only once per key, and later requests get the stored
 * response. Throws CONFLICT when the key was used for a different request, or when another request
 * with the key is under way.
 */
export async function respondOnce<T>(
  { sql, secretBox }: ApiDeps,
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
  const { caller } = request;
  if (caller === null) throw new Error('an idempotent route without a caller');
  const scope = callerKey(caller);
  const owner = `${scope} ${key}`;
  const repeat = (response: StoredResponse) => {
    if (!response.fingerprint.equals(fingerprint))
      throw new ServiceError('CONFLICT', 'This Idempotency-Key was used for another request.');
    return reply
      .code(response.status)
      .header('idempotency-replayed', 'true')
      .type('application/json; charset=utf-8')
      .send(secretBox.open(response.body, owner));
  };
  const fingerprint = fingerprintOf(request);
  const earlier = await findResponse(sql, scope, key);
  if (earlier !== undefined) return repeat(earlier);
  const act = await prepare();
  const outcome = await sql.begin(async (tx) => {
    if (!(await takeKey(tx, { scope, key, fingerprint })))
      return { earlier: await findResponse(tx, scope, key) };
    const body = reply.serializeInput(ok(await act(tx)), String(status)) as string;
    await storeResponse(tx, { scope, key, status, body: secretBox.seal(body, owner) });
    return { body };
  });
  if (outcome.body !== undefined)
    return reply.code(status).type('application/json; charset=utf-8').send(outcome.body);
  if (outcome.earlier === undefined)
    throw new ServiceError('CONFLICT', 'Another request with this Idempotency-Key is under way.');
  return repeat(outcome.earlier);
}

/**
 * Returns a hash of method, URL and body. The order of the body's fields does not change the hash.
 */
function fingerprintOf({ method, url, body }: FastifyRequest): Buffer {
  return createHash('sha256')
    .update(`${method} ${url}\n${JSON.stringify(sorted(body ?? {}))}`)
    .digest();
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, field]) => [name, sorted(field)]);
}
