// For a merchant's server: tells, for each request from a customer, whether this customer has
// access. Each response of the service is cached until the time in its field `revalidateAfter`.
import { BillingError } from './error.ts';
import type { Client, Data } from './routes.ts';

export type Access = Data<'/merchant/apps/{appId}/access', 'get'> & {
  /**
   * True when the service cannot be reached and this response comes from the cache. In such a
   * response `hasAccess` is false as soon as `accessUntil` has passed.
   */
  stale: boolean;
};

/**
 * A customer, named by your own id or by the wallet's address. `planId` limits the check to one
 * plan. Without `planId`, a subscription to any plan of the app gives access.
 */
export type Customer = ({ externalId: string } | { wallet: string }) & { planId?: string };

export interface AccessGuardOptions {
  appId: string;
  /**
   * While the service is unreachable, a cached response is used for this many seconds after its
   * `revalidateAfter`. Default: 3600.
   */
  keepSeconds?: number;
  /**
   * While the service is unreachable, at least this many seconds pass between two requests for a
   * customer whose response is cached. Default: 5.
   */
  retrySeconds?: number;
  /** Maximum number of customers whose responses are cached. Default: 10,000. */
  maxCustomers?: number;
  /** Returns the time of a monotonic clock in milliseconds. Default: performance.now. */
  clock?: () => number;
}

interface Cached {
  access: Access;
  /** Time by `clock` until which the response is fresh. */
  holdsUntil: number;
  /**
   * Time by `clock` at which the granted access ends. Infinity when the service has stated no end.
   */
  endsAt: number;
  /** Time by `clock` before which no further request is sent for this customer. */
  askAt: number;
}

/**
 * Returns a function that a server calls for each request of a customer. If the service refuses,
 * the function rejects with a BillingError. While the service is unreachable, the function resolves
 * with the cached response, at most until `keepSeconds` after the response's `revalidateAfter`. If
 * there is no such response, the function rejects.
 */
export function createAccessGuard(
  client: Client,
  {
    appId,
    keepSeconds = 3600,
    retrySeconds = 5,
    maxCustomers = 10_000,
    clock = () => performance.now(),
  }: AccessGuardOptions,
): (customer: Customer) => Promise<Access> {
  const cached = new Map<string, Cached>();
  const asking = new Map<string, Promise<Access>>();

  const remember = (key: string, entry: Cached) => {
    cached.delete(key);
    cached.set(key, entry);
    const [oldest] = cached.keys();
    if (cached.size > maxCustomers && oldest !== undefined) cached.delete(oldest);
  };

  const isUsable = ({ holdsUntil }: Cached) => clock() <= holdsUntil + keepSeconds * 1000;
  const accessNow = ({ access, endsAt }: Cached): Access =>
    access.stale && clock() >= endsAt ? { ...access, hasAccess: false } : access;

  const ask = async (key: string, customer: Customer): Promise<Access> => {
    try {
      const response = await client.get('/merchant/apps/{appId}/access', {
        path: { appId },
        query: customer,
      });
      const givenAt = clock();
      // The clock of this machine may be wrong. Each duration is therefore the difference of two
      // times in the response, which are both from the service's clock.
      const at = (time: string) => givenAt + Date.parse(time) - Date.parse(response.checkedAt);
      const holdsUntil = at(response.revalidateAfter);
      const endsAt = response.accessUntil === null ? Infinity : at(response.accessUntil);
      const access = { ...response, stale: false };
      remember(key, { access, holdsUntil, endsAt, askAt: holdsUntil });
      return access;
    } catch (error) {
      const last = cached.get(key);
      const now = clock();
      if (!isAway(error) || last === undefined || !isUsable(last)) throw error;
      const access = { ...last.access, stale: true };
      const entry = { ...last, access, askAt: now + retrySeconds * 1000 };
      remember(key, entry);
      return accessNow(entry);
    }
  };

  return (customer) => {
    const key = JSON.stringify(customer);
    const last = cached.get(key);
    if (last !== undefined && clock() < last.askAt && isUsable(last))
      return Promise.resolve(accessNow(last));
    const pending = asking.get(key);
    if (pending !== undefined) return pending;
    const request = ask(key, customer).finally(() => asking.delete(key));
    asking.set(key, request);
    return request;
  };
}

/**
 * Whether an error means that the service is unreachable: the service sent no response, or a
 * response with status 429 or a status of 500 or above.
 */
function isAway(error: unknown): boolean {
  return !(error instanceof BillingError) || error.status >= 500 || error.status === 429;
}
