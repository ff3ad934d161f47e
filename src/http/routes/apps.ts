import { Type } from '@sinclair/typebox';
import {
  type AppFields,
  type AppRow,
  insertApp,
  listApps,
  updateApp,
} from '../../db/accounts/apps.ts';
import { checkQuota } from '../../domain/accounts/quotas.ts';
import { invalidField } from '../../errors.ts';
import { absent, type Api, type ApiDeps, merchantOf, ownApp } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, Name, NameInput, nullable, oneOf, Time, PathId } from '../shapes/fields.ts';
import { logoUrlOf } from '../shapes/logo-url.ts';

const description = Type.String({
  format: 'text',
  description: 'Shown to subscribers.',
  examples: ['Beans every month'],
});
const websiteUrl = Type.String({
  format: 'http-url',
  description: 'Shown to subscribers: as a link once it is proven, else as a claim.',
  examples: ['https://coffee.example'],
});
const supportEmail = Type.String({
  format: 'email',
  description: 'Address for support.',
  examples: ['help@coffee.example'],
});
const linkUrl = (description: string) =>
  Type.String({ format: 'http-url', description, examples: ['https://coffee.example/terms'] });
const returnOrigins = Type.Array(Type.String({ format: 'origin' }), {
  maxItems: 10,
  uniqueItems: true,
  description: 'Origins that a checkout session may redirect to; in production they are https.',
  examples: [['https://coffee.example']],
});
const registerUnclaimed = Type.Boolean({
  title: 'RegisterUnclaimed',
  description:
    'Whether a subscription to a plan of the app is registered when the keeper sees it on chain and the service did not offer it. Default: false; it is then listed as unregistered.',
});
const onePerCustomer = Type.Boolean({
  title: 'OnePerCustomer',
  description:
    'Whether a customer (externalId) may have one live subscription to plans of the app only. Default: true. A second one is CONFLICT when its checkout session or its transaction is requested, unless the session has allowSecond.',
});
const ownIdsBySubscriber = Type.Boolean({
  title: 'OwnIdsBySubscriber',
  description:
    'Whether a wallet may set externalId and metadata in its registration, where nobody has verified them. Default: false.',
});
const planChanges = Type.Boolean({
  title: 'PlanChanges',
  description:
    'Whether subscribers may change to other active plans of the app by themselves. Default: true. Otherwise a plan is changed in a checkout session with "replaces" only.',
});
const sponsorship = oneOf(
  ['on', 'off'],
  'Whether subscribers of the app may use sponsored transactions, which need no SOL, where the operator offers them. Default: on. Cancelling and closing stay sponsored.',
);
/** The fields of an app that subscribers see beside the app's name. Each field can be null. */
const publicFields = {
  description: nullable(description),
  websiteUrl: nullable(websiteUrl),
  supportEmail: nullable(supportEmail),
  supportUrl: nullable(linkUrl('Page for support.')),
  termsUrl: nullable(linkUrl('Terms.')),
  privacyUrl: nullable(linkUrl('Privacy notice.')),
};
export const App = Type.Object(
  {
    id: Id,
    name: Name,
    ...publicFields,
    websiteProvenAt: nullable({ ...Time, description: 'When the website named the app.' }),
    logoUrl: nullable(Type.String({ description: 'Where the logo is served.' })),
    returnOrigins,
    registerUnclaimed,
    onePerCustomer,
    ownIdsBySubscriber,
    planChanges,
    sponsorship,
    createdAt: Time,
    updatedAt: Time,
  },
  { title: 'App' },
);
const optional = {
  ...Type.Partial(Type.Object(publicFields)).properties,
  returnOrigins: Type.Optional(returnOrigins),
  registerUnclaimed: Type.Optional(registerUnclaimed),
  onePerCustomer: Type.Optional(onePerCustomer),
  ownIdsBySubscriber: Type.Optional(ownIdsBySubscriber),
  planChanges: Type.Optional(planChanges),
  sponsorship: Type.Optional(sponsorship),
};
const params = Type.Object({ appId: PathId });
const tags = ['apps'];

export function appView({ publicUrl }: ApiDeps, app: AppRow) {
  return { ...app, logoUrl: logoUrlOf(publicUrl, app.id, app.logoVersion) };
}

/**
 * In production, throws VALIDATION_ERROR if a return origin or a link of the app does not use
 * https. After a checkout, a return origin receives the session's id, which is a secret. The pages
 * of plans show the links to subscribers.
 */
function refuseInsecure({ environment }: ApiDeps, fields: AppFields): void {
  if (environment !== 'production') return;
  const { returnOrigins = [], supportUrl, termsUrl, privacyUrl } = fields;
  const at = returnOrigins.findIndex((origin) => !origin.startsWith('https:'));
  if (at >= 0)
    throw invalidField(`returnOrigins.${at}`, 'must be an https:// origin in production');
  for (const [field, url] of Object.entries({ supportUrl, termsUrl, privacyUrl }))
    if (typeof url === 'string' && !url.toLowerCase().startsWith('https:'))
      throw invalidField(field, 'must be an https:// URL in production');
}

export function appRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  readRoutes(api, deps, pages);
  writeRoutes(api, deps);
}

function readRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  api.get(
    '/apps',
    {
      schema: {
        summary: 'List the apps',
        tags,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(App)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) =>
      pages.send(
        request,
        reply,
        (await listApps(deps.sql, merchantOf(request).id, pages.read(request))).map((app) =>
          appView(deps, app),
        ),
      ),
  );

  api.get(
    '/apps/:appId',
    {
      schema: {
        summary: 'Read an app',
        tags,
        params,
        response: { 200: success(App), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(appView(deps, await ownApp(deps, request, request.params.appId))),
  );
}

function writeRoutes(api: Api, deps: ApiDeps): void {
  api.post(
    '/apps',
    {
      schema: {
        summary: 'Create an app',
        description: 'A merchant has at most 100 apps.',
        tags,
        headers: idempotencyHeaders,
        body: Type.Object({ name: NameInput, ...optional }, { additionalProperties: false }),
        response: { 201: success(App), ...failures(400, 401, 403, 409) },
      },
    },
    async (request, reply) => {
      refuseInsecure(deps, request.body);
      const { id } = merchantOf(request);
      return respondOnce(deps, request, reply, 201, async () => async (tx) => {
        await checkQuota(tx, id, 'apps');
        return appView(deps, await insertApp(tx, id, request.body));
      });
    },
  );

  api.patch(
    '/apps/:appId',
    {
      schema: {
        summary: 'Change an app',
        description:
          'Omitted fields keep their values; null clears one. Another websiteUrl is yet to be proven.',
        tags,
        params,
        body: Type.Object(
          { name: Type.Optional(NameInput), ...optional },
          { additionalProperties: false },
        ),
        response: { 200: success(App), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      refuseInsecure(deps, request.body);
      const { id } = await ownApp(deps, request, request.params.appId);
      const app = await updateApp(deps.sql, id, request.body);
      if (app === undefined) throw absent('app');
      return ok(appView(deps, app));
    },
  );
}
