import { pino } from 'pino';
import postgres from 'postgres';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import { createHealth } from '../../src/daemon/health.ts';
import { stopClock } from '../fixtures/clock.ts';

const lost = () =>
  Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' });

function health(t: Test) {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as never) });
  const registry = new Registry();
  const wait = stopClock(t);
  let begun = 0;
  const made = createHealth(
    registry,
    () => log,
    () => (begun += 1),
  );
  return { ...made, lines, registry, begun: () => begun, wait };
}

void t.test('an outage of Postgres is logged once when it starts and once when it ends', (t) => {
  const { takes, failed, written, trouble, lines, begun } = health(t);
  written();
  t.equal(takes(new Error('a bug')), false);
  t.equal(trouble(), undefined);
  for (let n = 0; n < 50; n += 1) t.equal(takes(lost()), true);
  failed({}, 'collecting', lost());
  t.match(trouble(), /Postgres is unavailable: write CONNECTION_CLOSED/);
  t.equal(begun(), 1);
  const readOnly = Object.assign(new Error('cannot execute INSERT'), { code: 'CONNECTION_CLOSED' });
  takes(readOnly);
  t.match(trouble(), /cannot execute INSERT/, 'the newest reason');
  written();
  t.match(lines, [
    { level: 50, msg: 'Postgres is unavailable' },
    { level: 30, msg: 'Postgres is available again' },
  ]);
  t.equal(lines.length, 2);
  t.end();
});

void t.test('a daemon that has ended logs nothing about its closed connections', (t) => {
  const { takes, ended, lines, begun } = health(t);
  ended();
  t.equal(takes(lost()), true);
  t.equal(takes(new Error('a bug')), false, 'a bug still ends the process');
  t.same([lines.length, begun()], [0, 0]);
  t.end();
});

void t.test(
  'a full disk and a read-only server count as outages, a slow statement does not',
  (t) => {
    const { takes } = health(t);
    const error = (code: string) =>
      Object.assign(new postgres.PostgresError(code as never), { code });
    for (const code of ['25006', '53100', '53300', '57P01', '57P03', '08006'])
      t.equal(takes(error(code)), true, code);
    for (const code of ['57014', '55P03', '23505', '42P01'])
      t.equal(takes(error(code)), false, code);
    t.end();
  },
);

void t.test(
  'the health report names a failing loop until a run of the loop succeeds or the loop stops',
  async (t) => {
    const { failed, succeeded, stopped, trouble, wait, registry } = health(t);
    const [one, two] = [{}, {}];
    failed(one, 'collecting', new Error('out of luck'));
    t.equal(trouble(), undefined, 'one failed turn is no trouble');
    wait(6000);
    failed(one, 'collecting', new Error('still out of luck'));
    failed(two, 'settling', new Error('new'));
    t.equal(trouble(), '"collecting" has failed for 6 s: still out of luck');
    succeeded(one);
    t.equal(trouble(), undefined);
    wait(6000);
    t.match(trouble(), /settling/);
    stopped(two);
    t.equal(trouble(), undefined);
    failed(one, 'collecting', new RpcUnreachable('getSlot', []));
    wait(60_000);
    t.equal(trouble(), undefined, 'the keeper reports an outage of the chain by itself');
    t.match(
      await registry.metrics(),
      /billing_loop_failures_total\{loop="collecting",cause="other"\} 2/,
    );
  },
);
