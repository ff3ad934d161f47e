import { Type } from '@sinclair/typebox';
import { deleteEndpoint, findEndpointSecret, insertEndpoint, listEndpoints, newEndpointId } from '../../db/endpoints.ts';
import { isDuplicate } from '../../db/violations.ts';
import { generateWebhookSecret, urlFault } from '../../domain/endpoints.ts';
import { messageOf, ServiceError } from '../../errors.ts';
import { absent, type Api, type ApiDeps, ownApp, ownEndpoint } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, NoBody, nullable, PathId, Time } from '../fields.ts';
import { pageQuery, type Pages } from '../pages.ts';

const url = Type.String({ format: 'http-url', description: 'HTTPS in production.', examples: ['https://coffee.example/hooks'] });
const Endpoint = Type.Object({ id: Id, appId: Id, url, createdAt: Time }, { title: 'WebhookEndpoint' });
const NewEndpoint = Type.Object(
  {
    id: Id,
    appId: Id,
    url,
    secret: Type.String({ description: 'Signs every event. It is shown this once.', examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] }),
    createdAt: Time,
  },
  { title: 'NewWebhookEndpoint' },
);
const PingAnswer = Type.Object(
  {
    status: nullable(Type.Integer({ description: 'HTTP status; null when there was no answer.' })),
    durationMs: Type.Number(),
    error: nullable(Type.String({ description: 'Why there was no answer.' })),
    response: nullable(Type.String({ description: 'The start of the answer’s body.' })),
  },
  { title: 'PingAnswer' },
);
const params = Type.Object({ appId: PathId, webhookId: PathId });
const tags = ['webhooks'];

export function webhookRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, environment, secretBox, ping, checkWebhookHost } = deps;

  // Names are checked when they are connected to; an address can be told at once.
  const hostFault = (text: string): string | undefined => {
    try {
      checkWebhookHost(new URL(text).hostname);
      return undefined;
    } catch (error) {
      return `must not point into a private network: ${messageOf(error)}`;
    }
  };

  api.get(
    '/apps/:appId/webhooks',
    {
      schema: {
        summary: 'List the webhook endpoints of an app: one or none',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(Endpoint)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      // One is never more than a page: no cursor is issued, and so none is taken.
      pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      return ok(await listEndpoints(sql, id));
    },
  );

  api.post(
    '/apps/:appId/webhooks',
    {
      schema: {
        summary: 'Create the webhook endpoint of an app',
        description:
          'An app has at most one: to change it, delete it and create another. The secret is shown in this answer and never again.',
        tags,
        params: Type.Object({ appId: PathId }),
        body: Type.Object({ url }, { additionalProperties: false }),
        response: { 201: success(NewEndpoint), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const fault = urlFault(request.body.url, environment) ?? hostFault(request.body.url);
      if (fault !== undefined) throw new ServiceError('VALIDATION_ERROR', `url ${fault}.`, [{ path: 'url', message: fault }]);
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      const secret = generateWebhookSecret();
      const id = await newEndpointId(sql);
      try {
        const endpoint = await insertEndpoint(sql, { id, appId, url: request.body.url, secret: secretBox.seal(secret, id) });
        return await reply.code(201).send(ok({ ...endpoint, secret }));
      } catch (error) {
        if (isDuplicate(error, 'one_endpoint_per_app')) {
          throw new ServiceError('CONFLICT', 'The app has a webhook endpoint already: delete it first.');
        }
        throw error;
      }
    },
  );

  api.get(
    '/apps/:appId/webhooks/:webhookId',
    { schema: { summary: 'Read a webhook endpoint', tags, params, response: { 200: success(Endpoint), ...failures(401, 403, 404) } } },
    async (request) => ok(await ownEndpoint(deps, request, request.params)),
  );

  api.delete(
    '/apps/:appId/webhooks/:webhookId',
    {
      schema: {
        summary: 'Delete a webhook endpoint',
        description: 'What was still to be sent to it is cancelled.',
        tags,
        params,
        response: { 200: success(Endpoint), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const endpoint = await ownEndpoint(deps, request, request.params);
      await deleteEndpoint(sql, endpoint.id);
      return ok(endpoint);
    },
  );

  api.post(
    '/apps/:appId/webhooks/:webhookId/test',
    {
      schema: {
        summary: 'Send a signed ping to a webhook endpoint',
        description: 'At once, with the headers of every delivery; answers with what came back within 5 seconds.',
        tags,
        params,
        body: NoBody,
        response: { 200: success(PingAnswer), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { id: webhookId, appId, url: target } = await ownEndpoint(deps, request, request.params);
      const sealed = await findEndpointSecret(sql, webhookId);
      if (sealed === undefined) throw absent('webhook endpoint');
      return ok(await ping({ appId, webhookId, url: target, secret: secretBox.open(sealed, webhookId) }));
    },
  );
}
