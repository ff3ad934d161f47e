// Asks whether a customer has access, for each request that a merchant's server answers: answers
// are kept as long as the service says.
import { BillingError } from './error.ts';
import type { Client, Data } from './routes.ts';

export type Access = Data<'/merchant/apps/{appId}/access', 'get'> & {
  /**
   * The service could not be asked: this is its last answer. `hasAccess` is false once its
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
  /** Seconds between two tries while the service is away. 5 unless given. */
  retrySeconds?: number;
  /** Customers whose answers are kept at the most. 10,000 unless given. */
  maxCustomers?: number;
  /** Milliseconds of a clock that never goes back. performance.now unless given. */
  clock?: () => number;
}

interface Kept {
  access: Access;
  /** When the service has to be asked again. */
  holdsUntil: number;
  /** When the access ends that was granted; Infinity where no time is known. */
  endsAt: number;
  /** Asked again from then on. */
  askAt: number;
}

/**
 * A function to call for each request. It rejects as the client does where the service refuses, and
 * where it is away and the customer's last answer is missing or stopped holding more than
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
  const kept = new Map<string, Kept>();
  const asking = new Map<string, Promise<Access>>();

  const remember = (key: string, entry: Kept) => {
    kept.delete(key);
    kept.set(key, entry);
    const [oldest] = kept.keys();
    if (kept.size > maxCustomers && oldest !== undefined) kept.delete(oldest);
  };

  const isKept = ({ holdsUntil }: Kept) => clock() <= holdsUntil + keepSeconds * 1000;
  const accessNow = ({ access, endsAt }: Kept): Access =>
    access.stale && clock() >= endsAt ? { ...access, hasAccess: false } : access;

  const ask = async (key: string, customer: Customer): Promise<Access> => {
    try {
      const answer = await client.get('/merchant/apps/{appId}/access', {
        path: { appId },
        query: customer,
      });
      const givenAt = clock();
      // All times are of the service's clock, so that this machine's need not be right.
      const at = (time: string) => givenAt + Date.parse(time) - Date.parse(answer.checkedAt);
      const holdsUntil = at(answer.revalidateAfter);
      const endsAt = answer.accessUntil === null ? Infinity : at(answer.accessUntil);
      const access = { ...answer, stale: false };
      remember(key, { access, holdsUntil, endsAt, askAt: holdsUntil });
      return access;
    } catch (error) {
      const last = kept.get(key);
      const now = clock();
      if (!isAway(error) || last === undefined || !isKept(last)) throw error;
      const access = { ...last.access, stale: true };
      const entry = { ...last, access, askAt: now + retrySeconds * 1000 };
      remember(key, entry);
      return accessNow(entry);
    }
  };

  return (customer) => {
    const key = JSON.stringify(customer);
    const last = kept.get(key);
    if (last !== undefined && clock() < last.askAt && isKept(last))
      return Promise.resolve(accessNow(last));
    const pending = asking.get(key);
    if (pending !== undefined) return pending;
    const asked = ask(key, customer).finally(() => asking.delete(key));
    asking.set(key, asked);
    return asked;
  };
}

/** No answer, or one that says to come back: not a refusal. */
function isAway(error: unknown): boolean {
  return !(error instanceof BillingError) || error.status >= 500 || error.status === 429;
}
