// The sandbox's screen as a component. In a terminal, with everything running:
// test/cli/local/sandbox.test.ts.
import stringWidth from 'string-width';
import t from 'tap';
import {
  type Flow,
  SandboxScreen,
  type SandboxView,
} from '../../../src/cli/terminal/sandbox-screen.tsx';
import { renderScreen } from '../../fixtures/screen.ts';
import { until } from '../../fixtures/webhooks.ts';

const flow: Flow = {
  chainTime: new Date('2027-03-02T10:00:00Z'),
  totals: {
    active: 44,
    pastDue: 3,
    cancelled: 2,
    expired: 1,
    succeeded: 253,
    refused: 38,
    gross: 3_162_500_000n,
    fees: 31_625_000n,
    net: 3_130_875_000n,
    taken: 369,
    waiting: 5,
    givenUp: 0,
    attempts: 406,
  },
  payments: Array.from({ length: 100 }, (_, index) => ({
    id: String(index),
    occurredAt: new Date('2027-03-02T09:59:00Z'),
    subscriberWallet: '7xKpQ9dVfY4m2wZzTtLr8uNcHgEaBbSsJj3Qm2Rr5TyU',
    appName: index === 0 ? '\x1b[2J\u202e東京🎉'.repeat(30) : 'Tea house',
    gross: 12_500_000n,
    fee: 125_000n,
    net: 12_375_000n,
    failureReason: index === 1 ? 'insufficient_balance' : null,
  })),
  webhooks: Array.from({ length: 100 }, (_, index) => ({
    deliveryId: String(index),
    number: index === 1 ? 2 : 1,
    startedAt: new Date('2026-11-21T09:00:00Z'),
    durationMs: 12,
    httpStatus: index === 1 ? 503 : 204,
    error: null,
    eventType: 'payment_success',
    appName: index === 0 ? '\x1b[2J\u202e東京🎉'.repeat(30) : 'Tea house',
  })),
  restarts: 2,
};
const view: SandboxView = {
  flow,
  step: 'period 3 of 6: due payments are settled',
  outcome: null,
  asOf: new Date(),
  waitingSince: null,
  failure: null,
};

for (const size of [
  { columns: 80, rows: 24 },
  { columns: 200, rows: 50 },
  { columns: 24, rows: 8 },
]) {
  void t.test(
    `at ${size.columns}x${size.rows} the sandbox screen shows sums and the newest rows, no line too wide`,
    async (t) => {
      const commands: string[] = [];
      let stopped = 0;
      const source = {
        apiUrl: 'http://127.0.0.1:45671',
        pages: [['Subscribe', 'http://127.0.0.1:45672/subscribe']] as const,
        wallets: 'in wallets, with the file env',
        watch(report: (view: SandboxView) => void) {
          report(view);
          return { stop: () => (stopped += 1) };
        },
      };
      const { text, lines, shows, press } = await renderScreen(
        t,
        <SandboxScreen source={source} onCommand={(command) => commands.push(command)} />,
        size,
      );
      await shows(/44 active/);
      if (size.columns >= 80) {
        t.match(text(), /^Sandbox {3}2027-03-02 10:00:00 on the chain +live, as of/);
        t.match(text(), 'period 3 of 6: due payments are settled');
        t.match(text(), /Payments +253 collected +38 could not be/);
        t.match(text(), 'USDC      3162.50 = 3130.875 to merchants + 31.625 fees');
        t.match(text(), /Webhooks +369 delivered +5 waiting +0 failed +406 requests/);
        t.match(text(), '7xKpQ…5TyU  ── 12.50 ──▶ Tea house 12.375, fee 0.125');
        t.match(text(), '──✗ 12.50  insufficient_balance');
        t.match(text(), /payment_success +──▶ Tea house {2}503 in 12 ms, attempt 2/);
        t.match(text(), /http:\/\/127\.0\.0\.1:45671 +2 restarts of killed processes/);
        t.match(lines().at(-1), /^q stop everything {2}k URLs, keys and tokens {2}d deliveries/);
      }
      // Where not all has room, the first lines stand as they are, and the foot stays.
      t.match(lines()[2], /^Subscribe /);
      t.match(lines()[4], /^Payers +44 active/);
      t.match(lines().at(-1), /^q stop everything/);
      t.ok(lines().length < size.rows);
      t.ok(lines().every((line) => stringWidth(line) <= size.columns));
      t.notMatch(text(), '\u202e');
      press('k');
      await until(() => stopped === 1);
      t.same(commands, ['access']);
    },
  );
}
