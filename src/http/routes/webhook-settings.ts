import { Type } from '@sinclair/typebox';
import { disableEndpoint, findEndpoint, updateEndpoint } from '../../db/delivering/endpoints.ts';
import { sealHeaders } from '../../domain/outbox/endpoints.ts';
import { enableWithReplay } from '../../domain/outbox/replay.ts';
import { absent, type Api, type ApiDeps, ownEndpoint, requesterOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { PathId } from '../shapes/fields.ts';
import { ChangedEndpoint, headersOf, settingsInput } from '../shapes/webhook-schemas.ts';

/**
 * Registers the route that disables or enables an endpoint and changes its headers and rate limit.
 */
export function webhookSettingsRoutes(api: Api, deps: ApiDeps): void {
  const { sql, reports, secretBox, wakeReplays } = deps;
  api.patch(
    '/apps/:appId/webhooks/:webhookId',
    {
      schema: {
        summary: 'Change a webhook endpoint',
        description:
          'disabled: true stops it: pending deliveries are cancelled, and events are only listed. disabled: false enables it and queues what it missed. Omitted fields keep their values.',
        tags: ['webhooks'],
        params: Type.Object({ appId: PathId, webhookId: PathId }),
        body: Type.Object(
          {
            disabled: Type.Optional(Type.Boolean({ description: 'Whether it gets no events.' })),
            ...settingsInput,
          },
          { additionalProperties: false },
        ),
        response: { 200: success(ChangedEndpoint), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const { disabled, headers, maxPerSecond } = request.body;
      const newHeaders = headers === undefined ? undefined : headersOf(headers);
      const endpoint = await ownEndpoint(deps, request, request.params);
      if (newHeaders !== undefined || maxPerSecond !== undefined)
        await updateEndpoint(sql, endpoint.id, {
          headers: newHeaders && sealHeaders(secretBox, newHeaders, endpoint.id),
          maxPerSecond,
        });
      if (disabled === true) await disableEndpoint(sql, endpoint.id, 'merchant');
      // This database transaction may take long, because it counts the missed events. `reports` is
      // the connection pool for such long queries.
      const missedEvents =
        disabled === false
          ? await reports.transaction((tx) =>
              enableWithReplay(tx, endpoint, requesterOf(request, endpoint.appId)),
            )
          : undefined;
      if (missedEvents !== undefined) wakeReplays();
      const changed = await findEndpoint(sql, endpoint.id);
      if (changed === undefined) throw absent('webhook endpoint');
      return ok({ ...changed, missedEvents: missedEvents ?? 0 });
    },
  );
}
