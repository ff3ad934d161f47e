// The dispatcher: claims due deliveries, posts them and writes their outcomes. Any number of
// dispatchers can share a database.
//
//   queued ---claim---> claimed ---2xx--------------------------> delivered
//     ^                   |   \---410, sixth failure------------> failed
//     |                   |   \---endpoint deleted or disabled--> cancelled
//     |<--any other response or none (due again after a delay)
//     |<--claim expired (the dispatcher died) or released
//
// Queued and claimed deliveries are rows of delivery_queue; finished deliveries are rows of
// deliveries. An outcome is written only while the delivery still has the same claim id. No
// transaction stays open during a request. Delivery is at least once: if a dispatcher crashes, its
// claims expire, and another dispatcher sends the deliveries again.
import type { Registry } from 'prom-client';
import { required, type Config } from '../config/config.ts';
import { type RateShare, startRateShare } from '../daemon/rate-share.ts';
import { countDue } from '../db/delivering/delivery-queue.ts';
import { readOldestMail } from '../db/delivering/mails.ts';
import { connect, type Sql } from '../db/postgres/connect.ts';
import { DELIVERIES_QUEUED, namedIn } from '../db/postgres/notify.ts';
import { findDefaultRows } from '../db/postgres/partitions.ts';
import { databaseTrouble } from '../db/postgres/readiness.ts';
import { daemonLimits } from '../db/postgres/settings.ts';
import { secretBox } from '../domain/accounts/secrets.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { startLoop, type Loop } from '../loop.ts';
import { DEADLINE_MS, WebhookClient } from '../webhooks/http.ts';
import { createSsrfGuard, guardOptions } from '../webhooks/ssrf-guard.ts';
import { Claimer } from './claim.ts';
import { databaseClock } from './clock.ts';
import { Completer } from './complete.ts';
import { Concurrency, type Claimed, type Place, type Ready } from './concurrency.ts';
import { deliver } from './deliver.ts';
import { EndpointCache } from './endpoints.ts';
import { HealthLog } from './health.ts';
import { startMails } from './mail.ts';
import { createMetrics, type DispatchMetrics } from './metrics.ts';
import { Poller } from './poll.ts';
import { startRetention } from './retention.ts';
import { type DispatchTimes, dispatchTimes } from './times.ts';

export interface DispatcherResources {
  sql: Sql;
  config: Config;
  log: Log;
  registry: Registry;
}

/** Number of connections for outcomes, sweeps and gauges. */
const QUEUE_CONNECTIONS = 3;
const MAX_DUE_COUNTED = 100_000;
/**
 * Claiming stops at this number of unwritten outcomes, because deliveries without a written outcome
 * are sent again after a crash.
 */
const MAX_UNWRITTEN = 4000;

/**
 * Starts a dispatcher. Throws an OperatorError when WEBHOOK_LEASE_SECONDS is too short: a claim
 * must outlast the time that an endpoint has to answer.
 */
export async function startDispatcher(
  resources: DispatcherResources,
  times: DispatchTimes = dispatchTimes,
): Promise<Dispatcher> {
  const { webhookLease } = resources.config;
  if (webhookLease * 1000 < DEADLINE_MS + 2 * times.marginMs) {
    throw new OperatorError(
      `WEBHOOK_LEASE_SECONDS is ${webhookLease}, and must be longer than the ${DEADLINE_MS / 1000} s that an endpoint has to answer: give 6 or more.`,
      2,
    );
  }
  const { webhookEndpointConcurrency } = resources.config;
  const share = await startRateShare('webhook', webhookEndpointConcurrency, {
    ...resources,
    countedMs: DEADLINE_MS + times.marginMs,
  });
  const dispatcher = new Dispatcher(resources, share, times);
  await dispatcher.listen();
  return dispatcher;
}

export class Dispatcher {
  readonly #log: Log;
  readonly #config: Config;
  readonly #claimMs: number;
  readonly #queue: Sql;
  readonly #claims: Sql;
  readonly #share: RateShare;
  readonly #times: DispatchTimes;
  readonly #clock = databaseClock();
  readonly #concurrency: Concurrency;
  readonly #claimer: Claimer;
  readonly #poller: Poller;
  readonly #client: WebhookClient;
  readonly #endpoints: EndpointCache;
  readonly #completer: Completer;
  readonly #health: HealthLog;
  readonly #metrics: DispatchMetrics;
  readonly #loops: readonly Loop[];
  readonly #loop: Loop;
  #trouble: string | undefined;
  #isStopping = false;
  #onDrained: () => void = () => undefined;

