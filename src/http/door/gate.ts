// Checks that run before a handler: credentials (401), rate limit (429), role and suspension (403).
//
// Each caller has a budget of requests per minute (docs/contract.md, Limits). Each address also has
// budgets: (1) for all its callers below the Pro tier, (2) for pages and public data, (3) for
// signing in, (4) for refused sign-ins, (5) for offers of checkouts, (6) for invalid credentials,
// (7) for POST and PATCH requests in a day. A spent budget refuses only requests of its own kind.
// When a budget per minute is spent, routes with `answersKnown` still run, and respond with cached
// data. While budget (6) is spent, API keys that this process has not accepted lately are refused
// without a look-up.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Account, findSuspensions, type Suspension } from '../../db/accounts/suspensions.ts';
import { suspended } from '../../domain/accounts/suspended.ts';
import type { Tokens } from '../../domain/accounts/tokens.ts';
import { ServiceError } from '../../errors.ts';
import { addressSubject } from './addresses.ts';
import { admit, type Admission, assertFresh, createIdentify } from './auth.ts';
import { createBatch } from './batch.ts';
import { type ApiDeps, type Caller, callerKey } from './context.ts';
import { type Allowance, createLimiter, DAY_MS, type Limiter } from './limits.ts';

/**
 * All callers below the Pro tier at one address share a rate limit. This is the limit as a multiple
 * of one caller's limit. Without the shared limit, one person could send more requests by creating
 * more wallets.
 */
const CALLERS_PER_ADDRESS = 20;
/**
 * Maximum number of POST and PATCH requests of an address in a day, as a multiple of the Free
 * tier's limit per minute. The daily limit bounds the data that one address can store with many
 * wallets. Requests of Pro callers are not counted.
 */
const DAILY_WRITES_TO_FREE = 200;
/**
 * An address has separate rate limits (1) for pages and public data, (2) for signing in, and (3)
 * for offers. Each of these limits is this multiple of the Free tier's limit. The limits are high,
 * because many buyers may share one address.
 */
const PUBLIC_TO_FREE = 6;

