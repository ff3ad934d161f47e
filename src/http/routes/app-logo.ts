// The logo of an app. The app's merchant stores the logo, and everyone can read it.
import { Type } from '@sinclair/typebox';
import { deleteLogo, findLogo, storeLogo } from '../../db/accounts/app-logos.ts';
import { findApp } from '../../db/accounts/apps.ts';
import { checkLogo, logoType, MAX_LOGO_BYTES, versionOf } from '../../domain/accounts/logo.ts';
import { invalidField } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../door/context.ts';
import { encodingFault } from '../door/encoding.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { PathId } from '../shapes/fields.ts';
import { App, appView } from './apps.ts';

const params = Type.Object({ appId: PathId });
const tags = ['apps'];
/**
 * Caches keep a logo for a day. A new logo is visible at once, because it has a new URL. A deleted
 * logo may stay visible for a day.
 */
const CACHE_CONTROL = 'public, max-age=86400';

/** Registers the routes that store and delete a logo. The request body is the image, not JSON. */
export function appLogoRoutes(api: Api, deps: ApiDeps): void {
  void api.register(async (scope: Api) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
      done(encodingFault(request) ?? null, body);
    });
    // The schema does not check the body, because the handler does (checkLogo).
    scope.setValidatorCompiler(() => () => true);
    storeRoute(scope, deps);
    deleteRoute(scope, deps);
  });
}

function storeRoute(api: Api, deps: ApiDeps): void {
  api.post(
    '/apps/:appId/logo',
    {
      bodyLimit: MAX_LOGO_BYTES,
      schema: {
        summary: 'Store the logo of an app',
        description:
          'The body is the image: PNG or WebP, at most 64 KiB and 1024 by 1024 pixels. It replaces an earlier one.',
        tags,
        params,
        consumes: ['image/png', 'image/webp'],
        body: Type.String({ format: 'binary' }),
        response: { 200: success(App), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const contentType = logoType(request.headers['content-type']);
      if (contentType === undefined)
        throw invalidField('content-type', 'must be image/png or image/webp');
      const body: unknown = request.body;
      const logo = { contentType, image: Buffer.isBuffer(body) ? body : Buffer.alloc(0) };
      const app = await ownApp(deps, request, request.params.appId);
      checkLogo(logo);
      await storeLogo(deps.sql, app.id, versionOf(logo), logo);
      return ok(await readApp(deps, app.id));
    },
  );
}

function deleteRoute(api: Api, deps: ApiDeps): void {
  api.delete(
    '/apps/:appId/logo',
    {
      schema: {
        summary: 'Delete the logo of an app',
        tags,
        params,
        response: { 200: success(App), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { id } = await ownApp(deps, request, request.params.appId);
      await deleteLogo(deps.sql, id);
      return ok(await readApp(deps, id));
    },
  );
}

async function readApp(deps: ApiDeps, id: string) {
  const app = await findApp(deps.sql, id);
  if (app === undefined) throw absent('app');
  return appView(deps, app);
}

/** Registers the route that serves a logo, for the pages and for previews of links. */
export function publicLogoRoutes(api: Api, { sql }: ApiDeps): void {
  api.get<{ Params: { appId: string; version: string } }>(
    '/logos/:appId/:version',
    async ({ params: { appId, version } }, reply) => {
      const logo = await findLogo(sql, idOf(appId, 'logo'), version);
      if (logo === undefined) throw absent('logo');
      return reply
        .header('cache-control', CACHE_CONTROL)
        .header('content-disposition', 'inline')
        .type(logo.contentType)
        .send(logo.image);
    },
  );
}
