// Limits the number of waiting requests, so that most connections stay free for other requests.
import { finished } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';
import type { Connections } from './connections.ts';

/**
 * If the route lets the request wait, counts the request until its response closes. Returns
 * RATE_LIMITED if too many requests of the process or of the address already wait.
 */
export function takePlace(
  { raw, query, routeOptions }: FastifyRequest,
  reply: FastifyReply,
  connections: Connections,
): ServiceError | undefined {
  const { waits } = routeOptions.config;
  const { wait = 0 } = query as { wait?: number };
  if (waits === undefined || (waits === 'asked' && wait === 0)) return undefined;
  const release = connections.wait(raw.socket);
  if (release === undefined) {
    reply.header('retry-after', 1);
    return new ServiceError(
      'RATE_LIMITED',
      'Too many requests of this address or server wait: try again in a moment.',
    );
  }
  // finished() calls `release` even if the client has disconnected before this call.
  finished(reply.raw, release);
  return undefined;
}
