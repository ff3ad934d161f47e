// The dispatcher: claims due deliveries, signs and posts them, records what came of it. Any number of them work on one database.
//
//   NOTIFY, poll, a lane that runs dry -> turn: scout -> leases -> lanes -> sender ... answer -> recorder -> Postgres
//
// No transaction is open while a request is. A delivery is sent at least once: what a dispatcher that dies had in hand is sent again by another
// once its lease has passed.
import { setTimeout as delay } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { required, type Config } from '../config.ts';
import type { Sql } from '../db/connect.ts';
import { countDue, readDue, recordOutcomes, type DueDelivery, type Grant } from '../db/deliveries.ts';
import { deliveriesQueued, idsIn } from '../db/notify.ts';
import { connectQueue } from '../db/queue-connection.ts';
import { secretBox } from '../domain/secrets.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { startLoop } from '../loop.ts';
import { databaseClock } from './clock.ts';
import { createConnections } from './connections.ts';
import { createDeadlines } from './deadlines.ts';
import { createGuard } from './guard.ts';
import { createLanes } from './lanes.ts';
import { createLeases, type Lease } from './leases.ts';
import { busyLoad, createLoad, spareLoad } from './load.ts';
import { createMetrics } from './metrics.ts';
import { deadlineMs } from './post.ts';
import { createRecorder } from './recorder.ts';
import { startRetention } from './retention.ts';
import { createScout } from './scout.ts';
import { createSender } from './sender.ts';
import { createTargets } from './targets.ts';

export interface DispatcherResources {
  sql: Sql;
  config: Config;
  log: Log;
  registry: Registry;
}

export interface Dispatcher {
  /** Why deliveries do not go out right now; undefined when they do. */
  ready(): string | undefined;
  /** Claims nothing more, waits for the answers that are outstanding and writes them. What was not sent goes back with no attempt counted. */
  stop(): Promise<void>;
}

/** Completions, sweeps and gauges; reads and leases have one of their own. */
const queueConnections = 4;
/** What must be left of a lease, beyond the deadline, when a request starts: time to write its outcome. */
const marginMs = 500;
/** Under load the next read waits so long for more lanes to run dry: fewer and larger reads cost less. */
const gatherMs = 8;
const gaugeMs = 15_000;
const dueCountLimit = 100_000;
/** A dispatcher with little to do asks so often for endpoints of others, and for so many at once. */
const wantMs = 1000;
const wantLimit = 16;
/** What was handed over is left to the others for so long: they look each second. */
const handOverMs = 5000;

