// Checks that run before a handler: credentials (401), rate limit (429), role and suspension (403).
//
// Each caller has a budget per minute (docs/contract.md, Limits). Each address has four more
// budgets: for (1) all its callers below the Pro tier, (2) pages and public data, (3) signing in,
// and (4) invalid credentials. When one budget is used up, requests that count against the other
// budgets are still allowed.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Account, findSuspensions, type Suspension } from '../db/suspensions.ts';
import { suspended } from '../domain/accounts/suspended.ts';
import type { Tokens } from '../domain/accounts/tokens.ts';
import { ServiceError } from '../errors.ts';
import { addressSubject } from './addresses.ts';
import { admit, type Admission, createIdentify } from './auth.ts';
import { createBatch } from './batch.ts';
import { type ApiDeps, type Caller, callerKey } from './context.ts';
import { type Allowance, createLimiter, DAY_MS, type Limiter } from './limits.ts';

/**
 * All callers below the Pro tier at one address share the rate limit of this number of callers.
 * Without this limit anyone could multiply the rate by creating wallets.
 */
const CALLERS_PER_ADDRESS = 20;
/**
 * Maximum number of POST requests of an address per day, as a multiple of the Free tier's rate
 * limit per minute. By default this is 20,000 requests. Callers of the Pro tier are not counted.
 * The limit bounds the amount of data that one address can store, even if the address uses many
 * wallets.
 */
const POST_MINUTES = 200;
/** Rate limit of an address for pages and public data, as a multiple of the Free tier's limit. */
const PUBLIC_READS_TO_FREE = 6;

export interface Gate {
  /**
   * Authenticates the request, counts it in the budgets of the caller and the address, and checks
   * the caller's role and suspension.
   */
  caller(request: FastifyRequest, reply: FastifyReply, admission: Admission): Promise<void>;
  /** Counts the request in the address's budget for signing in. */
  signIn(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Counts the request in the address's budget for pages and public data. */
  publicRead(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Sets the RateLimit headers of a response whose request was not counted in a budget. */
  showBudget(request: FastifyRequest, reply: FastifyReply): void;
}

/** Creates the gate of a server. */
export function createGate(deps: ApiDeps, tokens: Tokens, limiter: Limiter): Gate {
  const { free } = deps.requestsPerMinute;
  const spendPost = createPostBudget(deps);
  const identify = createIdentify(deps, tokens);
  const refuseSuspended = createSuspensionCheck(deps);

  /**
   * Counts a request of `subject` and sets the RateLimit headers. Throws RATE_LIMITED when the
   * budget of `subject` is spent.
   */
  const spend = async (reply: FastifyReply, subject: string, limit: number) => {
    const allowance = await limiter.spend(subject, limit);
    show(reply, allowance);
    refuse(reply, allowance);
  };

  const identified = async (request: FastifyRequest, reply: FastifyReply): Promise<Caller> => {
    const subject = `failures of ${addressSubject(request.ip)}`;
    try {
      return await identify(request, () => {
        const known = limiter.peek(subject, free);
        if (known.remaining > 0) return;
        show(reply, known);
        refuse(reply, { ...known, allowed: false });
      });
    } catch (error) {
      // Failed authentications have their own budget. Guessing credentials therefore does not use
      // up the budgets of other clients at the address.
      if (error instanceof ServiceError && error.code === 'UNAUTHORIZED')
        await spend(reply, subject, free);
      throw error;
    }
  };

  return {
    async caller(request, reply, admission) {
      const caller = await identified(request, reply);
      request.caller = caller;
      const pro = caller.role === 'merchant' && caller.tier === 'pro';
      // The limiter counts both requests in one statement, because they are in the same event-loop
      // turn.
      const [ceiling] = await Promise.all([
        pro
          ? undefined
          : limiter.spend(`callers of ${addressSubject(request.ip)}`, free * CALLERS_PER_ADDRESS),
        spend(reply, callerKey(caller), pro ? deps.requestsPerMinute.pro : free),
      ]);
      if (ceiling !== undefined) refuse(reply, ceiling);
      if (!pro) await spendPost(request, reply);
      admit(caller, admission);
      await refuseSuspended(request, caller);
    },
    async signIn(request, reply) {
      await spend(reply, addressSubject(request.ip), free);
      await spendPost(request, reply);
    },
    publicRead: (request, reply) =>
      spend(reply, publicSubject(request), free * PUBLIC_READS_TO_FREE),
    showBudget(request, reply) {
      show(reply, limiter.peek(publicSubject(request), free * PUBLIC_READS_TO_FREE));
    },
  };
}

/**
 * Returns a function that counts a POST request of an address. The function throws RATE_LIMITED
 * when the address has used up its budget of the day.
 */
function createPostBudget({ sql, requestsPerMinute: { free } }: ApiDeps) {
  const daily = createLimiter(sql, DAY_MS);
  return async ({ method, ip }: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (method !== 'POST') return;
    const allowance = await daily.spend(`posts of ${addressSubject(ip)}`, free * POST_MINUTES);
    refuse(reply, allowance, 'POST requests of this address in a day');
  };
}

/**
 * Returns a function that throws FORBIDDEN when the caller is suspended and the route changes
 * something.
 */
function createSuspensionCheck({ sql }: ApiDeps) {
  const find = createBatch<Account, Suspension>(
    (accounts) => findSuspensions(sql, accounts),
    ({ role, wallet }) => `${role} ${wallet}`,
  );
  return async ({ method, routeOptions }: FastifyRequest, caller: Caller): Promise<void> => {
    const isRead = method === 'GET' || method === 'HEAD';
    if (isRead || routeOptions.config.openToSuspended === true) return;
    const { role, wallet } = caller;
    const suspension = await find({ role, wallet });
    if (suspension !== undefined) throw suspended(suspension);
  };
}

function publicSubject({ ip }: FastifyRequest): string {
  return `public reads of ${addressSubject(ip)}`;
}

function refuse(
  reply: FastifyReply,
  { allowed, limit, resetSeconds }: Allowance,
  what = 'requests in a minute',
): void {
  if (allowed) return;
  reply.header('retry-after', resetSeconds);
  throw new ServiceError('RATE_LIMITED', `More than ${limit} ${what}: wait ${resetSeconds} s.`);
}

function show(reply: FastifyReply, { limit, remaining, resetSeconds }: Allowance): void {
  reply
    .header('ratelimit-limit', limit)
    .header('ratelimit-remaining', remaining)
    .header('ratelimit-reset', resetSeconds);
}
