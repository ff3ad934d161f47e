// What every request passes before its handler: credentials (401), the rate limit (429), the role (403).
//
// A route whose own statement verifies the credential (`config.verifies`) may go on at once when the caller is one we know and its lease has a
// request left: then the caller is only assumed until that statement has spoken, and one round trip does for all (measured.md).
import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { KeyHolder } from '../db/api-keys.ts';
import type { Tokens } from '../domain/tokens.ts';
import { ServiceError } from '../errors.ts';
import { admit, type Admission, callerOf, credentialOf, noteUse, unknownKey } from './auth.ts';
import type { ApiDeps, Caller, Credential, MerchantCaller } from './context.ts';
import type { Limiter, Standing } from './limits.ts';

const mostKnown = 50_000;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route's statement verifies the credential itself. */
    verifies?: boolean;
  }
}

export interface Gate {
  /** Lets in callers of a kind. */
  caller(request: FastifyRequest, reply: FastifyReply, admission: Admission): Promise<void>;
  /** Counts a request that has no caller against its address. */
  address(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Looks up a caller that is only assumed, before a refusal for another reason. Throws UNAUTHORIZED. */
  confirm(request: FastifyRequest): Promise<void>;
  /** What the route's own statement found of an assumed caller; undefined: nobody. Throws UNAUTHORIZED then. */
  confirmed<H extends VerifiedHolder>(request: FastifyRequest, holder: H | undefined): H;
  /** RateLimit headers of an answer that no budget was spent for. */
  describe(request: FastifyRequest, reply: FastifyReply): void;
}

export interface VerifiedHolder extends Pick<KeyHolder, 'id' | 'tier' | 'unmarked'> {
  keyId: string | null;
}

export function createGate(deps: ApiDeps, tokens: Tokens, limiter: Limiter): Gate {
  const { requestsPerMinute } = deps;
  const known = new Map<string, MerchantCaller>();

  const nameOf = (credential: Credential) => (credential.via === 'key' ? credential.hash.toString('base64') : credential.wallet);
  const remember = (credential: Credential, caller: MerchantCaller) => {
    if (known.size >= mostKnown) known.clear();
    known.set(nameOf(credential), caller);
  };
  const subjectOf = (caller: Caller) => (caller.role === 'merchant' ? `merchant:${caller.id}` : `subscriber:${caller.wallet}`);
  const limitOf = (caller: Caller) => (caller.role === 'merchant' ? requestsPerMinute[caller.tier] : requestsPerMinute.free);

  const enforce = (reply: FastifyReply, standing: Standing) => {
    show(reply, standing);
    if (standing.allowed) return;
    reply.header('retry-after', standing.resetSeconds);
    throw new ServiceError('RATE_LIMITED', `More than ${standing.limit} requests in a minute: wait ${standing.resetSeconds} s.`);
  };

  /** Goes on with a caller that we know, on a lease that has something left; false when Postgres must be asked. */
  const assume = (request: FastifyRequest, reply: FastifyReply, credential: Credential): boolean => {
    const caller = known.get(nameOf(credential));
    if (caller === undefined || (credential.via === 'token' && credential.role !== 'merchant')) return false;
    const standing = limiter.trySpend(subjectOf(caller), limitOf(caller));
    if (standing?.allowed !== true) return false;
    show(reply, standing);
    request.caller = caller;
    request.assumed = true;
    return true;
  };

  return {
    async caller(request, reply, admission) {
      const credential = await credentialOf(deps, tokens, request);
      request.credential = credential;
      if (request.routeOptions.config.verifies === true && assume(request, reply, credential)) return;
      const caller = await callerOf(deps, credential, request);
      request.caller = caller;
      if (caller.role === 'merchant') remember(credential, caller);
      enforce(reply, await limiter.spend(subjectOf(caller), limitOf(caller)));
      admit(caller, admission);
    },
    async address(request, reply) {
      enforce(reply, await limiter.spend(addressOf(request), requestsPerMinute.free));
    },
    async confirm(request) {
      if (!request.assumed || request.credential === null) return;
      request.caller = await callerOf(deps, request.credential, request);
      request.assumed = false;
    },
    confirmed(request, holder) {
      const { credential, caller, assumed } = request;
      if (credential === null || caller?.role !== 'merchant') throw new Error('a merchant route without a merchant');
      if (holder === undefined) {
        known.delete(nameOf(credential));
        if (assumed) limiter.refund(subjectOf(caller));
        throw unknownKey();
      }
      noteUse(deps, holder, request);
      if (holder.tier !== caller.tier) remember(credential, { ...caller, tier: holder.tier });
      return holder;
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
