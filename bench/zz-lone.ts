import { setTimeout as pause } from 'node:timers/promises';
import { timeOf } from '../src/chain/time.ts';
import { startServer } from './dispatch/harness.ts';
import { register } from './keeper/collect.ts';
import { startKeeper } from './keeper/keeper-process.ts';
import { openPlan, startChain } from './keeper/scene.ts';
import { freePorts } from '../src/local/sandbox/ports.ts';
const BLOCK = Number(process.env.BLOCK ?? 400);
const N = Number(process.env.N ?? 8);
const server = await startServer();
const chain = await startChain(BLOCK);
const db = await server.database('lone');
const plan = await openPlan(chain, 50, 2);
const now = await chain.now();
const first = now + 3600;
await register(db.sql, chain, plan, timeOf(BigInt(now + 365 * 86400)));
await db.sql`update subscriptions s set due_at = v.due, next_payment_due = v.due from (select id, to_timestamp(${first}::int8 + (row_number() over (order by id) - 1) * 600) as due from subscriptions order by id limit ${N}) v where s.id = v.id`;
const [port = 0] = await freePorts(1);
const keeper = await startKeeper(chain, db.url, { METRICS_PORT: String(port) });
const counts = async () => {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const m = new Map<string, number>();
  for (const [, labels = '', v] of text.matchAll(/^billing_rpc_calls_total\{(.*)\} (\d+)$/gm)) {
    const k = /method="(\w+)"/.exec(labels)?.[1] ?? labels;
    m.set(k, (m.get(k) ?? 0) + Number(v));
  }
  return m;
};
await pause(25000);
const before = await counts();
const t0 = Date.now();
for (let paid = 1; paid <= N; paid++) {
  await chain.call('surfnet_timeTravel', {
    absoluteTimestamp: (first + (paid - 1) * 600 + 1) * 1000,
  });
  for (;;) {
    await pause(100);
    const [r] = await db.sql<
      [{ count: number }]
    >`select count(*)::int as count from payments p where status='succeeded' and not exists (select from payment_attempts where state='open')`;
    if (r.count >= paid) break;
  }
}
const after = await counts();
console.log('seconds each', (Date.now() - t0) / 1000 / N);
let sum = 0;
for (const [k, v] of after) {
  const d = (v - (before.get(k) ?? 0)) / N;
  sum += d;
  if (d) console.log(k, d.toFixed(2));
}
console.log('sum', sum);
await keeper.stop();
chain.stop();
await db.drop();
await server.stop();
process.exit(0);
