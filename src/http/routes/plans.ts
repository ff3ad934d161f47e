import { Type, type Static } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { findPlan, listPlans, type PlanRow, renamePlan, sunsetPlan } from '../../db/plans.ts';
import { readAccounts } from '../../domain/network.ts';
import { adoptPlan, draftPlan, observePlan, planTransaction, storePlan } from '../../domain/plans.ts';
import { ServiceError, type Fault } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, merchantOf, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import {
  Amount,
  AmountInput,
  Id,
  Name,
  NoBody,
  nullable,
  oneOf,
  PathId,
  Pda,
  Time,
  TimeInput,
  UnsignedTransaction,
  Wallet,
} from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { pageQuery, type Pages } from '../pages.ts';

const periodHours = Type.Integer({ minimum: 1, maximum: 8760, description: 'Length of a period.', examples: [730] });
const metadataUri = Type.String({
  format: 'metadata-uri',
  description: 'At most 128 bytes; stored on chain.',
  examples: ['https://coffee.example/plan.json'],
});

const planFields = {
  id: Id,
  appId: Id,
  name: Name,
  status: oneOf(['pending', 'active', 'sunset', 'ended'], 'pending: not seen on chain yet. sunset: takes no new registrations.'),
  planPda: Pda,
  mint: Wallet,
  amount: Amount,
  periodHours,
  endsAt: nullable(Time),
  metadataUri: Type.String(),
  createdAt: Time,
  updatedAt: Time,
};
export const Plan = Type.Object(planFields, { title: 'Plan' });
const NewPlan = Type.Object({ ...planFields, transaction: Type.Optional(UnsignedTransaction) }, { title: 'NewPlan' });
const PlanInput = Type.Object(
  {
    name: Name,
    amount: Type.Optional(AmountInput),
    periodHours: Type.Optional(periodHours),
    endsAt: Type.Optional(nullable(TimeInput)),
    metadataUri: Type.Optional(metadataUri),
    planPda: Type.Optional({
      ...Pda,
      description: 'A plan that is on chain already; then amount, periodHours, endsAt and metadataUri are read there.',
    }),
  },
  { additionalProperties: false, examples: [{ name: 'Coffee club', amount: '10000000', periodHours: 730 }] },
);
const params = Type.Object({ appId: PathId, planId: PathId });
const tags = ['plans'];

export function planRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, chain, network } = deps;

  /** The plan of this path. Throws NOT_FOUND, or FORBIDDEN when the app is another merchant's. */
  const ownPlan = async (request: FastifyRequest<{ Params: { appId: string; planId: string } }>): Promise<PlanRow> => {
    const { id: appId } = await ownApp(deps, request, request.params.appId);
    const plan = await findPlan(sql, idOf(request.params.planId, 'plan'));
    if (plan?.appId !== appId) throw absent('plan');
    return plan;
  };

  api.get(
    '/apps/:appId/plans',
    {
      schema: {
        summary: 'List the plans of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(Plan)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      return pages.send(request, reply, await listPlans(sql, id, page));
    },
  );

  api.post(
    '/apps/:appId/plans',
    {
      schema: {
        summary: 'Create a plan, or adopt one that is on chain',
        description:
          'With amount and periodHours: answers with a pending plan and the unsigned transaction by which your wallet publishes it. ' +
          'With planPda: takes over a plan that your wallet has published; it must name our keeper as a puller and both destinations.',
        tags,
        params: Type.Object({ appId: PathId }),
        headers: idempotencyHeaders,
        body: PlanInput,
        response: { 201: success(NewPlan), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const { body } = request;
      refuseMixture(body);
      const { wallet: owner } = merchantOf(request);
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      return answerOnce(deps, request, reply, 201, async () => {
        if (body.planPda !== undefined) {
          const adopted = await adoptPlan(chain, network, { appId, owner, name: body.name, planPda: body.planPda });
          return (tx) => storePlan(tx, adopted);
        }
        const { now } = await readAccounts(chain, []);
        const draft = draftPlan(network, appId, owner, draftOf(body), now);
        const transaction = await planTransaction(chain, network, draft);
        return async (tx) => ({ ...(await storePlan(tx, draft)), transaction });
      });
    },
  );

  api.get(
    '/apps/:appId/plans/:planId',
    {
      schema: {
        summary: 'Read a plan',
        description: 'A pending plan is looked for on chain first.',
        tags,
        params,
        response: { 200: success(Plan), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const plan = await ownPlan(request);
      try {
        return ok(await observePlan(sql, chain, network, plan));
      } catch (error) {
        // What we know can be read without the chain.
        if (!(error instanceof ServiceError)) throw error;
        request.log.warn({ err: error, cause: error.cause }, 'a pending plan could not be looked for on chain');
        return ok(plan);
      }
    },
  );

  api.patch(
    '/apps/:appId/plans/:planId',
    {
      schema: {
        summary: 'Rename or sunset a plan',
        description: 'status "sunset" ends new registrations and cannot be taken back; subscriptions go on.',
        tags,
        params,
        body: Type.Object(
          { name: Type.Optional(Name), status: Type.Optional(oneOf(['sunset'])) },
          { additionalProperties: false, examples: [{ name: 'Coffee club 2026' }] },
        ),
        response: { 200: success(Plan), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const plan = await ownPlan(request);
      const { name, status } = request.body;
      let changed: PlanRow | undefined = plan;
      if (status === 'sunset') {
        changed = await sunsetPlan(sql, plan.id);
        if (changed === undefined) throw new ServiceError('CONFLICT', `The plan is ${plan.status}: only an active one can be sunset.`);
      }
      if (name !== undefined) changed = await renamePlan(sql, plan.id, name);
      if (changed === undefined) throw absent('plan');
      return ok(changed);
    },
  );

  api.post(
    '/apps/:appId/plans/:planId/transaction',
    {
      schema: {
        summary: 'Get a fresh transaction to publish a pending plan',
        description: 'A transaction lapses about a minute after it was made.',
        tags,
        params,
        body: NoBody,
        response: { 200: success(Type.Object({ transaction: UnsignedTransaction })), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request) => {
      const plan = await observePlan(sql, chain, network, await ownPlan(request));
      if (plan.status !== 'pending') throw new ServiceError('CONFLICT', `The plan is ${plan.status}: there is nothing to publish.`);
      return ok({ transaction: await planTransaction(chain, network, plan) });
    },
  );
}

/** Either a new plan's terms or the address of one that has them. Throws VALIDATION_ERROR. */
function refuseMixture(body: Static<typeof PlanInput>): void {
  const terms = ['amount', 'periodHours', 'endsAt', 'metadataUri'] as const;
  const faults: Fault[] =
    body.planPda === undefined
      ? (['amount', 'periodHours'] as const)
          .filter((path) => body[path] === undefined)
          .map((path) => ({ path, message: 'is required, unless planPda names a plan that is on chain' }))
      : terms
          .filter((path) => body[path] !== undefined)
          .map((path) => ({ path, message: 'must be left out with planPda: it is read on chain' }));
  const [first] = faults;
  if (first !== undefined) throw new ServiceError('VALIDATION_ERROR', `${first.path} ${first.message}.`, faults);
}

function draftOf({ name, amount = '0', periodHours: hours = 0, endsAt = null, metadataUri: uri = '' }: Static<typeof PlanInput>) {
  return { name, amount: BigInt(amount), periodHours: hours, endsAt: endsAt === null ? null : new Date(endsAt), metadataUri: uri };
}
