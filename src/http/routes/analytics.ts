import { Type } from '@sinclair/typebox';
import { dailyFigures } from '../../db/analytics.ts';
import { readClock } from '../../db/postgres/clock.ts';
import { reportOf } from '../../domain/accounts/analytics.ts';
import { invalidField } from '../../errors.ts';
import { type Api, type ApiDeps, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { nullable, PathId, Time, TimeInput, timeOrNull } from '../fields.ts';

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
  new: Type.Integer({ description: 'Registered within the range.' }),
  mrr: {
    ...Sum,
    description:
      'At the end of the range: amounts of active and past-due subscriptions, normalised to 730 hours.',
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
const Analytics = Type.Object(
  {
    from: Time,
    to: Time,
    ...figures,
    daily: Type.Array(
      Type.Object({
        date: Type.String({ format: 'date', description: 'The day, UTC.' }),
        ...figures,
      }),
      { description: 'The same for each day, including days without activity.' },
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
          'Computed from the rows of the lists. A payment counts by its time; "from" is inclusive, "to" exclusive; days are UTC.',
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
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Analytics), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { from: since = request.query.since, to: until = request.query.until } = request.query;
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
      const days = await deps.reports.read((sql) => dailyFigures(sql, id, { from, to, untilNow }));
      return ok({ from, to, ...reportOf(days) });
    },
  );
}
