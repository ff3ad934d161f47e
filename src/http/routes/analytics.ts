import { Type } from '@sinclair/typebox';
import { dailyFigures } from '../../db/analytics.ts';
import { readClock } from '../../db/clock.ts';
import { reportOf } from '../../domain/analytics.ts';
import { ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { nullable, PathId, Time, TimeInput, timeOrNull } from '../fields.ts';

const dayMs = 86_400_000;
const defaultDays = 30;
const mostDays = 366;

const Sum = Type.String({
  pattern: '^[0-9]+$',
  description: 'USDC base units (6 decimals) as a string.',
  examples: ['250000000'],
});
const figures = {
  active: Type.Integer({ description: 'At the end.' }),
  pastDue: Type.Integer({ description: 'At the end.' }),
  cancelled: Type.Integer({ description: 'Within the range.' }),
  expired: Type.Integer({ description: 'Within the range.' }),
  new: Type.Integer({ description: 'Registered within the range.' }),
  mrr: {
    ...Sum,
    description: 'At the end: amounts of what is active or past due, normalised to 730 hours.',
  },
  gross: Sum,
  fees: Sum,
  net: { ...Sum, description: 'Gross less fees; refunds are not taken off.' },
  refunded: { ...Sum, description: 'Given back within the range, by the time of the transfer.' },
  paymentsSucceeded: Type.Integer({ description: 'Within the range.' }),
  paymentsFailed: Type.Integer({ description: 'Failed attempts within the range.' }),
  successRate: nullable(
    Type.Number({ description: 'Succeeded of all payments tried; null when none was.' }),
  ),
  churnRate: nullable(
    Type.Number({
      description:
        'Cancelled and expired, of what was active or past due at the start; null when nothing was.',
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
      { description: 'The same for each day, days without activity included.' },
    ),
  },
  { title: 'Analytics' },
);

export function analyticsRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/analytics',
    {
      schema: {
        summary: 'Read an app’s figures',
        description:
          'From the rows that the lists show: money by the payment’s time, from inclusive, to exclusive; days are UTC.',
        tags: ['analytics'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            since: Type.Optional({
              ...TimeInput,
              description: 'Start of the range; 30 days before its end when absent.',
            }),
            until: Type.Optional({
              ...TimeInput,
              description: 'End of the range; now when absent.',
            }),
            from: Type.Optional({ ...TimeInput, description: 'Another name of since.' }),
            to: Type.Optional({ ...TimeInput, description: 'Another name of until.' }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Analytics), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { from: since = request.query.since, to: until = request.query.until } = request.query;
      const untilNow = until === undefined;
      const to = timeOrNull(until) ?? new Date(Math.ceil(await readClock(deps.sql)));
      const from = timeOrNull(since) ?? new Date(Math.max(0, to.getTime() - defaultDays * dayMs));
      const message =
        from >= to
          ? 'must be before the end of the range'
          : to.getTime() - from.getTime() > mostDays * dayMs
            ? `must be at most ${mostDays} days before the end of the range`
            : undefined;
      if (message !== undefined)
        throw new ServiceError('VALIDATION_ERROR', `from ${message}.`, [{ path: 'from', message }]);
      const { id } = await ownApp(deps, request, request.params.appId);
      return ok({
        from,
        to,
        ...reportOf(await dailyFigures(deps.reports, id, { from, to, untilNow })),
      });
    },
  );
}
