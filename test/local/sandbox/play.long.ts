// The main job, end to end, as a person runs it. test/cli/local/sandbox.test.ts plays a smaller one
// on a terminal; the longer proof is `npm run seeds` (seeds 1 to 20 and kills).
import t from 'tap';
import type { Summary } from '../../../src/local/sandbox/start.ts';
import { run } from '../../fixtures/command.ts';

const types = [
  'subscription_created',
  'payment_success',
  'payment_failed',
  'cancel_requested',
  'cancel_finalized',
  'cancel_forced',
  'delegation_revoked',
];

void t.test(
  'the sandbox scenario sends all seven events and keeps every invariant despite kill -9',
  async (t) => {
    const [subscribers, periods, kills] = [16, 5, 6];
    const size = `--subscribers ${subscribers} --periods ${periods} --chaos ${kills}`;
    const args = ['sandbox', '--once', '--json', '--seed', '2', ...size.split(' ')];
    const { code, stdout, stderr } = await run(t, args);
    t.equal(stderr, '');
    t.equal(code, 0);
    const summary = JSON.parse(stdout) as Summary;
    t.match(summary, { subscribers, periods });
    for (const type of [...types, 'renewal_upcoming']) t.ok((summary.events[type] ?? 0) > 0, type);
    t.equal(Object.keys(summary.invariants).length, 12);
    for (const [name, holds] of Object.entries(summary.invariants)) t.ok(holds, name);
    t.equal(summary.payments.succeeded, summary.events.payment_success);
    t.ok(
      summary.deliveries.attempts > summary.deliveries.delivered,
      'the failing merchant server cost attempts',
    );
    // The last period is played until ten days before its end.
    t.ok(summary.chainSeconds > (periods * 30 - 11) * 86_400);
    t.equal(
      Object.values(summary.kills).reduce((total, count) => total + count, 0),
      kills,
    );
  },
);
