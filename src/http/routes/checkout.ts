import { Type } from '@sinclair/typebox';
import { findApp } from '../../db/accounts/apps.ts';
import {
  type CheckoutSessionRow,
  findCheckoutSession,
  insertCheckoutSession,
  listCheckoutSessions,
} from '../../db/subscriptions/checkout-sessions.ts';
import { findPlan, findPublicPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { findPlanName, findSubscription } from '../../db/subscriptions/subscriptions.ts';
import { checkQuota } from '../../domain/accounts/quotas.ts';
import { checkChange } from '../../domain/change/change.ts';
import { observePlan } from '../../domain/plans/plans.ts';
import { checkReturnUrl, isReturnUrl, returnUrlOf } from '../../domain/registration/checkout.ts';
import { trialOf } from '../../domain/registration/first-payment.ts';
import { refuseSecond } from '../../domain/registration/one-per-customer.ts';
import { invalidField } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { changeWhen } from '../shapes/change-schemas.ts';
import { Discount, DiscountInput, discountTermsOf, discountView } from '../shapes/discount.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  ExternalId,
  Id,
  Metadata,
  MetadataInput,
  nullable,
  oneOf,
  PathId,
  refuseLongMetadata,
  Time,
  Wallet,
} from '../shapes/fields.ts';
import { TrialHours } from '../shapes/plan-schemas.ts';
import { PublicPlan, publicPlanView, WITHHELD } from './public-plan.ts';

const returnUrl = Type.String({
  format: 'http-url',
  description: 'URL of one of the app’s returnOrigins. session_id is added as a query parameter.',
  examples: ['https://coffee.example/welcome'],
});
const allowSecond = Type.Boolean({
  description:
    'Whether the customer (externalId) may have another live subscription of the app. Default: false.',
});
const replaces = {
  ...Id,
  description:
    'A live subscription of the app: the session changes its plan. Only its wallet can use the session.',
};
const trialHours = {
  ...TrialHours,
  description:
    'Free hours in place of those of the plan, once per wallet and app, and per externalId. null: those of the plan.',
};
const status = oneOf(['open', 'complete', 'expired'], 'A session is open for 24 hours.');
const CheckoutSession = Type.Object(
  {
    id: Id,
    appId: Id,
    planId: Id,
    url: Type.String({ description: 'The checkout page: redirect the customer to it.' }),
    status,
    externalId: nullable(ExternalId),
    metadata: Metadata,
    discount: nullable(Discount),
    trialHours: nullable(trialHours),
    allowSecond,
    replaces: nullable(replaces),
    changeWhen: nullable(changeWhen),
    successUrl: nullable(returnUrl),
    cancelUrl: nullable(returnUrl),
    subscriberWallet: nullable({
      ...Wallet,
      description:
        'The only wallet that can subscribe in it: as you gave it, or the one that began.',
    }),
    subscriptionId: nullable({ ...Id, description: 'The subscription created in the session.' }),
    createdAt: Time,
    expiresAt: Time,
  },
  { title: 'CheckoutSession' },
);
const PublicCheckoutSession = Type.Object(
  {
    id: Id,
    status,
    expiresAt: Time,
    successUrl: nullable(
      Type.String({ description: 'Where the page redirects after the subscription.' }),
    ),
    cancelUrl: nullable(
      Type.String({ description: 'Where the page redirects when the customer gives up.' }),
    ),
    plan: PublicPlan,
    discount: nullable(Discount),
    change: nullable(
      Type.Object(
        { planName: Type.String({ description: 'The plan that is left.' }), when: changeWhen },
        { description: 'The change of plan that the session makes; null without one.' },
      ),
    ),
  },
  { title: 'PublicCheckoutSession' },
);
const SessionInput = Type.Object(
  {
    planId: Id,
    externalId: Type.Optional(ExternalId),
    metadata: Type.Optional(MetadataInput),
    discount: Type.Optional(DiscountInput),
    trialHours: Type.Optional(nullable(trialHours)),
    allowSecond: Type.Optional(allowSecond),
    replaces: Type.Optional(replaces),
    changeWhen: Type.Optional({
      ...changeWhen,
      description: `With replaces. Default: now. ${changeWhen.description}`,
    }),
    subscriberWallet: Type.Optional({
      ...Wallet,
      description: 'The only wallet that can subscribe in the session.',
    }),
    successUrl: Type.Optional(returnUrl),
    cancelUrl: Type.Optional(returnUrl),
  },
  { additionalProperties: false },
);
const tags = ['checkout'];

