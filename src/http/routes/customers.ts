import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { type CustomerRow, findCustomer, listCustomers } from '../../db/subscriptions/customers.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../door/context.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, ExternalId, Id, nullable, PathId, Time, Wallet } from '../shapes/fields.ts';

const Customer = Type.Object(
  {
    id: Id,
    appId: Id,
    externalId: nullable({
      ...ExternalId,
      description:
        'Your id of the customer, which a checkout session or your PATCH set; null: the customer is a wallet.',
    }),
    wallet: nullable({ ...Wallet, description: 'The wallet of a customer without externalId.' }),
    name: nullable(Type.String({ description: 'The name of the customer; null if not known.' })),
    email: nullable(Type.String({ description: 'The e-mail address; null if not known.' })),
    subscriptionIds: Type.Array(Id, {
      description: 'The subscriptions, newest first, at most 20.',
    }),
    credit: {
      ...Amount,
      description: 'The credit of the customer: the next invoices in this app take it.',
    },
    createdAt: Time,
  },
  { title: 'Customer' },
);

const tags = ['customers'];

/**
 * Returns the customer whose id is in the request's path. Throws NOT_FOUND when the customer does
 * not exist, FORBIDDEN when the customer's app belongs to another merchant.
 */
export async function ownCustomer(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { appId: string; customerId: string } }>,
): Promise<CustomerRow> {
  const { id: appId } = await ownApp(deps, request, request.params.appId);
  const found = await findCustomer(deps.sql, idOf(request.params.customerId, 'customer'));
  if (found?.appId !== appId) throw absent('customer');
  return found;
}

/** Registers the routes that list and read the customers of an app. */
export function customerListRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/customers',
    {
      schema: {
        summary: 'List the customers of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            ...pageQuery,
            externalId: Type.Optional({
              ...ExternalId,
              description: 'The customer with this externalId.',
            }),
            wallet: Type.Optional({
              ...Wallet,
              description: 'The customer without externalId who has this wallet.',
            }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(Customer)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const { externalId = null, wallet = null } = request.query;
      const rows = await listCustomers(sql, id, { externalId, wallet }, page);
      return pages.send(request, reply, rows);
    },
  );

  api.get(
    '/apps/:appId/customers/:customerId',
    {
      schema: {
        summary: 'Read a customer',
        tags,
        params: Type.Object({ appId: PathId, customerId: PathId }),
        response: { 200: success(Customer), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(await ownCustomer(deps, request)),
  );
}
