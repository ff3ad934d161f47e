// The faults of the night on one Postgres: how each begins and ends, and how long healing may take
// where a backoff is documented.
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { type Daemon, type Ground, names } from './ground.ts';
import { maxConnections, type Single } from './postgres.ts';

/** `G`: the ground that it needs. */
export interface Fault<G extends Ground> {
  name: string;
  begin(ground: G): unknown;
  /** Undefined for a fault that is over as soon as it has begun. */
  end?(ground: G): unknown;
  /**
   * Preparation before the fault; `round` makes every subscription due and waits for all payments.
   */
  prepare?(ground: G, round: () => Promise<void>): Promise<void>;
  /** The signals that count as its detection; default: any. */
  by?: RegExp;
  /** Seconds within which the fault must be seen, and why it takes longer than 30. */
  sees?: { seconds: number; because: string };
  /**
   * Seconds within which the fault may heal, and the document that says why it takes longer than
   * 30.
   */
  heals?: { seconds: number; because: string };
  /** Whether this machine supports it; default: yes. */
  isPossible?(ground: G): boolean;
  /** The fault has no visible effect, so no signal is expected. */
  harmless?: boolean;
  /**
   * The fault makes the keepers pull some periods twice. These pulls must be seen, and be recorded
   * as further payments.
   */
  doubles?: boolean;
}

type SingleGround = Ground & Single;

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

let hogs: Sql[] = [];

/** Takes every connection that is left, including the connections of the daemons. */
async function hog({ url, sql }: Ground): Promise<void> {
  const take = async () => {
    const one = connect(url, { max: 1, name: 'billing hog' });
    hogs.push(one);
    await one`select 1`;
  };
  for (let round = 0; round < 3; round += 1) {
    await sql()`
      select pg_terminate_backend(pid) from pg_stat_activity where usename ~ '_(serve|keeper|dispatch)$'`;
    await Promise.allSettled(Array.from({ length: maxConnections }, take));
  }
}

const restart = async ({ postgres }: SingleGround) => {
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

export async function succeed({ command }: Ground, ...args: string[]): Promise<void> {
  const { code, stdout } = await command(...args);
  if (code !== 0) throw new Error(`billing ${args.join(' ')}: exit code ${code}\n${stdout}`);
}

const readers: Daemon[] = ['serve', 'dispatch'];
let oldKey = '';
const newKey = randomBytes(32).toString('base64');
const bothKeys = () => ({ ENCRYPTION_KEY: `${newKey},${oldKey}` });

/** A backup, and a round of payments that it lacks. */
async function makeBackup(ground: SingleGround, round: () => Promise<void>): Promise<void> {
  const { postgres, restart } = ground;
  await restart(names, {
    meanwhile: async () => {
      await postgres.stop();
      await postgres.backUp();
      await postgres.start();
    },
  });
  await round();
}

/**
 * A backup, a round of payments that it lacks, and a rotation of the key that its webhook secrets
 * are encrypted with (docs/operators.md).
 */
async function outdateBackup(ground: SingleGround, round: () => Promise<void>): Promise<void> {
  const { restart, env } = ground;
  await makeBackup(ground, round);
  oldKey = env.ENCRYPTION_KEY ?? '';
  await restart(readers, { env: bothKeys() });
  await succeed(ground, 'keys', 'reseal');
  await restart(readers, { env: { ENCRYPTION_KEY: newKey } });
}

/**
 * Restores the backup as docs/operators.md describes, except for the old key, which was forgotten.
 */
async function restoreBackup(ground: SingleGround, then: () => Promise<void>): Promise<void> {
  const { postgres, restart } = ground;
  await restart(names, {
    meanwhile: async () => {
      await postgres.stop();
      await postgres.restore();
      await postgres.start();
      await then();
    },
  });
}

export async function repair(ground: Ground): Promise<void> {
  const now = Number(await ground.chain.now()) * 1000;
  const day = (days: number) => new Date(now + days * 86_400_000).toISOString();
  await succeed(ground, 'reconcile', '--repair', '--since', day(-60), '--until', day(60));
}

/** Resolves when a keeper has found that payments of the chain are missing. */
export async function isHeld({ sql }: Ground): Promise<void> {
  for (;;) {
    const held = await sql()`select from collection_holds where missing_until is not null`.catch(
      () => [],
    );
    if (held.length > 0) return;
    await pause(100);
  }
}

export const faults: readonly Fault<SingleGround>[] = [
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
    heals: lease,
  },
  {
    name: 'two migrations at once',
    begin: async (ground) => {
      await Promise.all([succeed(ground, 'migrate'), succeed(ground, 'migrate')]);
    },
    harmless: true,
  },
  {
    name: 'restore of an old backup',
    prepare: outdateBackup,
    begin: (ground) => restoreBackup(ground, () => repair(ground)),
    by: /secret/i,
    end: async (ground) => {
      await ground.restart(readers, { env: bothKeys() });
      await succeed(ground, 'keys', 'reseal');
    },
  },
  {
    name: 'restore, and the keeper holds collection',
    prepare: makeBackup,
    begin: (ground) => restoreBackup(ground, () => Promise.resolve()),
    by: /held/i,
    end: async (ground) => {
      await isHeld(ground);
      await repair(ground);
      await succeed(ground, 'collection', 'resume', '--reason', 'reconciled');
    },
    heals: { seconds: 90, because: 'payments that are held are looked at every minute' },
  },
  {
    name: 'chain out of reach',
    begin: ({ rpcWires }) => rpcWires.forEach((wire) => wire.cut()),
    end: ({ rpcWires }) => rpcWires.forEach((wire) => wire.restore()),
  },
  {
    name: 'chain frozen',
    begin: fault({ kind: 'silence' }),
    end: clear,
  },
  {
    name: 'chain answers 429',
    begin: fault({ kind: 'status', status: 429 }),
    end: clear,
  },
  {
    name: 'chain answers 500',
    begin: fault({ kind: 'status', status: 500 }),
    end: clear,
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
    begin: fault({ kind: 'lag', slots: 160 }),
    end: clear,
  },
  {
    name: 'one endpoint dead',
    begin: ({ rpcWires }) => rpcWires[0].cut(),
    end: ({ rpcWires }) => rpcWires[0].restore(),
  },
  {
    name: 'keeper without SOL',
    begin: ({ cheat, keeper }) => cheat('surfnet_setAccount', keeper, { lamports: 0 }),
    end: ({ cheat, keeper }) => cheat('surfnet_setAccount', keeper, { lamports: 100_000_000_000 }),
    heals: { seconds: 60, because: 'what failed for want of SOL is tried again with backoff' },
  },
  {
    name: 'receivers answer 503',
    begin: ({ server, merchants }) => merchants.forEach((_, n) => server.setFailing(n, true)),
    end: ({ server, merchants }) => merchants.forEach((_, n) => server.setFailing(n, false)),
    heals: { seconds: 90, because: 'the first retry comes after a minute' },
  },
];

/** The faults that the suite runs: each takes seconds, and all are of different kinds. */
export const shortFaults = ['dispatch killed', 'chain answers 500', 'Postgres out of reach'];
