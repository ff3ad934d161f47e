// Limits the number of deliveries that merchants queue again in a day. One request can queue a
// delivery for each event of the app, so a limit for requests does not bound the number of stored
// rows.
import { type Grant, spendBudgets } from '../../db/accounts/rate-budgets.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';

const DAY_MS = 86_400_000;
/**
 * Maximum number of deliveries that are queued again in a day. Each app has a budget of this size.
 * Each network address has such a budget too, shared by all its callers below the Pro tier. Runs of
 * the operator (`billing replay`) are not counted.
 */
const MAX_REPLAYED = 50_000;

/** A replay is counted in the budget of this app and in the budget of this network address. */
export interface Requester {
  appId: string;
  /**
   * Identifies the budget of the network address. Null for Pro callers, who are only counted per
   * app.
   */
  address: string | null;
}

/** Counts `count` deliveries of a replay. Throws CONFLICT when a limit is exceeded. */
export async function countReplay(
  tx: Transaction,
  requester: Requester,
  count: number,
): Promise<void> {
  if (count > MAX_REPLAYED)
    throw new ServiceError(
      'CONFLICT',
      `The replay would queue ${count} deliveries, and one queues at most ${MAX_REPLAYED}. ${advice}`,
    );
  const [short] = await spend(tx, requester, count);
  if (short !== undefined) throw exceeded(short);
}

/**
 * Counts the `count` missed deliveries that an endpoint gets when it is created or enabled. Throws
 * CONFLICT only if nothing was left of a budget. If a budget had fewer than `count` left, the
 * endpoint still gets all deliveries.
 */
export async function countMissed(
  tx: Transaction,
  requester: Requester,
  count: number,
): Promise<void> {
  const spent = (await spend(tx, requester, count)).find(({ granted }) => granted === 0);
  if (spent !== undefined) throw exceeded(spent);
}

const advice =
  'Narrow it with since, until, type or status, or ask the operator, whose "billing replay" has no limit.';

/**
 * Counts `count` deliveries in the budgets of the app and the address. Returns each budget in which
 * fewer than `count` deliveries were left. The budget of the app comes first.
 */
async function spend(
  tx: Transaction,
  { appId, address }: Requester,
  count: number,
): Promise<Grant[]> {
  if (count === 0) return [];
  const subjects = [
    `replays of ${appId}`,
    ...(address === null ? [] : [`replays from ${address}`]),
  ];
  const budgets = await spendBudgets(
    tx,
    subjects.map((subject) => ({ subject, count, limit: MAX_REPLAYED })),
    DAY_MS,
  );
  return subjects
    .flatMap((subject) => budgets.filter((budget) => budget.subject === subject))
    .filter(({ granted }) => granted < count);
}

function exceeded({ subject, remainingMs }: Grant): ServiceError {
  const whose = subject.startsWith('replays of') ? 'for this app' : 'by callers at this address';
  return new ServiceError(
    'CONFLICT',
    `At most ${MAX_REPLAYED} deliveries are queued again ${whose} in a day: wait ${Math.ceil(remainingMs / 1000)} s. ${advice}`,
  );
}
