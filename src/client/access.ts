// Answers, for each request to a merchant's server, whether a customer has access. Responses of the
// service are cached until their `revalidateAfter`.
import { BillingError } from './error.ts';
import type { Client, Data } from './routes.ts';

export type Access = Data<'/merchant/apps/{appId}/access', 'get'> & {
  /**
   * True when the service cannot be reached and this is its last response. `hasAccess` becomes
   * false when `accessUntil` has passed.
   */
  stale: boolean;
};

/**
 * A customer, named by your own id or by wallet. `planId` limits the check to one plan. Without
 * `planId`, a subscription to any plan of the app gives access.
 */
export type Customer = ({ externalId: string } | { wallet: string }) & { planId?: string };

export interface AccessGuardOptions {
  appId: string;
  /**
   * While the service is unreachable, the last response is used for this many seconds after its
   * `revalidateAfter`. Default: 3600.
   */
  keepSeconds?: number;
  /**
   * While the service is unreachable, seconds between two requests for the same customer. Default:
   * 5.
   */
  retrySeconds?: number;
  /** Maximum number of customers in the cache. Default: 10,000. */
  maxCustomers?: number;
  /** Returns milliseconds of a monotonic clock. Default: performance.now. */
  clock?: () => number;
}

interface Cached {
  access: Access;
  /** The response is fresh until this time of `clock`. */
  holdsUntil: number;
  /** The granted access ends at this time of `clock`. Infinity when the service states no end. */
  endsAt: number;
  /** No request is sent before this time of `clock`. */
  askAt: number;
}

/**
 * Returns a function to call for each request of a customer. The function rejects with a
 * BillingError when the service refuses. While the service is unreachable, the function rejects
 * when the cache has no response for the customer, or when `revalidateAfter` of that response
 * passed more than `keepSeconds` ago.
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
      // Durations are computed from times of the service's clock, because this machine's clock may
      // be wrong.
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
    const asked = ask(key, customer).finally(() => asking.delete(key));
    asking.set(key, asked);
    return asked;
  };
}

/**
 * Returns whether the service is unreachable: it gave no response, or a response that asks for a
 * retry.
 */
function isAway(error: unknown): boolean {
  return !(error instanceof BillingError) || error.status >= 500 || error.status === 429;
}
