import { Type } from '@sinclair/typebox';
import {
  type AccessQuestion,
  type AccessRecord,
  readAccess,
} from '../../db/subscriptions/access.ts';
import { accessReasons, judgeAccess } from '../../domain/accounts/access.ts';
import { invalidField } from '../../errors.ts';
import { createBatch } from '../door/batch.ts';
import { absent, type Api, type ApiDeps, foreign, idOf, merchantOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { ExternalId, Id, nullable, oneOf, PathId, Time, Wallet } from '../shapes/fields.ts';

const Access = Type.Object(
  {
    hasAccess: Type.Boolean({ description: 'Whether to grant access now.' }),
    accessUntil: nullable({
      ...Time,
      description:
        'End of the access; null if it never began. With collection_late it may be later than the subscription’s accessUntil.',
    }),
    revalidateAfter: {
      ...Time,
      description: 'The response is valid until this time: ask again afterwards.',
    },
    checkedAt: { ...Time, description: 'Time of the check, by the clock of the service.' },
    reason: oneOf(
      accessReasons,
      'paid, trial, grace and collection_late grant access. grace: a payment has failed, and the plan’s grace is not over. collection_late: a payment is due and has not failed, but is not collected yet.',
    ),
    subscriptionId: nullable({
      ...Id,
      description: 'The subscription that the result is based on.',
    }),
    status: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      enum: ['active', 'past_due', 'cancelled', 'expired', null],
      description: 'Status of the subscription; null if there is none.',
    }),
    subscriptions: Type.Integer({
      description:
        'Number of live subscriptions of the customer (active or past_due), up to 50. More than one: check whether one is a duplicate.',
    }),
  },
  { title: 'Access' },
);

/**
 * Registers the route that checks whether a customer has access. Concurrent checks share a query,
 * so a merchant's server can check access on every request of a customer.
 */
export function accessRoutes(api: Api, { sql }: ApiDeps): void {
  const findAccess = createBatch<AccessQuestion, AccessRecord>(
    (questions) => readAccess(sql, questions),
    ({ appId, externalId, wallet, planId }) => JSON.stringify([appId, externalId, wallet, planId]),
  );
  api.get(
    '/apps/:appId/access',
    {
      schema: {
        summary: 'Check whether a customer has access',
        description:
          'Identify the customer by externalId or by wallet. Of several subscriptions, the one with the latest accessUntil counts.',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            externalId: Type.Optional(ExternalId),
            wallet: Type.Optional(Wallet),
            planId: Type.Optional(Id),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Access), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { externalId = null, wallet = null, planId = null } = request.query;
      if ((externalId === null) === (wallet === null))
        throw invalidField('externalId', 'or wallet must be given, and not both');
      const appId = idOf(request.params.appId, 'app');
      const found = await findAccess({ appId, externalId, wallet, planId });
      if (found === undefined) throw absent('app');
      if (found.owner !== merchantOf(request).id) throw foreign('app');
      return ok({ ...judgeAccess(found.subscriptions, found.now), checkedAt: found.now });
    },
  );
}
