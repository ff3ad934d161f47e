// The faults of the night: how each begins and ends, and how long healing may take where a backoff is documented.
import { connect, type Sql } from '../../src/db/connect.ts';
import { type Daemon, type Ground, maxConnections } from './ground.ts';

export interface Fault {
  name: string;
  begin(ground: Ground): unknown;
  /** Nothing for a fault that is over as soon as it has begun. */
  end?(ground: Ground): unknown;
  /** A metric by which an alert sees it, where readiness need not: its value is above `over`, or has grown by more since the fault began. */
  metric?: { name: string; labels?: RegExp; over?: number; under?: number; grows?: number };
  /** Seconds in which it may heal, and the document that says why it takes longer than 30. */
  heals?: { seconds: number; because: string };
  /** Whether it can be had here; everywhere when absent. */
  isPossible?(ground: Ground): boolean;
  /** It does no harm that anybody could see: nothing is to be seen. */
  harmless?: boolean;
}

const kill =
  (...names: Daemon[]) =>
  ({ daemons }: Ground) => {
    for (const name of names) daemons[name].kill();
  };
const fault = (settings: Record<string, unknown>) => (ground: Ground) =>
  ground.cheat('localnet_setFault', settings);
const clear = (ground: Ground) => ground.cheat('localnet_clearFaults');
const lease = { seconds: 75, because: 'a keeper that dies holds what it had for 45 s' };
const silent = {
  seconds: 75,
  because: 'claims that Postgres took in after the keeper had given them up pass after 45 s',
};
const errors = {
  name: 'billing_rpc_calls_total',
  labels: /outcome="(?!ok|refused|behind)/,
  grows: 0,
};

let hogs: Sql[] = [];

/** Takes every connection that is left, those of the daemons as well. */
async function hog({ postgres, sql }: Ground): Promise<void> {
  const take = async () => {
    const one = connect(postgres.url, { max: 1, name: 'billing hog' });
    hogs.push(one);
    await one`select 1`;
  };
  for (let round = 0; round < 3; round += 1) {
    await sql()`
      select pg_terminate_backend(pid) from pg_stat_activity where usename ~ '_(serve|keeper|dispatch)$'`;
    await Promise.allSettled(Array.from({ length: maxConnections }, take));
  }
}

const restart = async ({ postgres }: Ground) => {
  await postgres.stop();
  await postgres.start();
};

const setReadOnly = async ({ sql }: Ground, value: 'on' | 'off') => {
  const own = await sql().reserve();
  await own`set default_transaction_read_only = off`;
  await own.unsafe(`alter system set default_transaction_read_only = ${value}`);
  await own`select pg_reload_conf()`;
  own.release();
};

export const faults: readonly Fault[] = [
  { name: 'serve killed', begin: kill('serve') },
  { name: 'dispatch killed', begin: kill('dispatch') },
  { name: 'keeper killed', begin: kill('keeper'), heals: lease },
  { name: 'all daemons killed', begin: kill('serve', 'keeper', 'dispatch'), heals: lease },
  {
    name: 'Postgres stopped',
    begin: ({ postgres }) => postgres.stop(),
    end: ({ postgres }) => postgres.start(),
  },
  {
    name: 'Postgres frozen',
    begin: ({ postgres }) => postgres.freeze(true),
    end: ({ postgres }) => postgres.freeze(false),
    heals: silent,
  },
  {
    name: 'four restarts of Postgres',
    begin: async (ground) => {
      for (let n = 0; n < 4; n += 1) await restart(ground);
    },
  },
  {
    name: 'max_connections full',
    begin: hog,
    end: async () => {
      await Promise.all(hogs.map((one) => one.end({ timeout: 0 })));
      hogs = [];
    },
  },
  {
    name: 'connections to Postgres silent',
    begin: ({ postgresWire }) => postgresWire.hold(),
    end: ({ postgresWire }) => postgresWire.release(),
    heals: silent,
  },
  {
    name: 'Postgres out of reach',
    begin: ({ postgresWire }) => postgresWire.cut(),
    end: ({ postgresWire }) => postgresWire.restore(),
  },
  {
    name: 'Postgres read-only',
    begin: (ground) => setReadOnly(ground, 'on'),
    end: (ground) => setReadOnly(ground, 'off'),
  },
  {
    name: 'disk full',
    isPossible: ({ disk }) => disk !== undefined,
    begin: ({ disk }) => disk?.fill(),
    end: ({ disk }) => disk?.free(),
    // BillingLoopFailing.
    metric: { name: 'billing_loop_failures_total', labels: /cause="(?!chain)/, grows: 5 },
    heals: lease,
  },
  {
    name: 'two migrations at once',
    begin: async ({ migrate }) => {
      const codes = await Promise.all([migrate(), migrate()]);
      if (codes.some((code) => code !== 0)) throw new Error(`billing migrate: ${codes.join()}`);
    },
    harmless: true,
  },
  {
    name: 'chain out of reach',
    begin: ({ rpcWires }) => rpcWires.forEach((wire) => wire.cut()),
    end: ({ rpcWires }) => rpcWires.forEach((wire) => wire.restore()),
    metric: { name: 'billing_keeper_rpc_reachable', under: 1 },
  },
  {
    name: 'chain frozen',
    begin: fault({ kind: 'silence' }),
    end: clear,
    metric: { name: 'billing_keeper_rpc_reachable', under: 1 },
  },
  {
    name: 'chain answers 429',
    begin: fault({ kind: 'status', status: 429 }),
    end: clear,
    metric: errors,
  },
  {
    name: 'chain answers 500',
    begin: fault({ kind: 'status', status: 500 }),
    end: clear,
    metric: errors,
  },
  {
    name: 'transactions dropped',
    begin: fault({ kind: 'drop', count: 10 }),
    end: clear,
    harmless: true,
    heals: {
      seconds: 90,
      because: 'a dropped transaction is given up when its blockhash lapses, 150 blocks',
    },
  },
  {
    name: 'one endpoint lags',
    begin: fault({ kind: 'lag', slots: 32 }),
    end: clear,
    metric: { name: 'billing_keeper_endpoint_lag_slots', over: 8 },
  },
  {
    name: 'one endpoint dead',
    begin: ({ rpcWires }) => rpcWires[0].cut(),
    end: ({ rpcWires }) => rpcWires[0].restore(),
    metric: { name: 'billing_keeper_endpoint_up', under: 1 },
  },
  {
    name: 'keeper without SOL',
    begin: ({ cheat, keeper }) => cheat('surfnet_setAccount', keeper, { lamports: 0 }),
    end: ({ cheat, keeper }) => cheat('surfnet_setAccount', keeper, { lamports: 100_000_000_000 }),
    metric: { name: 'billing_keeper_sol', under: 0.005 },
    heals: { seconds: 60, because: 'what failed for want of SOL is tried again with backoff' },
  },
  {
    name: 'receivers answer 503',
    begin: ({ server, merchants }) => merchants.forEach((_, n) => server.setFailing(n, true)),
    end: ({ server, merchants }) => merchants.forEach((_, n) => server.setFailing(n, false)),
    metric: {
      name: 'billing_webhook_attempts_total',
      labels: /outcome="(retried|failed)"/,
      grows: 0,
    },
    heals: { seconds: 90, because: 'the first retry comes after a minute' },
  },
];

/** What the suite runs: in seconds, and each of another kind. */
export const shortFaults = ['dispatch killed', 'chain answers 500', 'Postgres out of reach'];