/** Starts delivering. Throws an OperatorError when the lease is not longer than the time that endpoints have to answer. */
export async function startDispatcher({ sql, config, log, registry }: DispatcherResources, { pollMs = 1000 } = {}): Promise<Dispatcher> {
  const leaseMs = config.webhookLease * 1000;
  if (leaseMs < deadlineMs + 2 * marginMs) {
    throw new OperatorError(
      `WEBHOOK_LEASE_SECONDS is ${config.webhookLease}, and must be longer than the ${deadlineMs / 1000} s that an endpoint has to answer: give 6 or more.`,
      2,
    );
  }
  const queue = connectQueue(sql, queueConnections);
  const reads = connectQueue(sql, 1, { durable: false });
  const clock = databaseClock();
  const lanes = createLanes({ total: config.webhookConcurrency, perEndpoint: config.webhookEndpointConcurrency });
  const leases = createLeases(reads, { leaseMs, reserveMs: deadlineMs + marginMs });
  const measureLoad = createLoad(() => lanes.inFlight / config.webhookConcurrency);
  const scout = createScout({ queue, clock, lanes, pollMs });
  const guard = createGuard({ enabled: config.webhookGuard, allow: config.webhookAllowCidrs, nameServers: config.webhookNameServers });
  const connections = createConnections(guard, deadlineMs);
  const targets = createTargets(queue, secretBox(required(config, 'encryptionKeys').encryptionKeys), (endpointId, error) =>
    log.error({ endpointId }, `deliveries to this endpoint wait: ${messageOf(error)}`),
  );
  const recorder = createRecorder({
    async write(outcomes) {
      await leases.settled();
      const written = await recordOutcomes(queue, outcomes);
      metrics.staleOutcomes(outcomes.length - written);
      lanes.done(outcomes.map(({ id }) => id));
      if (lanes.hungry) loop.wake();
    },
    onError: (error, failures) => log.warn({ failures }, `outcomes cannot be written and are kept: ${messageOf(error)}`),
  });
  const metrics = createMetrics(registry, { inFlight: () => lanes.inFlight, waiting: () => recorder.waiting });
  const sender = createSender({
    connections,
    deadlines: createDeadlines(deadlineMs),
    clock,
    lanes,
    recorder,
    metrics,
    onFree: () => sendOn(),
  });

  let trouble: string | undefined;
  let workedAt = performance.now();
  let stopping = false;

  const sendOn = () => {
    if (stopping) return;
    for (let start = lanes.next(); start !== undefined; start = lanes.next()) sender.send(start, targets.get(start.delivery.endpointId));
    if (lanes.hungry) loop.wake();
  };

  // A dispatcher keeps an endpoint for as long as there is something to send to it, unless another has less to do and asks for it.
  let wantedAt = 0;
  const share = async (held: ReadonlyMap<string, Lease>, grants: readonly Grant[]) => {
    const load = measureLoad();
    for (const [endpointId, lease] of held) {
      if (!lease.wanted) continue;
      lease.wanted = false;
      if (load >= busyLoad) lanes.leave(endpointId);
    }
    const others = new Set(grants.flatMap(({ endpointId }) => (held.has(endpointId) ? [] : [endpointId])));
    if (others.size === 0 || load > spareLoad || performance.now() - wantedAt < wantMs) return;
    wantedAt = performance.now();
    await leases.want([...others].slice(0, wantLimit));
  };

  const read = async () => {
    const left = lanes.left(handOverMs);
    if (left.length > 0) await leases.give(left);
    const grants = lanes.grant();
    if (grants.length === 0) {
      sendOn();
      return;
    }
    const held = await leases.hold(grants.map(({ endpointId }) => endpointId));
    const claimed = grants.flatMap((grant) => {
      const lease = held.get(grant.endpointId);
      return lease === undefined ? [] : [{ ...grant, claimId: lease.claimId }];
    });
    const deliveries = claimed.length === 0 ? [] : await readDue(reads, claimed);
    await targets.load(endpointsOf(deliveries));
    const sendable = ({ endpointId, endpointDeleted }: DueDelivery) => !endpointDeleted && targets.has(endpointId);
    for (const { id, endpointId, attempts, endpointDeleted } of lanes.filled(grants, held, deliveries, sendable)) {
      const claimId = held.get(endpointId)?.claimId;
      if (endpointDeleted && claimId !== undefined) {
        recorder.add({ id, endpointId, claimId, attempts, status: 'cancelled', dueAt: null, attempt: null });
      } else {
        // Without its secret it cannot be signed: it waits, and is then tried again.
        lanes.done([id]);
        lanes.pause(endpointId, leaseMs);
      }
    }
    sendOn();
    await share(held, grants);
  };

  const loop = startLoop({
    idleMs: pollMs,
    async turn() {
      await scout.look();
      await read();
      if (trouble !== undefined) log.info('deliveries go out again');
      trouble = undefined;
      workedAt = performance.now();
      if (lanes.hungry && !lanes.starved && lanes.inFlight > config.webhookConcurrency / 2) await delay(gatherMs);
      return lanes.hungry;
    },
    onError(error, failures) {
      trouble = `no deliveries go out: ${messageOf(error)}`;
      log.error({ failures, err: error }, trouble);
      // Grants of the failed turn came to nothing.
      lanes.failed();
      scout.sweepNext();
    },
  });

  const gauges = startLoop({
    idleMs: gaugeMs,
    async turn() {
      metrics.queue(await countDue(queue, dueCountLimit), scout.oldestMs);
      return false;
    },
    // The main loop reports the same outage.
    onError: () => undefined,
  });
  const retention = startRetention(sql, {
    deliveryDays: config.deliveryRetentionDays,
    eventDays: config.eventRetentionDays,
    onPurged: (table, count) => metrics.purged(table, count),
    onError: (error, failures) => log.warn({ failures }, `old rows cannot be deleted: ${messageOf(error)}`),
  });

  const hear = (payload: string) => {
    scout.hear(idsIn(payload));
    loop.wake();
  };
  // Also when the connection is made again: something may have been missed.
  await queue.listen(deliveriesQueued, hear, () => hear(''));

  return {
    ready() {
      const silentMs = performance.now() - workedAt;
      return trouble ?? (silentMs > 5 * pollMs + 5000 ? `Postgres has not answered for ${Math.round(silentMs / 1000)} s` : undefined);
    },
    async stop() {
      stopping = true;
      await loop.stop();
      await sender.drained();
      await recorder.settled();
      // Where it cannot be said, the leases pass by themselves.
      await leases.release().catch(() => undefined);
      connections.close();
      await Promise.all([gauges.stop(), retention.stop()]);
      await Promise.all([queue.end({ timeout: 1 }), reads.end({ timeout: 1 })]);
    },
  };
}

/** They come endpoint by endpoint. */
function endpointsOf(deliveries: readonly DueDelivery[]): Set<string> {
  const ids = new Set<string>();
  let last = '';
  for (const { endpointId } of deliveries) if (endpointId !== last) ids.add((last = endpointId));
  return ids;
}
