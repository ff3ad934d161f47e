// The deliveries screen as a component: what it shows of the views that its source reports. In a
// terminal, with Postgres: test/cli/operate/deliveries.test.ts.
import stringWidth from 'string-width';
import t, { type Test } from 'tap';
import { DeliveriesScreen } from '../../../src/cli/terminal/deliveries-screen.tsx';
import type { DetailView, DeliveriesSource } from '../../../src/cli/terminal/deliveries-screen.tsx';
import {
  type DeliveryFilter,
  type DeliveryItem,
  type ListView,
  noFilter,
  noRows,
} from '../../../src/cli/terminal/deliveries-state.ts';
import { renderScreen } from '../../fixtures/screen.ts';
import { until } from '../../fixtures/webhooks.ts';
import { whole } from '../../fixtures/whole-delivery.ts';

const item = (number: number, fields: Partial<DeliveryItem> = {}): DeliveryItem => ({
  id: `01a1feba-0000-7000-8000-${String(number).padStart(12, '0')}`,
  status: 'failed',
  eventType: 'payment_success',
  attempts: 6,
  createdAt: new Date(Date.UTC(2026, 10, 21, 9, 0, number)),
  appName: `app ${number}`,
  url: `https://example.com/${number}`,
  lastStatus: 500,
  lastError: null,
  ...fields,
});

/** Newest first. */
const items = (from: number, to: number) =>
  Array.from({ length: from - to + 1 }, (_, index) => item(from - index));

/** A source that reports what the test says. */
function stagedSource() {
  let report: (list: ListView) => void = () => undefined;
  let reportOne: ((detail: DetailView) => void) | undefined;
  const filters: DeliveryFilter[] = [];
  let wanted = 0;
  const source: DeliveriesSource = {
    watch(filter, given) {
      filters.push(filter);
      report = given;
      return {
        want(rows) {
          wanted = Math.max(wanted, rows);
        },
        readNow: () => undefined,
        stop: () => undefined,
      };
    },
    watchOne(_id, given) {
      reportOne = given;
      return { readNow: () => undefined, stop: () => undefined };
    },
    apps: () => Promise.resolve([]),
    watchReplay: () => ({ stop: () => undefined }),
    previewReplay: () => Promise.reject(new Error('Postgres did not answer within 5 s')),
  };
  return {
    source,
    filters,
    wanted: () => wanted,
    report: (list: Partial<ListView>) => report({ ...noRows, asOf: new Date(), ...list }),
    /** Waits until one is asked for, which comes after the picture. */
    reportOne: async (item: DetailView['item']) => {
      await until(() => reportOne !== undefined);
      reportOne?.({ item, asOf: new Date(), waitingSince: null, failure: null });
    },
  };
}

async function screen(t: Test, size = { columns: 80, rows: 24 }) {
  const staged = stagedSource();
  const rendered = await renderScreen(
    t,
    <DeliveriesScreen source={staged.source} filter={noFilter} types={['payment_success']} />,
    size,
  );
  return { ...staged, ...rendered };
}

const cursorLine = (lines: string[]) => lines.find((line) => line.startsWith('>'));

void t.test(
  'when rows arrive, the cursor stays on its row and its row stays in place, except at the top',
  async (t) => {
    const { report, shows, press, lines } = await screen(t);
    report({ rows: items(50, 1) });
    await shows('1 of 50');
    report({ rows: items(51, 1) });
    await shows('1 of 51');
    t.match(cursorLine(lines()), 'app 51', 'without a chosen row: the newest');
    press('j', 'j', 'j');
    await shows('4 of 51');
    const at = lines().findIndex((line) => line.startsWith('>'));
    t.match(lines()[at], 'app 48');
    report({ rows: items(60, 1) });
    await shows('13 of 60');
    t.match(lines()[at], /^>.*app 48/);
  },
);

void t.test('a list that fits on the screen is shown from its first row', async (t) => {
  const { report, shows, press, lines } = await screen(t);
  report({ rows: items(50, 1) });
  await shows('1 of 50');
  press('G');
  await shows('50 of 50');
  report({ rows: items(5, 1) });
  await shows('5 of 5');
  t.match(cursorLine(lines()), 'app 1');
  t.equal(lines().filter((line) => / app \d/.test(line)).length, 5, 'none is scrolled away');
});

void t.test('scrolling requests more rows before the end of the list is reached', async (t) => {
  const { report, shows, press, wanted } = await screen(t);
  report({ rows: items(100, 1), more: true });
  await shows('1 of 100 or more');
  const before = wanted();
  press('G');
  await shows('100 of 100 or more');
  // What is asked for comes after the picture.
  await until(() => wanted() > 100);
  t.ok(wanted() > before);
});

void t.test(
  'foreign text stays inside its column, and no line is wider than the terminal',
  async (t) => {
    const evil = '\x1b[2J\x07\u202eevil\n\t東京🎉'.repeat(20);
    for (const columns of [20, 80, 130, 200]) {
      const { report, shows, lines, text } = await screen(t, { columns, rows: 24 });
      report({
        rows: [
          item(1, { appName: evil, url: evil, lastError: 'timeout' }),
          item(2, { appName: evil }),
        ],
      });
      await shows(/^>/m);
      t.ok(
        lines().every((line) => stringWidth(line) <= columns),
        `at ${columns} columns`,
      );
      t.ok(lines().length < 24);
      t.notMatch(text(), /[\x07\u202e]/);
    }
  },
);

void t.test(
  'a failed read is shown beside the age of the rows; a replay that cannot be counted cannot be confirmed',
  async (t) => {
    const { report, shows, press, text } = await screen(t);
    report({ rows: items(3, 1) });
    await shows('live, as of');
    report({
      rows: items(3, 1),
      asOf: new Date(Date.now() - 65_000),
      failure: 'Postgres did not answer within 5 s',
    });
    await shows('1 min ago · Postgres did not answer within 5 s');
    press('r');
    await shows(/Replay of delivery [^]*Postgres did not answer within 5 s/);
    t.notMatch(text(), 'y/N');
    press('y');
    await shows('app 3');
  },
);

void t.test(
  'a chosen filter is requested from the source at once; results of another filter are not shown',
  async (t) => {
    const { report, shows, press, filters, text } = await screen(t);
    report({ rows: items(3, 1) });
    await shows('1 of 3');
    press('s');
    await shows('Which status?');
    press('d', 'e', 'l', '\r');
    await shows('status delivered');
    await until(() => filters.at(-1)?.status === 'delivered');
    t.same(filters.at(-1), { ...noFilter, status: 'delivered' });
    await shows('Reading...');
    t.notMatch(text(), 'app 3');
    report({ rows: [], asOf: null, readBackTo: new Date(Date.UTC(2026, 1, 1)) });
    await shows('looked back to 2026-02-01 00:00:00');
    report({ rows: [] });
    await shows('No delivery matches.');
  },
);

void t.test('a key press applies to the screen that was drawn when it was pressed', async (t) => {
  const { report, reportOne, shows, drawn, press } = await screen(t);
  report({ rows: items(3, 1) });
  await shows('1 of 3');
  press('\r');
  await shows('Reading...');
  const read = drawn('lines 1 to').then(() => press(' '));
  await reportOne({
    ...whole,
    body: JSON.stringify(Array.from({ length: 100 }, (_, line) => line)),
  });
  await read;
  await shows('lines 19 to');
});
