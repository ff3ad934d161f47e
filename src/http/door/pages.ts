// Keyset pagination of lists, newest rows first. A request has ?limit and ?cursor, a response has
// the headers Link and X-Next-Cursor.
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Page } from '../../db/postgres/lists.ts';
import type { Cursors } from '../../domain/accounts/cursors.ts';
import { invalidField } from '../../errors.ts';
import { ok } from '../shapes/envelope.ts';

export const pageQuery = {
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Rows per page.' }),
  cursor: Type.Optional(
    Type.String({
      maxLength: 100,
      description: 'Start of the next page: X-Next-Cursor of the previous page.',
    }),
  ),
};

export interface Pages {
  /**
   * Parses ?limit and ?cursor. The returned `limit` is ?limit + 1, because an extra row shows that
   * another page follows. Throws VALIDATION_ERROR for a cursor of another list.
   */
  read(request: FastifyRequest<{ Querystring: { limit: number; cursor?: string } }>): Page;
  /**
   * Returns the response with at most ?limit rows. Sets Link and X-Next-Cursor when more rows
   * follow.
   */
  send<T extends { id: string }>(
    request: FastifyRequest,
    reply: FastifyReply,
    rows: readonly T[],
  ): { success: true; data: T[] };
}

export function createPages(cursors: Cursors, publicUrl: string): Pages {
  // A cursor is valid for one list (a path) and one caller.
  const scope = ({ url, caller }: FastifyRequest) =>
    `${url.split('?', 1)[0] ?? ''} ${caller?.wallet ?? ''}`;
  const lead = (request: FastifyRequest, reply: FastifyReply, last: string) => {
    const cursor = cursors.issue(last, scope(request));
    const [path = '', query = ''] = request.url.split('?', 2);
    const parameters = new URLSearchParams(query);
    parameters.set('cursor', cursor);
    reply
      .header('x-next-cursor', cursor)
      .header('link', `<${publicUrl}${path}?${parameters.toString()}>; rel="next"`);
  };
  return {
    read(request) {
      const { limit, cursor } = request.query;
      if (cursor === undefined) return { after: null, limit: limit + 1 };
      const after = cursors.read(cursor, scope(request));
      if (after === undefined) throw invalidField('cursor', 'was not issued for this list');
      return { after, limit: limit + 1 };
    },
    send(request, reply, rows) {
      const { limit } = request.query as { limit: number };
      const page = rows.slice(0, limit);
      const last = page.at(-1);
      if (rows.length > limit && last !== undefined) lead(request, reply, last.id);
      return ok(page);
    },
  };
}