export interface Gate {
  /**
   * Authenticates the request, counts it in the budgets of the caller and the address, and checks
   * the caller's role, the age of its sign-in, and its suspension.
   */
  caller(request: FastifyRequest, reply: FastifyReply, admission: Admission): Promise<void>;
  /**
   * Counts the request in the address's budget for signing in. A POST request also counts in the
   * address's daily budget. Throws RATE_LIMITED if one of these budgets or the address's budget for
   * refused sign-ins is used up.
   */
  signIn(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** If the response has the status 401, counts it in the address's budget for refused sign-ins. */
  signInAnswered(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /**
   * Counts the request in the address's budget for checkout offers. A POST request also counts in
   * the address's daily budget.
   */
  offer(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /**
   * Counts the request in the address's budget for pages and public data. A POST or PATCH request
   * also counts in the address's daily budget.
   */
  publicRead(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Sets the RateLimit headers of a response whose request was not counted in a budget. */
  showBudget(request: FastifyRequest, reply: FastifyReply): void;
}

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
  const spendOrNote = createNoting(limiter);

  const identified = async (request: FastifyRequest, reply: FastifyReply): Promise<Caller> => {
    const subject = `failures of ${addressSubject(request.ip)}`;
    try {
      return await identify(request, () => {
        const window = limiter.peek(subject, free);
        if (window.remaining > 0) return;
        show(reply, window);
        refuse(reply, { ...window, allowed: false });
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
      // The limiter counts the request for the address and for the caller in one SQL statement,
      // because both calls of limiter.spend() are in the same event-loop turn.
      const [ceiling] = await Promise.all([
        pro
          ? undefined
          : limiter.spend(`callers of ${addressSubject(request.ip)}`, free * CALLERS_PER_ADDRESS),
        spendOrNote(request, reply, callerKey(caller), pro ? deps.requestsPerMinute.pro : free),
      ]);
      if (ceiling !== undefined) refuseOrNote(request, reply, ceiling);
      if (!pro) await spendPost(request, reply);
      admit(caller, admission);
      if (request.routeOptions.config.asksFreshSignIn === true) assertFresh(caller, reply);
      await refuseSuspended(request, caller);
    },
    ...createSignInGate(limiter, free, spend, spendPost),
    async offer(request, reply) {
      const subject = `offers of ${addressSubject(request.ip)}`;
      await spendOrNote(request, reply, subject, free * PUBLIC_TO_FREE);
      await spendPost(request, reply);
    },
    async publicRead(request, reply) {
      await spend(reply, publicSubject(request), free * PUBLIC_TO_FREE);
      await spendPost(request, reply);
    },
    showBudget(request, reply) {
      show(reply, limiter.peek(publicSubject(request), free * PUBLIC_TO_FREE));
    },
  };
}

/**
 * Returns a function that counts a request of `subject` and sets the RateLimit headers. When the
 * budget is spent, it sets `refusal` of the request if the route has `answersKnown`, and otherwise
 * throws RATE_LIMITED.
 */
function createNoting(limiter: Limiter) {
  return async (request: FastifyRequest, reply: FastifyReply, subject: string, limit: number) => {
    const allowance = await limiter.spend(subject, limit);
    show(reply, allowance);
    refuseOrNote(request, reply, allowance);
  };
}

/** Returns the checks of sign-ins. Refused sign-ins also count in a smaller budget. */
function createSignInGate(
  limiter: Limiter,
  free: number,
  spend: (reply: FastifyReply, subject: string, limit: number) => Promise<void>,
  spendPost: (request: FastifyRequest, reply: FastifyReply) => Promise<void>,
): Pick<Gate, 'signIn' | 'signInAnswered'> {
  return {
    async signIn(request, reply) {
      const refusals = limiter.peek(refusedSignIns(request), free);
      if (refusals.remaining === 0) {
        show(reply, refusals);
        refuse(reply, { ...refusals, allowed: false });
      }
      await spend(reply, `sign-ins of ${addressSubject(request.ip)}`, free * PUBLIC_TO_FREE);
      await spendPost(request, reply);
    },
    async signInAnswered(request, reply) {
      if (reply.statusCode === 401) await limiter.spend(refusedSignIns(request), free);
    },
  };
}

/**
 * Returns a function that counts a POST or PATCH request in the daily budget of its address. Throws
 * RATE_LIMITED when the budget is used up.
 */
function createPostBudget({ sql, requestsPerMinute: { free } }: ApiDeps) {
  const daily = createLimiter(sql, DAY_MS);
  return async ({ method, ip }: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (method !== 'POST' && method !== 'PATCH') return;
    const allowance = await daily.spend(
      `posts of ${addressSubject(ip)}`,
      free * DAILY_WRITES_TO_FREE,
    );
    refuse(reply, allowance, 'POST and PATCH requests of this address in a day');
  };
}

/**
 * Returns a function that throws FORBIDDEN when a suspended caller makes a request. Requests that
 * only read and routes with openToSuspended are allowed.
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

function refusedSignIns({ ip }: FastifyRequest): string {
  return `refused sign-ins of ${addressSubject(ip)}`;
}

/** Returns the error of a spent budget, and sets Retry-After; undefined while a budget is left. */
function refusalOf(
  reply: FastifyReply,
  { allowed, limit, resetSeconds }: Allowance,
  what = 'requests in a minute',
): ServiceError | undefined {
  if (allowed) return undefined;
  reply.header('retry-after', resetSeconds);
  return new ServiceError('RATE_LIMITED', `More than ${limit} ${what}: wait ${resetSeconds} s.`);
}

function refuse(...of: Parameters<typeof refusalOf>): void {
  const refusal = refusalOf(...of);
  if (refusal !== undefined) throw refusal;
}

/** Like refuse(), but sets `refusal` of the request if the route has `answersKnown`. */
function refuseOrNote(request: FastifyRequest, reply: FastifyReply, allowance: Allowance): void {
  const refusal = refusalOf(reply, allowance);
  if (refusal === undefined) return;
  if (request.routeOptions.config.answersKnown !== true) throw refusal;
  request.refusal = refusal;
}

function show(reply: FastifyReply, { limit, remaining, resetSeconds }: Allowance): void {
  reply
    .header('ratelimit-limit', limit)
    .header('ratelimit-remaining', remaining)
    .header('ratelimit-reset', resetSeconds);
}
