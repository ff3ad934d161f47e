import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { findApp } from '../../db/accounts/apps.ts';
import { findPlan, listChangeablePlans } from '../../db/subscriptions/plans.ts';
import { refuseSuspended } from '../../domain/accounts/suspended.ts';
import {
  type ChangeRequest,
  readChange,
  readChangeOpening,
  refuseOwnChange,
} from '../../domain/change/change.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { addressSubject } from '../door/addresses.ts';
import { absent, type Api, type ApiDeps, idOf } from '../door/context.ts';
import { changeFields, ChangePreview, changeView, changeWhen } from '../shapes/change-schemas.ts';
import { discountQuery, discountTermsOf } from '../shapes/discount.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, Id, nullable, offerFields, PathId, Pda, Time } from '../shapes/fields.ts';
import {
  offerChange,
  previewChange,
  previewsSponsored,
  shownAsOf,
  sponsored,
  sponsoredFields,
} from '../shapes/sponsored-schemas.ts';
import { ownSubscription } from './subscriber.ts';
import { ownSubscription as merchantsSubscription } from './subscriptions.ts';

const params = Type.Object({ subscriptionId: PathId });
const tags = ['subscriber'];
const security = [{ walletJwt: [] }];
const PlanChoice = Type.Object(
  {
    id: Id,
    name: Type.String({ description: 'The plan’s name.' }),
    amount: Amount,
    periodHours: Type.Integer({ description: 'Length of a period in hours.' }),
    endsAt: nullable(Time),
  },
  { title: 'PlanChoice' },
);

/** Registers the routes with which a wallet changes the plan of its subscription. */
export function changeRoutes(api: Api, deps: ApiDeps): void {
  plansRoute(api, deps);
  previewRoute(api, deps);
  changeRoute(api, deps);
}

type OwnRequest = FastifyRequest<{ Params: { subscriptionId: string } }>;

function plansRoute(api: Api, deps: ApiDeps): void {
  api.get(
    '/subscriptions/:subscriptionId/plans',
    {
      schema: {
        summary: 'List the plans to which your subscription can be changed',
        description:
          'The other active plans of its app; empty where the merchant offers changes by link only (planChanges of the app).',
        tags,
        security,
        params,
        response: { 200: success(Type.Array(PlanChoice)), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const { appId, planId } = await ownSubscription(deps, request);
      const isOffered = (await findApp(deps.sql, appId))?.planChanges === true;
      return ok(isOffered ? await listChangeablePlans(deps.sql, appId, planId) : []);
    },
  );
}

/**
 * Reads the subscription and both plans. Throws CONFLICT when subscribers of the app cannot change
 * the plan themselves.
 */
async function changeOf(
  deps: ApiDeps,
  request: OwnRequest,
  { planId, when }: { planId: string; when: 'now' | 'period_end' },
): Promise<ChangeRequest> {
  const { sql, chain, network } = deps;
  const old = await ownSubscription(deps, request);
  const [oldPlan, found, app] = await Promise.all([
    findPlan(sql, old.planId),
    findPlan(sql, planId),
    findApp(sql, old.appId),
  ]);
  if (oldPlan === undefined || found === undefined) throw absent('plan');
  refuseOwnChange(app);
  const plan = await observePlan(sql, chain, network, found);
  return { old, oldPlan, plan, when };
}

function previewRoute(api: Api, deps: ApiDeps): void {
  api.get(
    '/subscriptions/:subscriptionId/change',
    {
      schema: {
        summary: 'Read what a change of plan would cost',
        tags,
        security,
        params,
        querystring: Type.Object(
          { planId: Id, when: changeWhen, sponsored: Type.Optional(previewsSponsored) },
          { additionalProperties: false },
        ),
        response: { 200: success(ChangePreview), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const { when, sponsored: isSponsored } = request.query;
      const change = await changeOf(deps, request, { ...request.query, when });
      return ok(changeView(when, await previewChange(deps, change, isSponsored)));
    },
  );
}

function changeRoute(api: Api, deps: ApiDeps): void {
  const { sql } = deps;
  api.post(
    '/subscriptions/:subscriptionId/change',
    {
      schema: {
        summary: 'Get the transaction that changes the plan of your subscription',
        description:
          'One transaction cancels the subscription and opens one to the other plan; sign and send it, and register the new subscription as after subscribing. A sponsored one makes the first payment too, and the service registers the subscription. The other plan must be of the same app. A plan that the wallet left in its running period is resumed, and what the chain cannot collect in that period is free. A change has no trial, and your discount stays with the old subscription.',
        tags,
        security,
        params,
        body: Type.Object(
          {
            planId: Id,
            when: changeWhen,
            sponsored: Type.Optional(sponsored),
            asOf: Type.Optional(shownAsOf),
          },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object(
              { ...offerFields, ...sponsoredFields, subscriptionPda: Pda, ...changeFields },
              { title: 'ChangeOffer' },
            ),
          ),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request) => {
      const { when, sponsored: isAsked, asOf: shown } = request.body;
      const change = await changeOf(deps, request, { ...request.body, when });
      const { old, plan } = change;
      await refuseSuspended(sql, { wallet: old.subscriberWallet, planId: plan.id });
      const opening = await readChangeOpening(deps, change);
      const { subscriptionPda } = opening;
      const from = addressSubject(request.ip);
      const { offer, costs } = await offerChange(deps, isAsked, change, { opening, from, shown });
      return ok({ ...offer, subscriptionPda, ...costs });
    },
  );
}

/** Registers the route with which a merchant reads what a change of plan would cost. */
export function merchantChangeRoutes(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.get(
    '/apps/:appId/subscriptions/:subscriptionId/change',
    {
      schema: {
        summary: 'Read what a change of plan would cost',
        description:
          'What a checkout session with replaces would cost the subscriber. The discount of the subscription stays with it: give the one of the session.',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId, subscriptionId: PathId }),
        querystring: Type.Object(
          { planId: Id, when: changeWhen, ...discountQuery },
          { additionalProperties: false },
        ),
        response: { 200: success(ChangePreview), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const { planId, when, ...given } = request.query;
      const old = await merchantsSubscription(deps, request);
      const [oldPlan, found] = await Promise.all([
        findPlan(sql, old.planId),
        findPlan(sql, idOf(planId, 'plan')),
      ]);
      if (oldPlan === undefined || found?.appId !== old.appId) throw absent('plan');
      const plan = await observePlan(sql, chain, network, found);
      const { planMinimumAmount: minimum } = deps;
      const offered = Object.keys(given).length === 0 ? null : given;
      const discount = discountTermsOf(offered, plan.amount, minimum);
      const change = { old, oldPlan, plan, when, discount, isOfMerchant: true };
      return ok(changeView(when, await readChange(deps, change, minimum)));
    },
  );
}
