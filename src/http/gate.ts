// What every request passes before its handler: credentials (401), the rate limit (429), the role (403).
import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Tokens } from '../domain/tokens.ts';
import { ServiceError } from '../errors.ts';
import { admit, type Admission, createIdentify } from './auth.ts';
import type { ApiDeps, Caller } from './context.ts';
import type { Limiter, Standing } from './limits.ts';

export interface Gate {
  /** Lets in callers of a kind. */
  caller(request: FastifyRequest, reply: FastifyReply, admission: Admission): Promise<void>;
  /** Counts a request that has no caller against its address. */
  address(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** RateLimit headers of an answer that no budget was spent for. */
  describe(request: FastifyRequest, reply: FastifyReply): void;
}

export function createGate(deps: ApiDeps, tokens: Tokens, limiter: Limiter): Gate {
  const { requestsPerMinute } = deps;
  const identify = createIdentify(deps, tokens);
  const subjectOf = (caller: Caller) => (caller.role === 'merchant' ? `merchant:${caller.id}` : `subscriber:${caller.wallet}`);
  const limitOf = (caller: Caller) => (caller.role === 'merchant' ? requestsPerMinute[caller.tier] : requestsPerMinute.free);

  const enforce = (reply: FastifyReply, standing: Standing) => {
    show(reply, standing);
    if (standing.allowed) return;
    reply.header('retry-after', standing.resetSeconds);
    throw new ServiceError('RATE_LIMITED', `More than ${standing.limit} requests in a minute: wait ${standing.resetSeconds} s.`);
  };

  return {
    async caller(request, reply, admission) {
      const caller = await identify(request);
      request.caller = caller;
      enforce(reply, await limiter.spend(subjectOf(caller), limitOf(caller)));
      admit(caller, admission);
    },
    async address(request, reply) {
      enforce(reply, await limiter.spend(addressOf(request), requestsPerMinute.free));
    },
    describe(request, reply) {
      show(reply, limiter.peek(addressOf(request), requestsPerMinute.free));
    },
  };
}

function show(reply: FastifyReply, { limit, remaining, resetSeconds }: Standing): void {
  reply.header('ratelimit-limit', limit).header('ratelimit-remaining', remaining).header('ratelimit-reset', resetSeconds);
}

/** One customer's IPv6 network is one address: they have 2^64 to change between. */
function addressOf({ ip }: FastifyRequest): string {
  if (!ipaddr.isValid(ip)) return `address:${ip}`;
  const address = ipaddr.process(ip);
  return address.kind() === 'ipv4'
    ? `address:${address.toString()}`
    : `address:${address.toNormalizedString().split(':', 4).join(':')}::/64`;
}
