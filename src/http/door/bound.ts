// The apps that a subscriber's token can reach. A token that a page of CORS_ORIGINS got is bound to
// the apps whose returnOrigins contain the page's origin. One installation serves the shops of many
// merchants, and a shop must not read or change its buyer's subscriptions elsewhere.
import type { FastifyRequest } from 'fastify';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import { type ApiDeps, findAppIn, subscriberOf } from './context.ts';

/**
 * Throws FORBIDDEN if the caller's token is not valid for this app. For an app that does not exist,
 * returns without an error, because the caller's own look-up then fails.
 */
export async function assertReaches(
  { sql }: Pick<ApiDeps, 'sql'>,
  request: FastifyRequest,
  appId: string,
): Promise<void> {
  const { boundTo } = subscriberOf(request);
  if (boundTo === null) return;
  const app = await findAppIn(sql)({ id: appId.toLowerCase() });
  if (app === undefined || app.returnOrigins.includes(boundTo)) return;
  throw new ServiceError(
    'FORBIDDEN',
    `A token that a page of ${boundTo} got reaches only apps that have this origin in their returnOrigins. The merchant adds it to the app, or the wallet signs in on the service’s own page.`,
  );
}

/**
 * Throws FORBIDDEN if the caller's token is not valid for the plan's app. `planId` is null for the
 * revocation of an approval.
 */
export async function assertReachesPlan(
  deps: Pick<ApiDeps, 'sql'>,
  request: FastifyRequest,
  planId: string | null,
): Promise<void> {
  if (planId === null) {
    assertReachesAll(request);
    return;
  }
  if (subscriberOf(request).boundTo === null) return;
  const plan = await findPlan(deps.sql, planId);
  if (plan !== undefined) await assertReaches(deps, request, plan.appId);
}

/** Throws FORBIDDEN if the caller's token is bound to certain apps. */
export function assertReachesAll(request: FastifyRequest): void {
  const { boundTo } = subscriberOf(request);
  if (boundTo === null) return;
  throw new ServiceError(
    'FORBIDDEN',
    `A token that a page of ${boundTo} got reaches only apps that have this origin in their returnOrigins, and the approval is shared by all apps. Revoke it on the service’s own page.`,
  );
}
