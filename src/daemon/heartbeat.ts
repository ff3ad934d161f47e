// The heartbeat of a daemon: a regular write to Postgres. The write also shows whether Postgres
// accepts writes.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import { readRelease } from '../config/release.ts';
import { countLostDaemons, recordStop, writeDaemon } from '../db/operating/daemons.ts';
import { readClockOffset } from '../db/postgres/clock.ts';
import { silenceOf, type Sql } from '../db/postgres/connect.ts';
import { knownSchema } from '../db/postgres/migration-files.ts';
import { startLoop, type Loop } from '../loop.ts';
import { createClockGauge } from './clocks.ts';
import type { Health } from './health.ts';
import type { Readiness } from './metrics.ts';

/** Time between two heartbeats in milliseconds. */
const HEARTBEAT_MS = 5000;
/**
 * Maximum time in milliseconds that a stopping daemon waits until Postgres has recorded the stop.
 */
const STOP_MS = 1000;

interface HeartbeatParts {
  health: Health;
  ready: Readiness;
  registry: Registry;
  /** Returns the chain's time in Unix milliseconds, or null while that time is unknown. */
  chainTime: () => number | null;
}

/**
 * Updates the daemon's row in Postgres every HEARTBEAT_MS. `billing status` reads these rows. Each
 * heartbeat also compares the clocks of Postgres, the host and the chain.
 */
export function startHeartbeat(
  name: string,
  sql: Sql,
  { health, ready, registry, chainTime }: HeartbeatParts,
): { loop: Loop; stop(): Promise<void> } {
  const self = {
    id: randomUUID(),
    name,
    host: hostname(),
    pid: process.pid,
    release: readRelease(),
  };
  let schemaVersion: number | undefined;
  const lost = new Gauge({
    name: 'billing_daemons_lost',
    help: 'Daemons of this kind that ended within 15 minutes without a stop: killed, out of memory, or crashed',
    registers: [registry],
  });
  new Counter({
    name: 'billing_postgres_connections_dropped_total',
    help: 'Connections to Postgres that were dropped because they received nothing',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(silenceOf(sql)?.dropped ?? 0);
    },
  });
  const setClocks = createClockGauge(registry);
  const compare = async () => {
    const postgres = await readClockOffset(sql);
    const chain = chainTime();
    setClocks({ postgres, chain: chain === null ? null : (chain - Date.now()) / 1000 });
  };
  const loop = startLoop({
    name: 'heartbeat',
    idleMs: HEARTBEAT_MS,
    async turn() {
      const trouble = (await ready()) ?? null;
      schemaVersion ??= await knownSchema();
      await writeDaemon(sql, { ...self, schemaVersion, trouble });
      health.written();
      await compare();
      lost.set(await countLostDaemons(sql, name));
      return false;
    },
    // health.ts counts and reports failed heartbeats.
    onError: () => undefined,
  });
  return {
    loop,
    async stop() {
      const recorded = loop.stop().then(() => recordStop(sql, self.id));
      await Promise.race([
        recorded.catch(() => undefined),
        delay(STOP_MS, undefined, { ref: false }),
      ]);
    },
  };
}
