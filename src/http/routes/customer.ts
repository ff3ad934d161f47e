import { Type } from '@sinclair/typebox';
import { listNewestCredits } from '../../db/money/credit-lists.ts';
import { readCustomer } from '../../db/subscriptions/customers.ts';
import { invalidField } from '../../errors.ts';
import { absent, type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { CreditMovement } from '../shapes/credit-schemas.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, ExternalId, Id, PathId, Time, Wallet } from '../shapes/fields.ts';

const MAX_MOVEMENTS = 20;

const CustomerSums = Type.Object(
  {
    customerIds: Type.Array(Id, {
      description: 'The customers to whom these subscriptions belong, at most 20.',
    }),
    externalIds: Type.Array(ExternalId, {
      description: 'Your ids of the customer on these subscriptions, at most 20.',
    }),
    wallets: Type.Array(Wallet, { description: 'The wallets that subscribed, at most 20.' }),
    subscriptions: Type.Integer({ description: 'Number of subscriptions, ended ones too.' }),
    liveSubscriptions: Type.Integer({
      description: 'Number of subscriptions that are active or past_due.',
    }),
    amountPaid: {
      ...Amount,
      description: 'Total amountGross of the succeeded payments, USDC base units.',
    },
    amountRefunded: {
      ...Amount,
      description: 'Total of the finalized refunds, USDC base units.',
    },
    credit: {
      ...Amount,
      description: 'Sum of the credit of these customers, USDC base units.',
    },
    creditMovements: Type.Array(CreditMovement, {
      description:
        'The newest 20 movements of that credit. GET .../customers/{customerId}/credits lists all.',
    }),
    createdAt: { ...Time, description: 'Time of the first subscription.' },
  },
  { title: 'CustomerSums' },
);

/**
 * Registers the route that reads the totals of one customer in an app: live subscriptions, amounts
 * paid and refunded, and credit.
 */
export function customerRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/customer',
    {
      schema: {
        summary: 'Read the sums of a customer',
        description:
          'Identify the customer by externalId or by wallet. The lists of subscriptions, transactions and refunds take the same (wallet as subscriberWallet).',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          { externalId: Type.Optional(ExternalId), wallet: Type.Optional(Wallet) },
          { additionalProperties: false },
        ),
        response: { 200: success(CustomerSums), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { externalId = null, wallet = null } = request.query;
      if ((externalId === null) === (wallet === null))
        throw invalidField('externalId', 'or wallet must be given, and not both');
      const { id } = await ownApp(deps, request, request.params.appId);
      const whose = { externalId, subscriberWallet: wallet };
      const found = await readCustomer(deps.sql, id, whose);
      if (found === undefined) throw absent('customer');
      const { live, paid, refunded, credit, ...rest } = found;
      return ok({
        ...rest,
        liveSubscriptions: live,
        amountPaid: BigInt(paid),
        amountRefunded: BigInt(refunded),
        credit: BigInt(credit),
        creditMovements: await listNewestCredits(deps.sql, rest.customerIds, MAX_MOVEMENTS),
      });
    },
  );
}
