import { Type } from '@sinclair/typebox';
import { insertApp, listApps, updateApp } from '../../db/apps.ts';
import { absent, type Api, type ApiDeps, merchantOf, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, Name, nullable, Time, PathId } from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { pageQuery, type Pages } from '../pages.ts';

const description = Type.String({ format: 'text', examples: ['Beans every month'] });
const websiteUrl = Type.String({ format: 'http-url', examples: ['https://coffee.example'] });
const App = Type.Object(
  { id: Id, name: Name, description: nullable(description), websiteUrl: nullable(websiteUrl), createdAt: Time, updatedAt: Time },
  { title: 'App' },
);
const optional = { description: Type.Optional(nullable(description)), websiteUrl: Type.Optional(nullable(websiteUrl)) };
const params = Type.Object({ appId: PathId });
const tags = ['apps'];

export function appRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
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
    async (request, reply) => pages.send(request, reply, await listApps(sql, merchantOf(request).id, pages.read(request))),
  );

  api.post(
    '/apps',
    {
      schema: {
        summary: 'Create an app',
        tags,
        headers: idempotencyHeaders,
        body: Type.Object({ name: Name, ...optional }, { additionalProperties: false }),
        response: { 201: success(App), ...failures(400, 401, 403, 409) },
      },
    },
    async (request, reply) =>
      answerOnce(deps, request, reply, 201, async () => (tx) => insertApp(tx, merchantOf(request).id, request.body)),
  );

  api.get(
    '/apps/:appId',
    { schema: { summary: 'Read an app', tags, params, response: { 200: success(App), ...failures(401, 403, 404) } } },
    async (request) => ok(await ownApp(deps, request, request.params.appId)),
  );

  api.patch(
    '/apps/:appId',
    {
      schema: {
        summary: 'Change an app',
        description: 'Fields that are left out stay as they are; null clears description and websiteUrl.',
        tags,
        params,
        body: Type.Object({ name: Type.Optional(Name), ...optional }, { additionalProperties: false }),
        response: { 200: success(App), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { id } = await ownApp(deps, request, request.params.appId);
      const app = await updateApp(sql, id, request.body);
      if (app === undefined) throw absent('app');
      return ok(app);
    },
  );
}