export function checkoutRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  createRoute(api, deps);
  readRoutes(api, deps, pages);
}

function viewOf({ publicUrl }: ApiDeps, { metadata, forWallet, ...row }: CheckoutSessionRow) {
  return {
    ...row,
    subscriberWallet: row.subscriberWallet ?? forWallet,
    discount: discountView(row),
    metadata: JSON.parse(metadata) as Record<string, string>,
    url: `${publicUrl}/checkout/${row.id}`,
  };
}

function createRoute(api: Api, deps: ApiDeps): void {
  api.post(
    '/apps/:appId/checkout-sessions',
    {
      schema: {
        summary: 'Create a checkout session',
        description:
          'Redirect the customer to its url. One wallet can subscribe in it, once, within 24 hours; the subscription gets the externalId, metadata, discount and trial. A merchant has at most 10,000 open sessions; ended ones are deleted after 30 days.',
        tags,
        params: Type.Object({ appId: PathId }),
        headers: idempotencyHeaders,
        body: SessionInput,
        response: { 201: success(CheckoutSession), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const { planId, externalId = null, metadata = {} } = request.body;
      const { subscriberWallet: forWallet = null, allowSecond = false } = request.body;
      const { successUrl = null, cancelUrl = null, discount = null } = request.body;
      const { replaces: old = null, trialHours: trial = null } = request.body;
      const changeAt = request.body.changeWhen ?? (old === null ? null : 'now');
      if (old === null && changeAt !== null) throw invalidField('changeWhen', 'needs replaces');
      if (old !== null && trial !== null)
        throw invalidField('trialHours', 'does not go with replaces: a change has no trial');
      refuseLongMetadata(metadata);
      const app = await ownApp(deps, request, request.params.appId);
      checkReturnUrl('successUrl', successUrl, app.returnOrigins);
      checkReturnUrl('cancelUrl', cancelUrl, app.returnOrigins);
      return respondOnce(deps, request, reply, 201, async () => {
        const plan = await checkPlan(deps, app.id, planId);
        const wallet =
          old === null ? forWallet : await replacedWallet(deps, plan, { old, forWallet });
        const terms = discountTermsOf(discount, plan.amount, deps.planMinimumAmount);
        const session = {
          ...terms,
          appId: app.id,
          planId,
          externalId,
          metadata,
          forWallet: wallet,
          trialHours: trial,
          allowSecond,
          replaces: old,
          changeWhen: changeAt,
          successUrl,
          cancelUrl,
        };
        return async (tx) => {
          await checkQuota(tx, app.merchantId, 'openSessions');
          await refuseSecond(tx, session);
          return viewOf(deps, await insertCheckoutSession(tx, session));
        };
      });
    },
  );
}

function readRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/checkout-sessions',
    {
      schema: {
        summary: 'List the checkout sessions of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: {
          200: success(Type.Array(CheckoutSession)),
          ...failures(400, 401, 403, 404),
        },
      },
    },
    async (request, reply) => {
      const { id } = await ownApp(deps, request, request.params.appId);
      const rows = await listCheckoutSessions(sql, id, pages.read(request));
      return pages.send(
        request,
        reply,
        rows.map((row) => viewOf(deps, row)),
      );
    },
  );

  api.get(
    '/apps/:appId/checkout-sessions/:checkoutSessionId',
    {
      schema: {
        summary: 'Read a checkout session',
        description: 'Read it when the customer comes back, because the return URL proves nothing.',
        tags,
        params: Type.Object({ appId: PathId, checkoutSessionId: PathId }),
        response: { 200: success(CheckoutSession), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      const id = idOf(request.params.checkoutSessionId, 'checkout session');
      const session = await findCheckoutSession(sql, id);
      if (session?.appId !== appId) throw absent('checkout session');
      return ok(viewOf(deps, session));
    },
  );
}

/**
 * Returns the wallet of the subscription that a session replaces. Throws VALIDATION_ERROR when (1)
 * the app has no such subscription, (2) the subscription already has this plan, or (3) `forWallet`
 * is another wallet. Throws CONFLICT when the subscription has ended.
 */
async function replacedWallet(
  { sql }: ApiDeps,
  plan: PlanRow,
  { old, forWallet }: { old: string; forWallet: string | null },
): Promise<string> {
  const found = await findSubscription(sql, old);
  if (found?.appId !== plan.appId) throw invalidField('replaces', 'is no subscription of this app');
  const oldPlan = await findPlan(sql, found.planId);
  if (oldPlan === undefined) throw absent('plan');
  checkChange({ old: found, oldPlan, plan, when: 'now', isOfMerchant: true });
  const { subscriberWallet } = found;
  if (forWallet !== null && forWallet !== subscriberWallet)
    throw invalidField('subscriberWallet', 'is not the wallet of the subscription in replaces');
  return subscriberWallet;
}

/**
 * Returns the plan. Throws VALIDATION_ERROR when the plan belongs to another app or does not accept
 * subscriptions.
 */
async function checkPlan(
  { sql, chain, network }: ApiDeps,
  appId: string,
  planId: string,
): Promise<PlanRow> {
  const found = await findPlan(sql, planId);
  if (found?.appId !== appId) throw invalidField('planId', 'is no plan of this app');
  // A new plan may be published on chain while its stored status is still pending, so the status is
  // read again from the chain.
  const { status: now } = await observePlan(sql, chain, network, found);
  if (now !== 'active')
    throw invalidField(
      'planId',
      `is a plan that is ${now}: only an active one takes subscriptions`,
    );
  return found;
}

/**
 * Registers the route that reads the public view of a checkout session, rate limited per address.
 * The session's id is a secret, and anyone who has the id may read the session.
 */
export function publicCheckoutRoutes(api: Api, deps: ApiDeps): void {
  const { sql } = deps;
  api.get(
    '/checkout-sessions/:checkoutSessionId',
    {
      schema: {
        summary: 'Read the content of a checkout page',
        tags,
        params: Type.Object({ checkoutSessionId: PathId }),
        response: { 200: success(PublicCheckoutSession), ...failures(404) },
      },
    },
    async (request) => {
      const id = idOf(request.params.checkoutSessionId, 'checkout session');
      const session = await findCheckoutSession(sql, id);
      if (session === undefined) throw absent('checkout session');
      const [plan, app] = await Promise.all([
        findPublicPlan(sql, session.planId),
        findApp(sql, session.appId),
      ]);
      if (plan === undefined || app === undefined) throw absent('checkout session');
      // The app's returnOrigins may have changed since the session was created, so the session's
      // return URLs are checked again. A suspended merchant's page leads nowhere.
      const back = (url: string | null) =>
        url !== null && plan.available && isReturnUrl(url, app.returnOrigins)
          ? returnUrlOf(url, id)
          : null;
      const { status: now, expiresAt, successUrl, cancelUrl } = session;
      const urls = { successUrl: back(successUrl), cancelUrl: back(cancelUrl) };
      const { replaces: old, changeWhen: when } = session;
      const trialHours = await trialOf(sql, plan, session.forWallet, session);
      const planName = old === null ? undefined : await findPlanName(sql, old);
      return ok({
        id,
        status: now,
        expiresAt,
        ...urls,
        plan: publicPlanView(deps, plan, { trialHours, session }),
        discount: discountView(session),
        change:
          planName === undefined || when === null
            ? null
            : { planName: plan.available ? planName : WITHHELD, when },
      });
    },
  );
}
