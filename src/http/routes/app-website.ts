import { Type } from '@sinclair/typebox';
import { markWebsiteProven } from '../../db/accounts/apps.ts';
import { checkProof } from '../../domain/accounts/website.ts';
import { ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { NoBody, PathId } from '../shapes/fields.ts';
import { App, appView } from './apps.ts';

const PROOF_PATH = '/.well-known/billing.json';

export function appWebsiteRoutes(api: Api, deps: ApiDeps): void {
  api.post(
    '/apps/:appId/website/verify',
    {
      config: { waits: 'servers' },
      schema: {
        summary: 'Prove the website of an app',
        description:
          'Reads /.well-known/billing.json at its websiteUrl, which must have the app’s id as appId. The pages then link the website.',
        tags: ['apps'],
        params: Type.Object({ appId: PathId }),
        body: NoBody,
        response: { 200: success(App), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const { id, websiteUrl } = await ownApp(deps, request, request.params.appId);
      if (websiteUrl === null)
        throw new ServiceError('CONFLICT', 'The app has no websiteUrl: set it first.');
      const { origin, protocol } = new URL(websiteUrl);
      if (deps.environment === 'production' && protocol !== 'https:')
        throw new ServiceError('CONFLICT', 'Only a websiteUrl that is https:// can be proven.');
      checkProof(
        await deps.readSmallFile({ origin, path: PROOF_PATH }),
        `${origin}${PROOF_PATH}`,
        id,
      );
      const app = await markWebsiteProven(deps.sql, id, websiteUrl);
      if (app === undefined)
        throw new ServiceError('CONFLICT', 'The websiteUrl was changed meanwhile: try again.');
      return ok(appView(deps, app));
    },
  );
}
