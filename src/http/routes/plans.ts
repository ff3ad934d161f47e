import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  findPlan,
  listOuterPrices,
  listPlans,
  type PlanRow,
  sunsetPlan,
  updatePlan,
} from '../../db/subscriptions/plans.ts';
import { readAccounts } from '../../domain/chain-reads.ts';
import { offerTransaction } from '../../domain/offers/relay.ts';
import { pullersTransaction } from '../../domain/plans/plan-pullers.ts';
import {
  adoptPlan,
  draftPlan,
  observePlan,
  planTransaction,
  storePlan,
} from '../../domain/plans/plans.ts';
import { priceWarnings } from '../../domain/plans/price-warnings.ts';
import { ServiceError } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, merchantOf, ownApp } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { NameInput, NoBody, Offer, oneOf, PathId } from '../shapes/fields.ts';
import {
  draftOf,
  NewPlan,
  OwnPlan,
  ownTerms,
  ownTermsOf,
  PlanInput,
  planView,
  refuseMixture,
  refuseSmall,
  refuseUnordered,
} from '../shapes/plan-schemas.ts';

const params = Type.Object({ appId: PathId, planId: PathId });
const tags = ['plans'];

export function planRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  listRoute(api, deps, pages);
  createRoute(api, deps);
  readRoute(api, deps);
  changeRoute(api, deps);
  publishRoute(api, deps);
  pullersRoute(api, deps);
}

/**
 * Returns the plan whose id is in the request's path. Throws NOT_FOUND when the plan does not
 * exist, FORBIDDEN when the plan's app belongs to another merchant.
 */
async function ownPlan(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { appId: string; planId: string } }>,
): Promise<PlanRow> {
  const { id: appId } = await ownApp(deps, request, request.params.appId);
  const plan = await findPlan(deps.sql, idOf(request.params.planId, 'plan'));
  if (plan?.appId !== appId) throw absent('plan');
  return plan;
}

function listRoute(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/plans',
    {
      schema: {
        summary: 'List the plans of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnPlan)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const plans = await listPlans(sql, id, page);
      return pages.send(request, reply, await ownPlanViews(sql, id, plans));
    },
  );
}

