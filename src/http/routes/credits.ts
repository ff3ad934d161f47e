import { Type } from '@sinclair/typebox';
import { type CreditRow, listCredits } from '../../db/money/credit-lists.ts';
import { findCustomerOf } from '../../db/subscriptions/customers.ts';
import { changeCredit } from '../../domain/change/crediting.ts';
import { type Api, type ApiDeps, merchantOf } from '../door/context.ts';
import { idempotencyHeaders, respondOnce } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { CreditChange, CreditMovement, OwnCreditMovement } from '../shapes/credit-schemas.ts';
import { failures, success } from '../shapes/envelope.ts';
import { PathId, SignedAmountInput } from '../shapes/fields.ts';
import { ownCustomer } from './customers.ts';
import { ownSubscription } from './subscriber.ts';

const tags = ['customers'];
const params = Type.Object({ appId: PathId, customerId: PathId });

/** Registers the routes with which a merchant grants credit, takes it back and lists it. */
export function creditRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, wakeDispatchers, wakeKeepers } = deps;
  api.post(
    '/apps/:appId/customers/:customerId/credits',
    {
      schema: {
        summary: 'Grant credit to a customer, or take it back',
        description:
          'The next invoices of the customer in this app take it; it is never paid out. A negative amount takes back at most the balance, else it is CONFLICT. After a grant, the past-due subscriptions of the customer are due at once, each with a new invoice. The event credit_changed tells of it.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: Type.Object(
          {
            amount: SignedAmountInput,
            reason: Type.String({
              format: 'short-text',
              description:
                'Why, in your words: 1 to 500 characters. It is stored as the note of the movement; the subscriber does not see it.',
              examples: ['Two days of outage in January'],
            }),
          },
          { additionalProperties: false },
        ),
        response: { 201: success(CreditChange), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const { id: customerId, appId } = await ownCustomer(deps, request);
      const { actor: notedBy } = merchantOf(request);
      const { amount, reason: note } = request.body;
      const change = { customerId, amount: BigInt(amount), note, notedBy };
      await respondOnce(deps, request, reply, 201, () =>
        Promise.resolve((tx) => changeCredit(tx, change)),
      );
      wakeDispatchers(appId);
      wakeKeepers();
      return reply;
    },
  );

  api.get(
    '/apps/:appId/customers/:customerId/credits',
    {
      schema: {
        summary: 'List the movements of a customer’s credit',
        description: 'Their sum is the credit of the customer. A movement never changes.',
        tags,
        params,
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(CreditMovement)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownCustomer(deps, request);
      return pages.send(request, reply, await listCredits(sql, id, page));
    },
  );
}

/** Registers the route with which a wallet reads the credit of its customer. */
export function ownCreditRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/subscriptions/:subscriptionId/credits',
    {
      schema: {
        summary: 'List the movements of the credit that pays for a subscription',
        description:
          'Credit belongs to the customer, so all subscriptions of the customer in this app share it. The sum of the movements is the credit of the subscription.',
        tags: ['subscriber'],
        security: [{ walletJwt: [] }],
        params: Type.Object({ subscriptionId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnCreditMovement)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id, subscriberWallet } = await ownSubscription(deps, request);
      const customerId = await findCustomerOf(sql, id);
      const rows = customerId === undefined ? [] : await listCredits(sql, customerId, page);
      return pages.send(
        request,
        reply,
        rows.map((row) => seenBy(row, subscriberWallet)),
      );
    },
  );
}

/** Leaves out the ids of another wallet's subscription. */
function seenBy(row: CreditRow, wallet: string): CreditRow {
  if (row.subscriberWallet === wallet) return row;
  return { ...row, invoiceId: null, subscriptionId: null };
}
