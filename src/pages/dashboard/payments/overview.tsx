import { type ReactElement, useMemo } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatSol } from '../../../format.ts';
import { wordsOf } from '../../shared/errors.ts';
import { formatCents, formatExact } from '../../shared/money.ts';
import { Notice, Spinner, Usdc } from '../../shared/parts.tsx';
import { Table } from '../../shared/table.tsx';
import {
  changeFilters,
  LIVE_MS,
  type AppContext,
  useHash,
  usePlans,
  useResponse,
} from '../parts/app-context.ts';
import { DayFilter, PlanFilter, usePlanChoice } from '../parts/filters.tsx';
import { datesOf } from '../parts/presets.ts';
import { type FiguresRange, ranges, readRange } from './figures-range.ts';
import { movementsOf } from './movements.ts';
import { Plot, type Point } from './plot.tsx';

type Analytics = components['schemas']['Analytics'];

/**
 * Maximum number of days for which the revenue chart has one bar per day. With more days, one bar
 * per day would be too thin, so each bar is a week.
 */
const MAX_BARS = 90;

const percent = (rate: number | null) => (rate === null ? '–' : `${(rate * 100).toFixed(1)} %`);

/** Shows an app's figures. The URL's fragment stores the chosen days and the chosen plan. */
export function Overview({ context }: { context: AppContext }): ReactElement {
  const { session, app } = context;
  const { days, from, to } = useHash().filters;
  const [planId, setPlanId] = usePlanChoice();
  const range = useMemo(() => readRange({ days, from, to }), [days, from, to]);
  const { problem, daysAt } = range;
  const ask = useMemo(() => {
    if (daysAt === undefined) return undefined;
    return async () => {
      const { from: start, to: end } = daysAt(new Date());
      const query = {
        from: start.toISOString(),
        to: end.toISOString(),
        ...(planId !== undefined && { planId }),
      };
      const path = { appId: app.id };
      const figures = await session.client.get('/merchant/apps/{appId}/analytics', { path, query });
      return { figures, daysAt, planId };
    };
  }, [session, app.id, daysAt, planId]);
  const { data, error } = useResponse(ask, LIVE_MS * 3);
  // The plans are requested after the figures, so that the request for the plans does not delay the
  // figures.
  const plans = usePlans(
    context,
    data !== undefined || error !== undefined || problem !== undefined,
  );
  const isCurrent = data?.daysAt === daysAt && data?.planId === planId;
  return (
    <>
      <div className="view-head">
        <h1>Overview</h1>
      </div>
      <div className="filters">
        <RangeFilter range={range} />
        <PlanFilter plans={plans} value={planId} onChange={setPlanId} />
      </div>
      {problem !== undefined ? (
        <Notice kind="warning">{problem}</Notice>
      ) : (
        error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>
      )}
      {problem === undefined && error === undefined && !isCurrent && <Spinner>Adding up…</Spinner>}
      {data !== undefined && isCurrent && (
        <Figures of={data.figures} isOfPlan={planId !== undefined} />
      )}
    </>
  );
}

/** Selects the days of the figures: a number of days until today, or a first and a last day. */
function RangeFilter({ range }: { range: FiguresRange }): ReactElement {
  const { choice, first, last, problem } = range;
  const choose = (value: string) => {
    const isCustomRange = value === 'own' && range.daysAt !== undefined;
    const [from, to] = isCustomRange ? datesOf(range.daysAt(new Date())) : [];
    changeFilters({ days: isCustomRange ? undefined : value, from, to });
  };
  return (
    <>
      <label>
        Range
        <select value={choice} onChange={({ target }) => choose(target.value)}>
          {ranges.map((days) => (
            <option key={days} value={days}>
              Last {days} days
            </option>
          ))}
          <option value="own">Own dates</option>
        </select>
      </label>
      {choice === 'own' && (
        <>
          <DayFilter label="From" name="from" value={first} isWrong={problem !== undefined} />
          <DayFilter label="To" name="to" value={last} isWrong={problem !== undefined} />
        </>
      )}
    </>
  );
}

