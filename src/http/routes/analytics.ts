import { Type } from '@sinclair/typebox';
import { dailyFigures } from '../../db/money/analytics.ts';
import { readAppSponsoring } from '../../db/offers/sponsor-budgets.ts';
import { readClock } from '../../db/postgres/clock.ts';
import { reportOf } from '../../domain/accounts/analytics.ts';
import { invalidField } from '../../errors.ts';
import { type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, Lamports, nullable, PathId, Time, TimeInput, timeOrNull } from '../shapes/fields.ts';

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;
const MAX_DAYS = 366;

const Sum = Type.String({
  pattern: '^[0-9]+$',
  description: 'USDC base units (6 decimals) as a string.',
  examples: ['250000000'],
});
const figures = {
  active: Type.Integer({ description: 'At the end of the range.' }),
  pastDue: Type.Integer({ description: 'At the end of the range.' }),
  cancelled: Type.Integer({ description: 'Within the range.' }),
  expired: Type.Integer({ description: 'Within the range.' }),
  new: Type.Integer({
    description: 'Registered within the range; a change of plan is none, at either end.',
  }),
  mrr: {
    ...Sum,
    description:
      'At the end of the range: amounts of active and past-due subscriptions (paused ones too), normalised to 730 hours.',
  },
  mrrBefore: { ...Sum, description: 'mrr at the start of the range.' },
  mrrNew: {
    ...Sum,
    description:
      'Added to mrr by new subscriptions: of wallets that had none in the app before, or have another one.',
  },
  mrrReactivation: {
    ...Sum,
    description: 'Added by subscriptions of wallets whose earlier ones in the app had all ended.',
  },
  mrrExpansion: { ...Sum, description: 'Added by changes to a dearer plan, per month.' },
  mrrContraction: { ...Sum, description: 'Lost by changes to a cheaper plan, per month.' },
  mrrChurn: {
    ...Sum,
    description:
      'Lost by subscriptions that were cancelled or expired. mrr is mrrBefore with new, reactivation and expansion added, contraction and churn subtracted; each day is rounded down.',
  },
  gross: Sum,
  fees: Sum,
  net: { ...Sum, description: 'Gross less fees; refunds are not subtracted.' },
  refunded: { ...Sum, description: 'Refunded within the range, by the time of the transfer.' },
  paymentsSucceeded: Type.Integer({ description: 'Within the range.' }),
  paymentsFailed: Type.Integer({ description: 'Failed attempts within the range.' }),
  successRate: nullable(
    Type.Number({ description: 'Share of attempts that succeeded; null without attempts.' }),
  ),
  churnRate: nullable(
    Type.Number({
      description:
        'Share of subscriptions active or past due at the start that were cancelled or expired; null if there were none.',
    }),
  ),
};
const Sponsoring = Type.Object(
  {
    subscriptions: Type.Integer({ description: 'Sponsored sign-ups.' }),
    transactions: Type.Integer({
      description: 'Sponsored transactions that landed, sign-ups included.',
    }),
    failed: Type.Integer({ description: 'Those that failed on the network.' }),
    lamportsFees: { ...Lamports, description: 'Network fees of both.' },
    lamportsRent: {
      ...Lamports,
      description: 'Rent of the accounts that they opened.',
    },
    lamportsReturned: {
      ...Lamports,
      description: 'The part of this rent that has come back.',
    },
  },
  {
    title: 'Sponsoring',
    description:
      'Transactions for which the service paid network fee and rent in SOL. A revoked approval counts for no app.',
  },
);
const Analytics = Type.Object(
  {
    from: Time,
    to: Time,
    ...figures,
    sponsored: Sponsoring,
    daily: Type.Array(
      Type.Object({
        date: Type.String({ format: 'date', description: 'The day, UTC.' }),
        ...figures,
      }),
      { description: 'The same for each day.' },
    ),
  },
  { title: 'Analytics' },
);

export function analyticsRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/analytics',
    {
      schema: {
        summary: 'Read the metrics of an app',
        description:
          'Computed from the rows of the lists. A payment counts by its time; "from" is inclusive, "to" exclusive; days are UTC. With planId, of one plan: a change to it is an expansion by its whole amount, one away from it a contraction.',
        tags: ['analytics'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            since: Type.Optional({
              ...TimeInput,
              description: 'Start of the range; default: 30 days before its end.',
            }),
            until: Type.Optional({
              ...TimeInput,
              description: 'End of the range; default: now.',
            }),
            from: Type.Optional({ ...TimeInput, description: 'Alias of since.' }),
            to: Type.Optional({ ...TimeInput, description: 'Alias of until.' }),
            planId: Type.Optional(Id),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Analytics), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { from: since = request.query.since, to: until = request.query.until } = request.query;
      const { planId } = request.query;
      const untilNow = until === undefined;
      const to = timeOrNull(until) ?? new Date(Math.ceil(await readClock(deps.sql)));
      const from = timeOrNull(since) ?? new Date(Math.max(0, to.getTime() - DEFAULT_DAYS * DAY_MS));
      const message =
        from >= to
          ? 'must be before the end of the range'
          : to.getTime() - from.getTime() > MAX_DAYS * DAY_MS
            ? `must be at most ${MAX_DAYS} days before the end of the range`
            : undefined;
      if (message !== undefined) throw invalidField('from', message);
      const { id } = await ownApp(deps, request, request.params.appId);
      reply.header('x-data-age', await deps.reports.readAge());
      const [days, sponsored] = await Promise.all([
        deps.reports.read((sql) => dailyFigures(sql, id, { from, to, untilNow, planId })),
        deps.reports.read((sql) => readAppSponsoring(sql, id, { from, to, planId })),
      ]);
      return ok({ from, to, ...reportOf(days), sponsored });
    },
  );
}
