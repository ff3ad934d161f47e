import { Type } from '@sinclair/typebox';
import { messageOf } from '../../errors.ts';
import type { Api, ApiDeps } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';

/** Whether the process runs, and whether it can do its work. */
export function healthRoutes(api: Api, { sql, log }: ApiDeps): void {
  const Status = (word: string) => success(Type.Object({ status: Type.Literal(word) }));
  api.get('/healthz', { schema: { summary: 'The process runs', tags: ['service'], response: { 200: Status('ok') } } }, async () =>
    ok({ status: 'ok' }),
  );
  api.get(
    '/readyz',
    {
      schema: {
        summary: 'The service can do its work',
        tags: ['service'],
        response: { 200: Status('ready'), 503: failures()[500], ...failures() },
      },
    },
    async (_request, reply) => {
      try {
        await sql`select 1`;
        return ok({ status: 'ready' });
      } catch (error) {
        log.warn({ reason: messageOf(error) }, 'not ready: Postgres does not answer');
        const error503 = { code: 'INTERNAL_ERROR', message: 'The database does not answer.' };
        return reply.code(503).send({ success: false, data: null, error: error503 });
      }
    },
  );
}