/** Shows the figures of a range as tiles, charts and movements. */
function Figures({ of: data, isOfPlan }: { of: Analytics; isOfPlan: boolean }): ReactElement {
  const isWeekly = data.daily.length > MAX_BARS;
  return (
    <>
      <dl className="tiles">
        <Tile
          name="Net revenue"
          usdc={netOf(data)}
          hint={`${formatExact(data.net)} USDC collected after fees, less ${formatExact(data.refunded)} USDC refunded`}
          meaning="What you got after the platform fee, less refunds on the day of their transfer."
        />
        <Tile
          name="Monthly recurring"
          usdc={data.mrr}
          meaning="Amounts of active, paused and past-due subscriptions at the end of the range, per 730 hours."
        />
        <Tile
          name="Active subscriptions"
          value={count(data.active)}
          meaning="At the end of the range, those in a trial too."
        />
        <Tile
          name="New"
          value={count(data.new)}
          meaning="Registered in the range. A change of plan is not a new one."
        />
        <Tile
          name="Past due"
          value={count(data.pastDue)}
          meaning="At the end of the range: the last payment failed."
        />
        <Tile
          name="Churn"
          value={percent(data.churnRate)}
          meaning="Of the subscriptions active or past due at the start, those that were cancelled or expired."
        />
        <Tile
          name="Payments that succeeded"
          value={percent(data.successRate)}
          meaning="Of all attempts to collect in the range."
        />
        <Tile
          name="Refunded"
          usdc={data.refunded}
          meaning="In the range, by the time of the transfer."
        />
        <Tile
          name="Platform fees"
          usdc={data.fees}
          meaning="Kept by the platform from the payments of the range."
        />
      </dl>
      <div className="plots">
        <Plot
          title={`Net revenue per ${isWeekly ? 'week' : 'day'}`}
          kind="bars"
          minStep={0.01}
          points={revenueOf(data.daily, isWeekly ? 7 : 1)}
        />
        <Plot
          title="Active subscriptions"
          kind="line"
          points={data.daily.map(({ date, active }) => ({
            date,
            value: active,
            text: count(active),
          }))}
        />
        <Plot title="Churn" kind="line" unit="%" points={ratesOf(data.daily, 'churnRate')} />
        <Plot
          title="Payments that succeeded"
          kind="line"
          unit="%"
          points={ratesOf(data.daily, 'successRate')}
        />
      </div>
      <Movements of={data} isOfPlan={isOfPlan} />
      {data.sponsored.transactions + data.sponsored.failed > 0 && <Sponsored of={data.sponsored} />}
      <p className="muted small">
        Days are in UTC. Figures are of all payments that the app’s list shows. – means that there
        is nothing to count.
      </p>
    </>
  );
}

/** Shows how monthly recurring revenue changed in the range, and explains each line. */
function Movements({ of, isOfPlan }: { of: Analytics; isOfPlan: boolean }): ReactElement {
  return (
    <>
      <h2>Monthly recurring revenue</h2>
      <Table
        label="Movements of monthly recurring revenue"
        rows={movementsOf(of, isOfPlan)}
        columns={[
          { head: 'Movement', cell: ({ name }) => name },
          {
            head: 'Amount',
            isNumber: true,
            cell: ({ sign, units }) => (
              <>
                {sign} <Usdc units={units} />
              </>
            ),
          },
          {
            head: 'What it is',
            cell: ({ meaning }) => <span className="muted small">{meaning}</span>,
          },
        ]}
      />
    </>
  );
}

/** Shows how much SOL the service paid for the app's subscribers. */
function Sponsored({ of }: { of: Analytics['sponsored'] }): ReactElement {
  const out = BigInt(of.lamportsRent) - BigInt(of.lamportsReturned);
  return (
    <>
      <h2>Paid in SOL by this service</h2>
      <dl className="tiles">
        <Tile name="Sponsored subscriptions" value={count(of.subscriptions)} />
        <Tile name="Sponsored transactions" value={count(of.transactions)} />
        <Tile name="Network fees" value={`${formatSol(of.lamportsFees)} SOL`} />
        <Tile name="Deposits not back yet" value={`${formatSol(out)} SOL`} />
      </dl>
      <p className="muted small">
        Subscribers without SOL. Switch it off under Settings.
        {of.failed > 0 && ` ${count(of.failed)} transactions failed on the network.`}
      </p>
    </>
  );
}

const count = (number: number) => new Intl.NumberFormat('en').format(number);

interface Money {
  net: string;
  refunded: string;
}

/** Returns net revenue: payments after fees, minus refunds. It can be negative. */
const netOf = ({ net, refunded }: Money) => (BigInt(net) - BigInt(refunded)).toString();

/** Returns a rate of each day, as a percentage. */
const ratesOf = (daily: Analytics['daily'], rate: 'churnRate' | 'successRate'): readonly Point[] =>
  daily.map(({ date, [rate]: value }) => ({
    date,
    value: value === null ? undefined : value * 100,
    text: percent(value),
  }));

/** Sums revenue over groups of `size` days. The oldest group may have fewer days. */
function revenueOf(daily: readonly (Money & { date: string })[], size: number): readonly Point[] {
  const points: Point[] = [];
  for (let end = daily.length; end > 0; end -= size) {
    const part = daily.slice(Math.max(0, end - size), end);
    const net = part.reduce((sum, day) => sum + BigInt(netOf(day)), 0n);
    points.unshift({
      date: part[0]?.date ?? '',
      value: Number(net) / 1e6,
      text: `${formatExact(net)} USDC`,
    });
  }
  return points;
}

/**
 * Shows one figure of the app with its label and, if given, its definition. An amount of USDC is
 * rounded to the cent. `hint` is the text of the title attribute. For USDC, its default is the
 * exact amount.
 */
function Tile({
  name,
  value,
  usdc,
  hint = usdc === undefined ? undefined : `${formatExact(usdc)} USDC`,
  meaning,
}: {
  name: string;
  value?: string;
  usdc?: string;
  hint?: string | undefined;
  meaning?: string;
}): ReactElement {
  return (
    <div className="tile">
      <dt>{name}</dt>
      {usdc === undefined ? (
        <dd title={hint}>{value}</dd>
      ) : (
        <dd title={hint}>
          {formatCents(usdc)} <span className="unit">USDC</span>
        </dd>
      )}
      {meaning !== undefined && <dd className="meaning">{meaning}</dd>}
    </div>
  );
}