  constructor(
    { sql, config, log, registry }: DispatcherResources,
    share: RateShare,
    times: DispatchTimes,
  ) {
    this.#times = times;
    this.#share = share;
    this.#log = log;
    this.#config = config;
    this.#claimMs = config.webhookLease * 1000;
    const planned = { planning: 'queue', limits: daemonLimits } as const;
    this.#queue = connect(sql, { max: QUEUE_CONNECTIONS, ...planned });
    this.#claims = connect(sql, { max: 1, ...planned });
    const [queue, claims, clock, claimMs] = [this.#queue, this.#claims, this.#clock, this.#claimMs];
    this.#concurrency = new Concurrency({
      total: config.webhookConcurrency,
      perEndpoint: share.now,
      perEndpointOfAll: config.webhookEndpointConcurrency,
      perHostOfAll: Math.max(config.webhookHostConcurrency, config.webhookEndpointConcurrency),
      onDue: () => this.#sendReady(),
    });
    const concurrency = this.#concurrency;
    const reserveMs = DEADLINE_MS + times.marginMs;
    const claiming = { claims, queue, clock, concurrency, claimMs, reserveMs };
    this.#claimer = new Claimer({ ...claiming, times: times.claim });
    this.#poller = new Poller({ queue, clock, claimer: this.#claimer, times: times.poll });
    this.#client = new WebhookClient(createSsrfGuard(guardOptions(config)), {
      proxy: config.webhookProxy,
    });
    const { encryptionKeys } = required(config, 'encryptionKeys');
    this.#endpoints = new EndpointCache(queue, secretBox(encryptionKeys), (endpointId, error) =>
      log.error({ endpointId, err: error }, 'endpoint secret cannot be decrypted'),
    );
    this.#completer = new Completer({
      queue,
      gatherMs: times.gatherMs,
      onWritten: () => this.#wakeIfHungry(),
      onLost: (count) => this.#metrics.claimsLost.inc(count),
      onError: (error, failures) =>
        log.warn({ failures, err: error }, 'outcomes cannot be written and are kept'),
    });
    this.#health = new HealthLog(queue, {
      disableDays: config.endpointDisableDays,
      times: times.health,
      onDisabled: (endpointId) =>
        log.warn({ endpointId, days: config.endpointDisableDays }, 'webhook endpoint disabled'),
    });
    share.onRenewed = () => {
      this.#claimer.refresh();
      this.#sendReady();
    };
    this.#metrics = createMetrics(registry, {
      inFlight: () => concurrency.inFlight,
      waiting: () => this.#completer.waiting,
    });
    this.#loop = this.#startMainLoop();
    this.#loops = [
      this.#loop,
      this.#startGauges(),
      this.#startRetention(sql),
      this.#health.start(),
      ...this.#startMails(),
    ];
  }

  async listen(): Promise<void> {
    const onNotify = (payload: string) => {
      const { endpoints } = namedIn(payload);
      if (endpoints?.length === 0) return;
      this.#poller.notified(endpoints);
      this.#loop.wake();
    };
    // The last callback runs whenever the connection has been opened. Notifications may have been
    // missed before, so an empty payload means that any endpoint may have new deliveries.
    await this.#queue.listen(DELIVERIES_QUEUED, onNotify, () => onNotify(''));
  }

  /** Returns the reason why no deliveries are sent; undefined when deliveries are sent. */
  async ready(): Promise<string | undefined> {
    return this.#trouble ?? (await databaseTrouble(this.#queue));
  }

  /**
   * Stops claiming, releases unsent claims, waits for the requests in flight and writes their
   * outcomes.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#loop.stop();
    // If releasing fails, the claims expire.
    await this.#claimer.release().catch(() => undefined);
    await new Promise<void>((resolve) => {
      this.#onDrained = resolve;
      if (this.#concurrency.inFlight === 0) resolve();
    });
    await this.#completer.settled();
    this.#client.close();
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await this.#health.write().catch(() => undefined);
    await this.#share.stop();
    await Promise.all([this.#queue.end({ timeout: 1 }), this.#claims.end({ timeout: 1 })]);
  }

  #startMainLoop(): Loop {
    return startLoop({
      name: 'delivering',
      idleMs: () => this.#poller.idleMs,
      turn: async () => {
        await this.#poller.poll();
        if (this.#mayClaim) await this.#prepare(await this.#claimer.claim());
        this.#sendReady();
        if (this.#trouble !== undefined) this.#log.info('deliveries go out again');
        this.#trouble = undefined;
        return false;
      },
      onError: (error, failures) => {
        this.#trouble = `no deliveries go out: ${messageOf(error)}`;
        this.#log.error({ failures, err: error }, 'deliveries do not go out');
        this.#poller.sweepNext();
      },
    });
  }

  #startGauges(): Loop {
    return startLoop({
      name: 'measuring',
      idleMs: this.#times.gaugesMs,
      turn: async () => {
        const { due, oldestDueSeconds, defaultRows, queueOldest } = this.#metrics;
        due.set(await countDue(this.#queue, MAX_DUE_COUNTED));
        oldestDueSeconds.set(this.#poller.oldestMs / 1000);
        if (this.#config.smtpUrl !== undefined)
          queueOldest.set({ queue: 'mails' }, await readOldestMail(this.#queue));
        const tables = await findDefaultRows(this.#queue);
        for (const [table, isUsed] of Object.entries(tables))
          defaultRows.set({ table }, isUsed ? 1 : 0);
        return false;
      },
      // The main loop logs the same outage, so this loop logs nothing.
      onError: () => undefined,
    });
  }

  /** Starts the loop of e-mails if the operator has set SMTP_URL. */
  #startMails(): Loop[] {
    const { smtpUrl, mailFrom: from, publicUrl } = this.#config;
    if (smtpUrl === undefined || from === undefined) return [];
    const times = this.#times.mail;
    return [startMails(this.#queue, { smtpUrl, from, publicUrl, log: this.#log, times })];
  }

  #startRetention(sql: Sql): Loop {
    return startRetention(sql, {
      deliveryDays: this.#config.deliveryRetentionDays,
      eventDays: this.#config.eventRetentionDays,
      times: this.#times.retention,
      onDropped: (table, month) => {
        this.#metrics.monthsDropped.inc({ table });
        this.#log.info({ table, month }, 'month dropped');
      },
      onLocked: (error, times) => {
        this.#metrics.monthsLocked.inc();
        if (times === 1) this.#log.warn({ err: error }, 'partitions cannot be made or dropped yet');
      },
      onError: (error, failures) =>
        this.#log.warn({ failures, err: error }, 'partitions cannot be made or dropped'),
    });
  }

  /**
   * Passes claimed deliveries to the claimer, which offers them for sending. Cancels deliveries to
   * deleted or disabled endpoints. Releases deliveries that cannot be signed.
   */
  async #prepare(claimed: readonly Claimed[]): Promise<void> {
    const endpoints = await this.#endpoints.read(claimed);
    const unusable: Claimed[] = [];
    const ready: Ready[] = [];
    for (const delivery of claimed) {
      const endpoint = endpoints.get(delivery.endpointId);
      const { id, endpointId, claimId } = delivery;
      if (delivery.endpointClosed) {
        const nothing = { dueAt: null, attempt: null };
        this.#completer.add({ id, endpointId, claimId, status: 'cancelled', ...nothing });
      } else if (endpoint === undefined) unusable.push(delivery);
      else ready.push({ ...delivery, endpoint });
    }
    await this.#claimer.offer(ready);
    if (unusable.length > 0) await this.#claimer.pause(unusable, this.#claimMs);
  }

  #sendReady(): void {
    if (this.#isStopping) return;
    const concurrency = this.#concurrency;
    const claimer = this.#claimer;
    for (let queue = concurrency.next(); queue !== undefined; queue = concurrency.next()) {
      const delivery = claimer.take(queue);
      if (delivery === undefined) concurrency.update(queue);
      else void this.#send(delivery, concurrency.take(queue));
    }
    this.#wakeIfHungry();
  }

  async #send(delivery: Ready, place: Place): Promise<void> {
    const client = this.#client;
    const clock = this.#clock;
    const concurrency = this.#concurrency;
    const { outcome, answer } = await deliver(delivery, { client, clock });
    this.#completer.add(outcome);
    if (outcome.attempt !== null) this.#health.add(outcome.endpointId, outcome.attempt);
    this.#metrics.countAttempt(outcome.status === 'pending' ? 'retried' : outcome.status, answer);
    concurrency.give(place, outcome.status === 'delivered', answer.durationMs);
    if (concurrency.inFlight === 0) this.#onDrained();
    this.#sendReady();
  }

  get #mayClaim(): boolean {
    return !this.#completer.isFailing && this.#completer.waiting < MAX_UNWRITTEN;
  }

  /**
   * Wakes the main loop if claim() has work. Does nothing while #mayClaim is false, because the
   * main loop would then claim nothing and be woken again at once.
   */
  #wakeIfHungry(): void {
    if (this.#mayClaim && this.#claimer.isHungry) this.#loop.wake();
  }
}
