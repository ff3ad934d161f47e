// A customer is one person whatever spaces stand around its id, in bodies and queries.
import type { FastifyRequest } from 'fastify';

/** Trims externalId in the request's body and query, before they are validated. */
export function trimExternalId({ body, query }: Pick<FastifyRequest, 'body' | 'query'>): void {
  for (const fields of [body, query])
    if (isNamed(fields) && typeof fields.externalId === 'string')
      fields.externalId = fields.externalId.trim();
}

const isNamed = (fields: unknown): fields is { externalId?: unknown } =>
  typeof fields === 'object' && fields !== null;
