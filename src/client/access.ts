// Reads whether a customer has access, for each request to a merchant's server. Responses are
// cached for as long as the service allows.
import { BillingError } from './error.ts';
import type { Client, Data } from './routes.ts';

export type Access = Data<'/merchant/apps/{appId}/access', 'get'> & {
  /**
   * The service cannot be reached: this is its last response. `hasAccess` is false once its
   * `accessUntil` has passed.
   */
  stale: boolean;
};

/** A customer, by your own id or by wallet; any plan of the app counts unless one is named. */
export type Customer = ({ externalId: string } | { wallet: string }) & { planId?: string };

export interface AccessGuardOptions {
  appId: string;
  /**
   * Seconds after `revalidateAfter` for which the last response is used while the service is
   * unreachable. Default: 3600.
   */
  keepSeconds?: number;
  /** Seconds between two tries while the service is unreachable. Default: 5. */
  retrySeconds?: number;
  /** Maximum number of customers in the cache. Default: 10,000. */
  maxCustomers?: number;
  /** Milliseconds of a monotonic clock. Default: performance.now. */
  clock?: () => number;
}

interface Cached {
  access: Access;
  /** When the response has to be read again. */
  holdsUntil: number;
  /** When the granted access ends; Infinity when no time is known. */
  endsAt: number;
  /** The next request is sent from then on. */
  askAt: number;
}

/**
 * A function to call for each request. It rejects as the client does when the service refuses, and
 * when it is unreachable and the customer's last response is missing or expired more than
 * `keepSeconds` ago.
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
      // All times are of the service's clock, because this machine's may be wrong.
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

/** No response, or one that asks for a retry: not a refusal. */
function isAway(error: unknown): boolean {
  return !(error instanceof BillingError) || error.status >= 500 || error.status === 429;
}
