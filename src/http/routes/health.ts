import { Type } from '@sinclair/typebox';
import { databaseTrouble } from '../../db/postgres/readiness.ts';
import type { Api, ApiDeps } from '../door/context.ts';
import { failures, ok, refusal, success } from '../shapes/envelope.ts';

/** Registers the routes for liveness (/healthz) and readiness (/readyz). */
export function healthRoutes(api: Api, { sql, trouble, isStopping }: ApiDeps): void {
  const findTrouble = memo(1000, async () => trouble?.() ?? (await databaseTrouble(sql)));
  const Status = (word: string) =>
    success(
      Type.Object({
        status: Type.Literal(word, { description: 'The same word in every response.' }),
      }),
    );
  api.get(
    '/healthz',
    {
      schema: {
        summary: 'Liveness: the process runs',
        tags: ['service'],
        response: { 200: Status('ok'), ...failures() },
      },
    },
    async () => ok({ status: 'ok' }),
  );
  api.get(
    '/readyz',
    {
      schema: {
        summary: 'Readiness: the service can handle requests',
        tags: ['service'],
        response: { 200: Status('ready'), ...failures() },
      },
    },
    async (_request, reply) => {
      // isStopping() is not cached, unlike the state of the database. As soon as the process is
      // stopping, it should get no more requests.
      const isEnding = isStopping?.() === true;
      if (!isEnding && (await findTrouble()) === undefined) return ok({ status: 'ready' });
      const reason = isEnding ? 'The service is stopping.' : 'The database cannot be used.';
      return reply.code(503).header('retry-after', 5).send(refusal('INTERNAL_ERROR', reason));
    },
  );
}

/**
 * Caches the result of `ask` for `ms` milliseconds. However many probes arrive in that time, only
 * one statement runs.
 */
function memo<T>(ms: number, ask: () => PromiseLike<T>): () => PromiseLike<T> {
  let [askedAt, result] = [-Infinity, undefined as PromiseLike<T> | undefined];
  return () => {
    if (result === undefined || performance.now() - askedAt > ms) {
      askedAt = performance.now();
      result = ask();
    }
    return result;
  };
}
