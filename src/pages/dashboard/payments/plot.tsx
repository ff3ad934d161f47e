import type { ReactElement } from 'react';
import { Table } from '../../shared/table.tsx';

export interface Point {
  /** A day as YYYY-MM-DD. For a group of days, the first day. */
  date: string;
  /** undefined when the day has no value. */
  value: number | undefined;
  text: string;
}

const WIDTH = 480;
const HEIGHT = 170;
const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;

/**
 * Returns the distance between grid lines. The distance is 1, 2 or 5 times a power of ten. It is
 * the smallest such number that is at least `minStep` and also at least a quarter of `max`. A chart
 * therefore has few grid lines.
 */
function stepFor(max: number, minStep: number): number {
  const rough = Math.max(max / 4, minStep);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) ?? 10 * power;
}

const label = (value: number) =>
  new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 }).format(value);

const dayFormat = new Intl.DateTimeFormat('en', {
  day: 'numeric',
  month: 'short',
  timeZone: 'UTC',
});
const shortDay = (date = '') => (date === '' ? '' : dayFormat.format(new Date(date)));

/** Draws a bar or line chart over days. The table below the chart has the same figures. */
export function Plot({
  title,
  kind,
  unit = '',
  minStep = 1,
  points,
}: {
  title: string;
  kind: 'bars' | 'line';
  unit?: string;
  /** Minimum distance between two grid lines. */
  minStep?: number;
  points: readonly Point[];
}): ReactElement {
  const values = points.map(({ value }) => value ?? 0);
  const step = stepFor(Math.max(...values.map(Math.abs), 0), minStep);
  const ceiling = Math.max(step, Math.ceil(Math.max(...values, 0) / step) * step);
  const floor = Math.floor(Math.min(...values, 0) / step) * step;
  const x = (index: number) => LEFT + ((index + 0.5) * (WIDTH - LEFT)) / points.length;
  const y = (value: number) =>
    TOP + ((ceiling - value) / (ceiling - floor)) * (HEIGHT - TOP - BOTTOM);
  const ticks = Array.from(
    { length: Math.round((ceiling - floor) / step) + 1 },
    (_, index) => floor + index * step,
  );
  const thickness = Math.max(1, ((WIDTH - LEFT) / points.length) * 0.7);
  const drawn = points.flatMap(({ value }, index) =>
    value === undefined ? [] : [[x(index), y(value)] as const],
  );
  const line = drawn.map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${px} ${py}`).join('');
  const [first, last] = [drawn[0], drawn.at(-1)];
  return (
    <section className="card plot" aria-label={title}>
      <h2>{title}</h2>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${title}, by day; the table below has the figures`}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line className="grid" x1={LEFT} x2={WIDTH} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 8} y={y(tick) + 3} textAnchor="end">
              {label(tick)}
              {unit}
            </text>
          </g>
        ))}
        {kind === 'bars' &&
          points.map(({ date, value = 0, text }, index) => (
            <rect
              key={date}
              className="bar"
              x={x(index) - thickness / 2}
              y={y(Math.max(0, value))}
              width={thickness}
              height={Math.abs(y(0) - y(value))}
              rx={Math.min(2, thickness / 2)}
            >
              <title>{`${date}: ${text}`}</title>
            </rect>
          ))}
        {kind === 'line' && first !== undefined && last !== undefined && (
          <>
            <path className="area" d={`${line}L${last[0]} ${y(0)}L${first[0]} ${y(0)}Z`} />
            <path className="curve" d={line} />
            {drawn.length <= 7 &&
              drawn.map(([px, py]) => <circle key={px} className="dot" cx={px} cy={py} r={3} />)}
          </>
        )}
        {points.length > 0 && (
          <>
            <text x={LEFT} y={HEIGHT - 4}>
              {shortDay(points[0]?.date)}
            </text>
            <text x={WIDTH} y={HEIGHT - 4} textAnchor="end">
              {shortDay(points.at(-1)?.date)}
            </text>
          </>
        )}
      </svg>
      <details>
        <summary>Show as a table</summary>
        <Table
          label={`${title} as a table`}
          rows={[...points].reverse().map((point) => ({ ...point, id: point.date }))}
          columns={[
            { head: 'Day (UTC)', cell: ({ date }) => date },
            { head: title, isNumber: true, cell: ({ text }) => text },
          ]}
        />
      </details>
    </section>
  );
}
