import { type Static, Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import {
  anyInvoice,
  findInvoice,
  type InvoiceFilters,
  type InvoiceRow,
  listInvoices,
} from '../../db/money/invoice-lists.ts';
import { forgive } from '../../domain/change/forgiving.ts';
import { readUpcoming } from '../../domain/collecting/next-invoice.ts';
import { assertReaches } from '../door/bound.ts';
import {
  absent,
  type Api,
  type ApiDeps,
  foreign,
  idOf,
  ownApp,
  subscriberOf,
} from '../door/context.ts';
import { idempotencyHeaders, respondOnce } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  ExternalId,
  Id,
  NoBody,
  nullable,
  PathId,
  several,
  TimeInput,
  timeOrNull,
  Wallet,
} from '../shapes/fields.ts';
import { Invoice, OwnInvoice, UpcomingInvoice } from '../shapes/invoice-schemas.ts';
import { ownSubscription as subscriptionOfWallet } from './subscriber.ts';
import { ownSubscription } from './subscriptions.ts';

const tags = ['invoices'];
const params = Type.Object({ appId: PathId, invoiceId: PathId });

const querystring = Type.Object(
  {
    ...pageQuery,
    state: several(['open', 'paid', 'void', 'uncollectible'], 'Only in this state.'),
    reason: several(['period', 'foreign'], 'Only with this reason.'),
    planId: Type.Optional({ ...Id, description: 'Invoices of the subscriptions to this plan.' }),
    subscriptionId: Type.Optional({ ...Id, description: 'Invoices of this subscription.' }),
    subscriberWallet: Type.Optional({ ...Wallet, description: 'Invoices of this wallet.' }),
    externalId: Type.Optional({
      ...ExternalId,
      description: 'Invoices of the subscriptions that have this externalId now.',
    }),
    since: Type.Optional({ ...TimeInput, description: 'Drawn up at this time or later.' }),
    until: Type.Optional({ ...TimeInput, description: 'Drawn up before this time.' }),
  },
  { additionalProperties: false },
);
const filtersOf = (query: Static<typeof querystring>): InvoiceFilters => ({
  state: query.state ?? null,
  reason: query.reason ?? null,
  planId: query.planId ?? null,
  subscriptionId: query.subscriptionId ?? null,
  subscriberWallet: query.subscriberWallet ?? null,
  externalId: query.externalId ?? null,
  since: timeOrNull(query.since),
  until: timeOrNull(query.until),
});

/**
 * Returns the invoice whose id is in the request's path. Throws NOT_FOUND when the invoice does not
 * exist, FORBIDDEN when the invoice's app belongs to another merchant.
 */
async function ownInvoice(
  deps: ApiDeps,
  request: FastifyRequest<{ Params: { appId: string; invoiceId: string } }>,
): Promise<InvoiceRow> {
  const { id: appId } = await ownApp(deps, request, request.params.appId);
  const found = await findInvoice(deps.sql, idOf(request.params.invoiceId, 'invoice'));
  if (found?.appId !== appId) throw absent('invoice');
  return found;
}

export function invoiceRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  readRoutes(api, deps, pages);
  upcomingRoute(api, deps);
  voidRoute(api, deps);
}

function upcomingRoute(api: Api, deps: ApiDeps): void {
  const { sql, planMinimumAmount: minimum } = deps;
  api.get(
    '/apps/:appId/subscriptions/:subscriptionId/upcoming',
    {
      schema: {
        summary: 'Preview the next invoice of a subscription',
        description:
          'The open invoice, or what would be drawn up for the next payment; nothing is stored. data is null where no payment will be due: after a cancellation, in a pause, after the end.',
        tags,
        params: Type.Object({ appId: PathId, subscriptionId: PathId }),
        response: { 200: success(nullable(UpcomingInvoice)), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(await readUpcoming(sql, await ownSubscription(deps, request), minimum)),
  );
}

function voidRoute(api: Api, deps: ApiDeps): void {
  const { wakeDispatchers, wakeKeepers } = deps;
  api.post(
    '/apps/:appId/invoices/:invoiceId/void',
    {
      schema: {
        summary: 'Forgive an open invoice',
        description:
          'Nothing is collected for its time any more, and that time counts as paid: a past-due subscription becomes active, and its next payment is due at the end of that time. CONFLICT while a payment of it is being collected, and for an invoice that is closed otherwise.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: NoBody,
        response: { 200: success(Invoice), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const invoice = await ownInvoice(deps, request);
      await respondOnce(deps, request, reply, 200, () =>
        Promise.resolve(async (tx) => {
          await forgive(tx, invoice);
          return (await findInvoice(tx, invoice.id)) ?? invoice;
        }),
      );
      wakeDispatchers(invoice.appId);
      wakeKeepers();
      return reply;
    },
  );
}

function readRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/invoices',
    {
      schema: {
        summary: 'List the invoices of an app',
        description:
          'What was owed for each period, whether it was paid or not; newest first by drawnUpAt.',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Invoice)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      return pages.send(
        request,
        reply,
        await listInvoices(sql, id, filtersOf(request.query), page),
      );
    },
  );

  api.get(
    '/apps/:appId/invoices/:invoiceId',
    {
      schema: {
        summary: 'Read an invoice',
        tags,
        params,
        response: { 200: success(Invoice), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(await ownInvoice(deps, request)),
  );
}

/** Registers the routes with which a wallet reads the invoices of its subscriptions. */
export function ownInvoiceRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  const security = [{ walletJwt: [] }];
  api.get(
    '/subscriptions/:subscriptionId/invoices',
    {
      schema: {
        summary: 'List the invoices of a subscription',
        tags: ['subscriber'],
        security,
        params: Type.Object({ subscriptionId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(OwnInvoice)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id: subscriptionId, appId } = await subscriptionOfWallet(deps, request);
      const rows = await listInvoices(sql, appId, { ...anyInvoice, subscriptionId }, page);
      return pages.send(request, reply, rows);
    },
  );

  api.get(
    '/invoices/:invoiceId',
    {
      schema: {
        summary: 'Read an invoice',
        tags: ['subscriber'],
        security,
        params: Type.Object({ invoiceId: PathId }),
        response: { 200: success(OwnInvoice), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const found = await findInvoice(sql, idOf(request.params.invoiceId, 'invoice'));
      if (found === undefined) throw absent('invoice');
      if (found.subscriberWallet !== subscriberOf(request).wallet) throw foreign('invoice');
      await assertReaches(deps, request, found.appId);
      return ok(found);
    },
  );
}
