// Monthly statements, as a file and as a page to print.
import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatSol } from '../../../format.ts';
import { wordsOf } from '../../shared/errors.ts';
import { formatExact } from '../../shared/money.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import { type Column, Table } from '../../shared/table.tsx';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { openDocument, saveFile } from '../parts/file.ts';
import { Loading } from '../parts/loading.tsx';

type Statement = components['schemas']['Statement'];
type Sums = Omit<Statement['daily'][number], 'date'>;

/** Number of months to choose from. The API also has older months. */
const MONTHS = 36;

/** Returns the months in UTC, such as `2026-11`, from the current month backwards. */
function monthsUntil(now: Date): readonly string[] {
  const at = (back: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back));
  return Array.from({ length: MONTHS }, (_, back) => at(back).toISOString().slice(0, 7));
}

const monthName = (month: string) =>
  new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(
    new Date(`${month}-01T00:00:00Z`),
  );

export function Statements({ context: { session, app } }: { context: AppContext }): ReactElement {
  const [months] = useState(() => monthsUntil(new Date()));
  const [month = '', setMonth] = useState(months[0]);
  const [busy, setBusy] = useState<'csv' | 'page'>();
  const [problem, setProblem] = useState<string>();
  const ask = useCallback(
    () =>
      session.client.get('/merchant/apps/{appId}/statements/{month}', {
        path: { appId: app.id, month },
      }),
    [session, app.id, month],
  );
  const { data, error } = useResponse(ask);
  const path = { appId: app.id, month };
  const { client } = session;
  const work = async (what: 'csv' | 'page', run: () => Promise<void>) => {
    setBusy(what);
    setProblem(undefined);
    await run().catch((failure: unknown) => setProblem(wordsOf(failure)));
    setBusy(undefined);
  };
  const save = async () =>
    saveFile(
      await client.file('/merchant/apps/{appId}/statements/{month}/csv', { path }),
      `statement-${month}.csv`,
    );
  const open = () =>
    openDocument(() => client.file('/merchant/apps/{appId}/statements/{month}/page', { path }));

  return (
    <>
      <div className="view-head">
        <h1>Statements</h1>
        <Button busy={busy === 'csv'} onClick={() => void work('csv', save)}>
          Download CSV
        </Button>
        <Button busy={busy === 'page'} onClick={() => void work('page', open)}>
          Open to print
        </Button>
      </div>
      <div className="filters">
        <label>
          Month
          <select value={month} onChange={({ target }) => setMonth(target.value)}>
            {months.map((one) => (
              <option key={one} value={one}>
                {monthName(one)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
      {data?.month === month ? <Figures statement={data} /> : <Loading error={error} />}
    </>
  );
}

const usdc = (units: string) => `${formatExact(units)} USDC`;
const figures: readonly (readonly [name: string, text: (sums: Sums) => string])[] = [
  ['Gross', ({ gross }) => usdc(gross)],
  ['Platform fees', ({ fees }) => usdc(fees)],
  ['Net', ({ net }) => usdc(net)],
  ['Refunded', ({ refunded }) => usdc(refunded)],
  ['Net after refunds', ({ netAfterRefunds }) => usdc(netAfterRefunds)],
  ['Sponsored by the service', ({ sponsoredLamports }) => `${formatSol(sponsoredLamports)} SOL`],
  ['Payments', ({ payments }) => String(payments)],
  ['Refunds', ({ refunds }) => String(refunds)],
];

type DayRow = Sums & { id: string };
const columns: readonly Column<DayRow>[] = [
  { head: 'Day, UTC', cell: ({ id }) => id },
  ...figures.map(([head, text]) => ({ head, isNumber: true, cell: text })),
];

function Figures({ statement }: { statement: Statement }): ReactElement {
  const days = statement.daily.filter(
    ({ payments, refunds, sponsoredLamports }) =>
      payments > 0 || refunds > 0 || sponsoredLamports !== '0',
  );
  return (
    <>
      <dl className="tiles">
        {figures.map(([name, text]) => (
          <div className="tile" key={name}>
            <dt>{name}</dt>
            <dd>{text(statement)}</dd>
          </div>
        ))}
      </dl>
      {days.length === 0 ? (
        <p className="muted">Nothing was paid or refunded in this month.</p>
      ) : (
        <Table
          label="Days"
          rows={days.map(({ date, ...sums }) => ({ id: date, ...sums }))}
          columns={columns}
        />
      )}
      <p className="muted small">
        Payments and refunds by the time of their transfer, in UTC; equal to the overview’s figures
        for the same days. The files have a line with its signature for each of them.
      </p>
    </>
  );
}
