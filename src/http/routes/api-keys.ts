import { Type } from '@sinclair/typebox';
import {
  findKeyOwner,
  insertApiKey,
  listApiKeys,
  revokeApiKey,
} from '../../db/accounts/api-keys.ts';
import { generateKey } from '../../domain/accounts/keys.ts';
import { checkQuota } from '../../domain/accounts/quotas.ts';
import { absent, type Api, type ApiDeps, foreign, idOf, merchantOf } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, NoBody, nullable, Time, PathId } from '../shapes/fields.ts';

const prefix = Type.String({
  description: 'The prefix and six more characters.',
  examples: ['sk_test_3fZ9kQ'],
});
const ApiKey = Type.Object(
  { id: Id, prefix, createdAt: Time, lastUsedAt: nullable(Time), revokedAt: nullable(Time) },
  { title: 'ApiKey' },
);
const NewApiKey = Type.Object({
  id: Id,
  key: Type.String({ description: 'The whole key. It is only shown once.' }),
  prefix,
});
const tags = ['API keys'];
const security = [{ walletJwt: [] }];

/** Registers the routes of API keys. These routes accept only a wallet's JWT. */
export function apiKeyRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, environment, log } = deps;
  api.get(
    '/api-keys',
    {
      schema: {
        summary: 'List the API keys',
        description:
          'Includes revoked keys. The keys themselves are not stored, only their hashes.',
        tags,
        security,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(ApiKey)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) =>
      pages.send(
        request,
        reply,
        await listApiKeys(sql, merchantOf(request).id, pages.read(request)),
      ),
  );

  api.post(
    '/api-keys',
    {
      config: { asksFreshSignIn: true },
      schema: {
        summary: 'Create an API key',
        description:
          'Needs no body. On a page, the sign-in must be of the last five minutes, else the response is UNAUTHORIZED. The key is only shown in this response. A merchant has at most 50 live keys.',
        tags,
        security,
        headers: idempotencyHeaders,
        body: NoBody,
        response: { 201: success(NewApiKey), ...failures(400, 401, 403, 409) },
      },
    },
    async (request, reply) => {
      const { id: merchantId } = merchantOf(request);
      return respondOnce(deps, request, reply, 201, async () => {
        const fresh = generateKey(environment);
        return async (tx) => {
          await checkQuota(tx, merchantId, 'liveKeys');
          const id = await insertApiKey(tx, merchantId, fresh);
          log.info({ merchantId, keyId: id, prefix: fresh.prefix }, 'API key created');
          return { id, key: fresh.key, prefix: fresh.prefix };
        };
      });
    },
  );

  addRevoke(api, deps);
}

function addRevoke(api: Api, { sql, log }: ApiDeps): void {
  api.delete(
    '/api-keys/:keyId',
    {
      config: { openToSuspended: true },
      schema: {
        summary: 'Revoke an API key',
        description:
          'Immediate and permanent: the next request with the key is refused. Revoking again changes nothing.',
        tags,
        security,
        params: Type.Object({ keyId: PathId }),
        response: { 200: success(ApiKey), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const id = idOf(request.params.keyId, 'API key');
      const owner = await findKeyOwner(sql, id);
      if (owner === undefined) throw absent('API key');
      if (owner !== merchantOf(request).id) throw foreign('API key');
      const revoked = await revokeApiKey(sql, id);
      if (revoked === undefined) throw absent('API key');
      log.info({ merchantId: owner, keyId: id, prefix: revoked.prefix }, 'API key revoked');
      return ok(revoked);
    },
  );
}