function createRoute(api: Api, deps: ApiDeps): void {
  const { chain, network, planMinimumAmount: minimum } = deps;
  api.post(
    '/apps/:appId/plans',
    {
      schema: {
        summary: 'Create a plan, or adopt one that is on chain',
        description:
          'With amount and periodHours: returns a pending plan and the unsigned transaction by which your wallet publishes it. ' +
          'With planPda: takes over a plan that your wallet has published; it must name our keeper as a puller and both destinations.',
        tags,
        params: Type.Object({ appId: PathId }),
        headers: idempotencyHeaders,
        body: PlanInput,
        response: { 201: success(NewPlan), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const { body } = request;
      refuseMixture(body);
      refuseUnordered(body);
      if (body.amount !== undefined) refuseSmall('amount', BigInt(body.amount), minimum);
      const { wallet: owner } = merchantOf(request);
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      return respondOnce(deps, request, reply, 201, async () => {
        if (body.planPda !== undefined) {
          const adopted = await adoptPlan(chain, network, {
            appId,
            owner,
            name: body.name,
            planPda: body.planPda,
            ...ownTermsOf(body),
          });
          refuseSmall('planPda', adopted.amount, minimum);
          return async (tx) => ownPlanView(tx, await storePlan(tx, adopted));
        }
        const { now } = await readAccounts(chain, []);
        const draft = draftPlan(network, appId, owner, draftOf(body), now);
        const unsigned = await planTransaction(chain, network, draft);
        return async (tx) => {
          const plan = await storePlan(tx, draft);
          const offer = await offerTransaction(tx, unsigned, {
            wallet: owner,
            purpose: 'publish',
            planId: plan.id,
          });
          return { ...(await ownPlanView(tx, plan)), ...offer };
        };
      });
    },
  );
}

function readRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.get(
    '/apps/:appId/plans/:planId',
    {
      schema: {
        summary: 'Read a plan',
        description: 'A pending plan is first looked up on chain.',
        tags,
        params,
        response: { 200: success(OwnPlan), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const plan = await ownPlan(deps, request);
      try {
        return ok(await ownPlanView(sql, await observePlan(sql, chain, network, plan)));
      } catch (error) {
        // A ServiceError means that the chain did not respond. The stored plan is returned instead.
        if (!(error instanceof ServiceError)) throw error;
        request.log.warn(
          { err: error, cause: error.cause },
          'pending plan not read from the chain',
        );
        return ok(await ownPlanView(sql, plan));
      }
    },
  );
}

function changeRoute(api: Api, deps: ApiDeps): void {
  const { sql } = deps;
  api.patch(
    '/apps/:appId/plans/:planId',
    {
      schema: {
        summary: 'Change or sunset a plan',
        description:
          'Omitted fields keep their values. status "sunset" ends new registrations and is irreversible; existing subscriptions continue.',
        tags,
        params,
        body: Type.Object(
          {
            name: Type.Optional(NameInput),
            status: Type.Optional(oneOf(['sunset'], 'Ends new registrations permanently.')),
            ...ownTerms,
          },
          { additionalProperties: false, examples: [{ name: 'Coffee club 2026' }] },
        ),
        response: { 200: success(OwnPlan), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      refuseUnordered(request.body);
      const plan = await ownPlan(deps, request);
      const { status, ...changes } = request.body;
      let changed: PlanRow | undefined = plan;
      if (status === 'sunset') {
        changed = await sunsetPlan(sql, plan.id);
        if (changed === undefined)
          throw new ServiceError(
            'CONFLICT',
            `The plan is ${plan.status}: only an active one can be sunset.`,
          );
      }
      if (Object.keys(changes).length > 0) changed = await updatePlan(sql, plan.id, changes);
      if (changed === undefined) throw absent('plan');
      return ok(await ownPlanView(sql, changed));
    },
  );
}

function publishRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.post(
    '/apps/:appId/plans/:planId/transaction',
    {
      schema: {
        summary: 'Get a fresh transaction to publish a pending plan',
        description: 'A transaction expires about half a minute after it was built.',
        tags,
        params,
        body: NoBody,
        response: {
          200: success(Offer),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const plan = await observePlan(sql, chain, network, await ownPlan(deps, request));
      if (plan.status !== 'pending')
        throw new ServiceError(
          'CONFLICT',
          `The plan is ${plan.status}: there is nothing to publish.`,
        );
      const unsigned = await planTransaction(chain, network, plan);
      const offer = await offerTransaction(sql, unsigned, {
        wallet: plan.owner,
        purpose: 'publish',
        planId: plan.id,
      });
      return ok(offer);
    },
  );
}

function pullersRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.post(
    '/apps/:appId/plans/:planId/pullers-transaction',
    {
      schema: {
        summary:
          'Get a transaction that sets the keepers of the service as the pullers of a published plan',
        description:
          'For your wallet to sign after the operator rotated a keeper key. Payments continue in the meantime. CONFLICT if the plan already names the keepers, or is sunset and lacks one.',
        tags,
        params,
        body: NoBody,
        response: {
          200: success(Offer),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const plan = await observePlan(sql, chain, network, await ownPlan(deps, request));
      const unsigned = await pullersTransaction(chain, network, plan);
      const offer = await offerTransaction(sql, unsigned, {
        wallet: plan.owner,
        purpose: 'pullers',
        planId: plan.id,
      });
      return ok(offer);
    },
  );
}

/** Returns the fields of the schema `OwnPlan` for plans of one app. */
async function ownPlanViews(sql: Queryable, appId: string, plans: readonly PlanRow[]) {
  const prices = plans.length === 0 ? [] : await listOuterPrices(sql, appId);
  return plans.map((plan) => ({ ...planView(plan), warnings: priceWarnings(plan, prices) }));
}

async function ownPlanView(sql: Queryable, plan: PlanRow) {
  const [view] = await ownPlanViews(sql, plan.appId, [plan]);
  if (view === undefined) throw new Error('a plan has no view');
  return view;
}
