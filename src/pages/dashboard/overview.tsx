import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../shared/errors.ts';
import { formatCents, formatExact } from '../shared/money.ts';
import { Notice, Spinner } from '../shared/parts.tsx';
import { LIVE_MS, type Place, useResponse } from './place.ts';
import { Plot, type Point } from './plot.tsx';

const DAY_MS = 86_400_000;
const ranges = [7, 30, 90, 365] as const;
/**
 * Maximum number of bars of a daily chart. For more days each bar is a week, because more bars
 * would be unreadable.
 */
const MAX_BARS = 90;

const percent = (rate: number | null) => (rate === null ? '–' : `${(rate * 100).toFixed(1)} %`);

/** Shows figures of the app over time. */
export function Overview({ place: { session, app } }: { place: Place }): ReactElement {
  const [days, setDays] = useState<number>(30);
  const ask = useCallback(() => {
    const to = new Date(Math.ceil(Date.now() / DAY_MS) * DAY_MS);
    const from = new Date(to.getTime() - days * DAY_MS);
    return session.client.get('/merchant/apps/{appId}/analytics', {
      path: { appId: app.id },
      query: { from: from.toISOString(), to: to.toISOString() },
    });
  }, [session, app.id, days]);
  const { data, error } = useResponse(ask, LIVE_MS * 3);
  return (
    <>
      <div className="view-head">
        <h1>Overview</h1>
        <label className="small">
          <span className="visually-hidden">Range</span>
          <select value={days} onChange={({ target }) => setDays(Number(target.value))}>
            {ranges.map((range) => (
              <option key={range} value={range}>
                Last {range} days
              </option>
            ))}
          </select>
        </label>
      </div>
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      {data === undefined && error === undefined && <Spinner>Adding up…</Spinner>}
      {data !== undefined && (
        <>
          <dl className="tiles">
            <Tile name="Net revenue" usdc={data.net} />
            <Tile name="Monthly recurring" usdc={data.mrr} />
            <Tile name="Active subscriptions" value={count(data.active)} />
            <Tile name="New" value={count(data.new)} />
            <Tile name="Past due" value={count(data.pastDue)} />
            <Tile name="Churn" value={percent(data.churnRate)} />
            <Tile name="Payments that succeeded" value={percent(data.successRate)} />
            <Tile name="Platform fees" usdc={data.fees} />
          </dl>
          <div className="plots">
            <Plot
              title={`Net revenue per ${days > MAX_BARS ? 'week' : 'day'}`}
              kind="bars"
              minStep={0.01}
              points={revenueOf(data.daily, days > MAX_BARS ? 7 : 1)}
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
            <Plot
              title="Churn"
              kind="line"
              unit="%"
              points={data.daily.map(({ date, churnRate }) => ({
                date,
                value: (churnRate ?? 0) * 100,
                text: percent(churnRate),
              }))}
            />
            <Plot
              title="Payments that succeeded"
              kind="line"
              unit="%"
              points={data.daily.map(({ date, successRate }) => ({
                date,
                value: successRate === null ? undefined : successRate * 100,
                text: percent(successRate),
              }))}
            />
          </div>
          <p className="muted small">
            Days are in UTC. Figures are of all payments that the app’s list shows.
          </p>
        </>
      )}
    </>
  );
}

const count = (number: number) => new Intl.NumberFormat('en').format(number);

/** Sums revenue over groups of `size` days. The oldest group may have fewer days. */
function revenueOf(
  daily: readonly { date: string; net: string }[],
  size: number,
): readonly Point[] {
  const points: Point[] = [];
  for (let end = daily.length; end > 0; end -= size) {
    const part = daily.slice(Math.max(0, end - size), end);
    const net = part.reduce((sum, day) => sum + BigInt(day.net), 0n);
    points.unshift({
      date: part[0]?.date ?? '',
      value: Number(net) / 1e6,
      text: `${formatExact(net)} USDC`,
    });
  }
  return points;
}

/**
 * Shows one figure of the app with its label. USDC is rounded to the cent, and the title attribute
 * has the exact amount.
 */
function Tile({
  name,
  value,
  usdc,
}: {
  name: string;
  value?: string;
  usdc?: string;
}): ReactElement {
  return (
    <div className="tile">
      <dt>{name}</dt>
      {usdc === undefined ? (
        <dd>{value}</dd>
      ) : (
        <dd title={`${formatExact(usdc)} USDC`}>
          {formatCents(usdc)} <span className="unit">USDC</span>
        </dd>
      )}
    </div>
  );
}
