// The keeper collects due payments and follows the chain. Any number of keepers can share one
// Postgres. A claim reserves a subscription for one keeper.
//
//   due --claim--> claimed --decide, sign, commit--> open attempt --send, poll--> final
//   final (landed, failed, expired or unexplained) --settle--> due again or ended
//   claimed --a look-up or a closing is needed--> outside the collect loop, then decided again
//   claimed --lease expired with an open attempt--> recovered by any keeper (claim.ts)
import type { Registry } from 'prom-client';
import { accountFilters } from '../chain/program/layouts.ts';
import { RpcUnreachable } from '../chain/rpc/errors.ts';
import { leavingRoom } from '../chain/rpc/leaving-room.ts';
import type { Rpc } from '../chain/rpc/rpc.ts';
import { watchRpc, type WatchedRpc } from '../chain/rpc/watched.ts';
import { followProgram, websocketUrl } from '../chain/streams/program.ts';
import { TokenAccounts } from '../chain/streams/token-accounts.ts';
import { createChainClock } from '../chain/time.ts';
import { Fees } from '../chain/transactions/fees.ts';
import { TransactionVersions } from '../chain/transactions/version.ts';
import { type Config, required } from '../config/config.ts';
import { rpcObserver } from '../daemon/metrics.ts';
import { startRateShare } from '../daemon/rate-share.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { createNotifier, DELIVERIES_QUEUED, SUBSCRIPTIONS_DUE } from '../db/postgres/notify.ts';
import { databaseTrouble } from '../db/postgres/readiness.ts';
import { closingBudget, sponsorLimits } from '../domain/offers/limits.ts';
import { recordRefunds } from '../domain/offers/refunds.ts';
import { OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { type Loop, startLoop } from '../loop.ts';
import type { Context } from './base/context.ts';
import { createMetrics, measure, measureQueues } from './base/metrics.ts';
import { measureSponsoring } from './base/sponsor-metrics.ts';
import { keeperTimes, type KeeperTimes } from './base/times.ts';
import { Collector, recover } from './collect/claim.ts';
import { Signer } from './collect/signer.ts';
import { PlanWatch } from './follow/plan-watch.ts';
import { StreamCheck } from './follow/stream-check.ts';
import { followsOf, Notifications } from './follow/streams.ts';
import { Sweep } from './follow/sweep.ts';
import { Unregistered } from './follow/unregistered.ts';
import { type Balance, createBalance } from './guard/balance.ts';
import { History } from './guard/history.ts';
import {
  absenceJudge,
  type Installation,
  openClient,
  type Rates,
  readInstallation,
  verifyChain,
} from './guard/preflight.ts';
import { takeRentBack } from './sponsor/rent.ts';
import { Sponsor } from './sponsor/sponsor.ts';
import { keepUp } from './sponsor/upkeep.ts';
import { createUnreadableReport } from './track/reports.ts';
import { Resolver } from './track/resolve.ts';
import { Tracker } from './track/tracker.ts';

/** Number of concurrent collect loops. One waits for the chain while the other uses Postgres. */
const COLLECTORS = 2;

interface KeeperParts {
  sql: Sql;
  config: Config;
  log: Log;
  registry: Registry;
  times?: KeeperTimes;
}

/**
 * Starts a keeper. Throws an OperatorError when the keypairs or the cluster do not fit the
 * configuration. If the chain is unreachable, the keeper runs but is not ready.
 */
export async function startKeeper(parts: KeeperParts): Promise<Keeper> {
  const installation = await readInstallation(parts.config);
  const { rpcRate, sendRate } = parts.config;
  const [reads, sends] = await Promise.all([
    startRateShare('rpc', rpcRate, parts),
    startRateShare('send', sendRate, parts),
  ]);
  const keeper = new Keeper(parts, installation, { reads, sends });
  await keeper.start();
  return keeper;
}

export class Keeper {
  readonly #config: Config;
  readonly #installation: Installation;
  readonly #context: Context;
  /**
   * Context for work that anyone can cause. It may use only a part of the RPC rate limit, so that
   * payments keep the rest.
   */
  readonly #anyones: Context;
  readonly #rates: Rates;
  readonly #client: Rpc;
  readonly #watched: WatchedRpc;
  readonly #balance: Balance;
  readonly #history: History;
  readonly #tracker: Tracker;
  readonly #tokenAccounts: TokenAccounts;
  readonly #sweep: Sweep;
  readonly #streamCheck: StreamCheck;
  readonly #plans: PlanWatch;
  readonly #unregistered: Unregistered;
  readonly #sponsor: Sponsor;
  readonly #collector: Collector;
  readonly #notifications: Notifications;
  readonly #wsUrls: readonly string[];
  #collecting: Loop[] = [];
  #sweeping: Loop | undefined;
  #others: Loop[] = [];
  #stopListening: (() => Promise<void>) | undefined;
  #verified = false;
  #refusal: string | undefined;

  /** Resolves with the reason why the keeper is not ready, or with undefined when it is ready. */
  readonly ready = async (): Promise<string | undefined> => {
    const reason =
      this.#refusal ??
      this.#watched.outage() ??
      (this.#verified ? this.#balance.shortage() : 'the chain has not been reached yet');
    return reason ?? (await databaseTrouble(this.#context.sql));
  };

  /**
   * Describes which payments a ready keeper does not collect, and why. Undefined when it collects
   * all.
   */
  readonly note = () => this.#history.note();

  /**
   * Returns the chain's time in Unix milliseconds. Returns null while this time is unknown. Always
   * returns null on a local chain, because the time of a local chain jumps.
   */
  readonly chainTime = () =>
    this.#config.cluster === 'localnet' ? null : this.#context.clock.peek();

  constructor(
    { sql, config, log, registry, times = keeperTimes }: KeeperParts,
    installation: Installation,
    rates: Rates,
  ) {
    const { rpcUrls } = required(config, 'rpcUrls');
    const { programId, mint, keypairs } = installation;
    const held = keypairs.map(({ address }) => address);
    const { pastDueDays, feeBps, planMinimumAmount } = config;
    const minimumAmount = BigInt(planMinimumAmount);
    const isOutOfSol = (keeper: string) => this.#balance.isEmpty(keeper);
    const metrics = createMetrics(registry);
    [this.#config, this.#installation, this.#rates] = [config, installation, rates];
    const observe = rpcObserver(registry);
    this.#client = openClient(config, rpcUrls, { log, metrics, observe, rates });
    this.#watched = watchRpc(this.#client, log, metrics);
    const { rpc } = this.#watched;
    const versions = new TransactionVersions(rpc, config.transactionVersion, log);
    const context: Context = {
      sql,
      log,
      rpc,
      clock: createChainClock(rpc),
      times,
      fees: new Fees(rpc, log),
      versions,
      metrics,
      reportUnreadable: createUnreadableReport(log, metrics),
      onRead: (rows) => this.#tokenAccounts.watch(rows.map(followsOf)),
      absence: absenceJudge(config, rpc, { log, metrics }),
      deliveries: createNotifier(sql, DELIVERIES_QUEUED),
      programId,
      mint,
      keypair: keypairs[0],
      keypairs: new Map(keypairs.map((keypair) => [keypair.address, keypair])),
      keeperWallets: [...new Set([...held, ...(config.keeperAddresses ?? [])])],
      treasuries: config.treasuries ?? [],
      sponsoring: sponsorLimits(config),
      closingBudget: closingBudget(config),
      rules: { keepers: held, isOutOfSol, pastDueDays, feeBps, minimumAmount },
    };
    this.#context = context;
    this.#anyones = { ...context, rpc: leavingRoom(rpc, rates.reads.now) };
    this.#wsUrls = config.wsUrls ?? rpcUrls.map(websocketUrl);
    this.#balance = createBalance(context);
    this.#history = new History(context, () => this.#collect());
    this.#tracker = new Tracker(context, new Resolver(context));
    this.#sweep = new Sweep(context, config);
    this.#streamCheck = new StreamCheck(context, { onLoss: () => this.#gap() });
    this.#plans = new PlanWatch(context);
    this.#unregistered = new Unregistered(this.#anyones, () => this.#collect());
    this.#sponsor = new Sponsor(this.#anyones, () => this.#collect());
    this.#collector = new Collector(context, new Signer(context, versions), this.#tracker);
    this.#notifications = new Notifications(context, {
      sweep: { readNow: (ids, slot) => this.#sweep.readNow(ids, slot), gap: () => this.#gap() },
      plans: this.#plans,
      inFlight: this.#tracker.inFlight,
      onLive: (address, seen) => this.#unregistered.see(address, seen),
      onDue: () => this.#collect(),
    });
    this.#tokenAccounts = new TokenAccounts({
      ...context,
      wsUrls: this.#wsUrls,
      maxAccounts: config.wsAccounts,
      onChange: (wallet, slot) => this.#notifications.takeWallet(wallet, slot),
      onGap: () => this.#gap(),
      onRefused: () => metrics.refusals.inc({ method: 'accountSubscribe' }),
    });
    this.#tracker.onRoom = () => this.#collect();
  }

  /**
   * Verifies the chain, starts the loops and opens the streams. Throws an OperatorError when the
   * chain differs from the configuration. If the chain is unreachable, the loops verify the chain
   * later.
   */
  async start(): Promise<void> {
    try {
      await this.#verify();
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) {
        await this.#tracker.stop(0);
        await this.#close();
        throw error;
      }
    }
    this.#startLoops();
    this.#stopListening = await this.#listen();
  }

  /**
   * Stops claiming, waits for payments in flight, and releases the remaining claims.
   */
  async stop(): Promise<void> {
    await this.#stopListening?.();
    this.#tokenAccounts.close();
    await Promise.all([...this.#collecting, ...this.#others].map((loop) => loop.stop()));
    await Promise.all([
      this.#collector.stop(),
      this.#tracker.stop(this.#context.times.loops.graceMs),
      this.#sponsor.stop(),
    ]);
    await this.#context.deliveries.flush();
    await this.#close();
  }

  async #close(): Promise<void> {
    await this.#client.close();
    await Promise.all([this.#rates.reads.stop(), this.#rates.sends.stop()]);
  }

  async #verify(): Promise<void> {
    if (this.#verified) return;
    const { rpc, log, keypair, programId, mint } = this.#context;
    const faults = await verifyChain(rpc, this.#config, this.#installation);
    for (const fault of faults) log.warn(fault);
    this.#verified = true;
    this.#refusal = undefined;
    const { cluster } = this.#config;
    log.info({ keeper: keypair.address, cluster, programId, mint }, 'chain verified');
  }

  #startLoops(): void {
    const [context, anyones, collector] = [this.#context, this.#anyones, this.#collector];
    const times = context.times.loops;
    const mayCollect = () => (this.#balance.shortage() ?? this.#history.reason()) === undefined;
    this.#collecting = Array.from({ length: COLLECTORS }, () =>
      this.#loop(
        'collecting',
        () => (mayCollect() ? collector.waitMs() : times.heldMs),
        async () => (mayCollect() ? collector.turn() : false),
      ),
    );
    this.#sweeping = this.#loop(
      'sweep',
      () => this.#sweep.waitMs(),
      () => this.#sweep.turn(),
    );
    this.#others = [
      ...this.#sponsor.start(mayCollect, (...loop) => this.#loop(...loop)),
      this.#loop('taking rent back', times.rentMs, () => takeRentBack(anyones)),
      this.#loop('measuring sponsoring', times.measuringSponsoringMs, async () => {
        await measureSponsoring(context.sql, context.metrics.sponsor, context.sponsoring);
        await measureQueues(context);
        return false;
      }),
      this.#loop('keeping up sponsoring', times.sponsoringUpkeepMs, () => keepUp(anyones)),
      this.#loop('checking the history of Postgres', times.historyMs, () => this.#history.turn()),
      // Recovery may run beside the collect loops, because the collect loops do not claim
      // subscriptions with an open attempt.
      this.#loop('recovering open attempts', times.recoveringMs, () =>
        recover(context, this.#tracker),
      ),
      this.#loop('reading the SOL balance', times.balanceMs, async () => {
        await this.#balance.check(this.#tracker.inFlight.size > 0);
        return false;
      }),
      this.#sweeping,
      this.#loop('checking the streams', times.streamCheckMs, () => this.#streamCheck.turn()),
      this.#loop('reading notifications', times.noticesMs, () => this.#notifications.turn()),
      this.#loop('registering from the chain', times.unregisteredMs, () =>
        this.#unregistered.turn(),
      ),
      this.#loop('watching plans', times.plansMs, () => this.#plans.turn()),
      this.#loop('recording refunds', times.refundsMs, () => recordRefunds(anyones)),
      this.#loop('measuring', times.measuringMs, async () => {
        await measure(context, {
          now: await context.clock.now(),
          endpoints: this.#client.health(),
          followed: this.#tokenAccounts.followed(),
        });
        return false;
      }),
    ];
  }

  /**
   * Starts a loop that verifies the chain before its first turn. Outages of the chain are logged by
   * `watchRpc`, all other errors by this function.
   */
  #loop(name: string, idleMs: number | (() => number), turn: () => Promise<boolean>): Loop {
    const { log } = this.#context;
    return startLoop({
      name,
      idleMs,
      turn: async () => {
        await this.#verify();
        return turn();
      },
      onError: (error, failures) => {
        if (error instanceof RpcUnreachable) return;
        if (error instanceof OperatorError) {
          if (this.#refusal === undefined) log.fatal(error.message);
          this.#refusal = error.message;
          return;
        }
        log.error({ err: error, failures, loop: name }, 'keeper loop failed');
      },
    });
  }

  /**
   * Follows the program over WebSocket and new registrations over Postgres NOTIFY. Resolves with a
   * function that ends both streams.
   */
  async #listen(): Promise<() => Promise<void>> {
    const { sql, log, clock, metrics, programId, mint } = this.#context;
    const follower = followProgram({
      urls: this.#wsUrls,
      programId,
      filters: accountFilters(mint),
      onNotification: (notification) => this.#notifications.take(notification),
      onTransaction: (notification) => {
        this.#streamCheck.hear(notification.signature, notification.slot);
        this.#notifications.takeTransaction(notification);
      },
      onGap: () => {
        this.#streamCheck.reopened();
        this.#gap();
      },
      onSlot: (slot, root) => {
        this.#tracker.rooted(root);
        this.#sponsor.rooted(root);
        this.#streamCheck.slot(slot);
        if (clock.slot(slot)) this.#jumped();
      },
      onRefused: (method) => metrics.refusals.inc({ method }),
      log,
    });
    const wake = () => {
      this.#collect();
      this.#sponsor.wake();
    };
    const listening = await sql.listen(SUBSCRIPTIONS_DUE, wake, wake).catch((error: unknown) => {
      log.warn({ err: error }, 'cannot listen for registrations; polling finds them');
      return undefined;
    });
    return async () => {
      follower.close();
      await listening?.unlisten().catch(() => undefined);
    };
  }

  #gap(): void {
    this.#unregistered.gap();
    this.#sweep.gap();
    this.#sweeping?.wake();
  }

  /**
   * Called after the chain's clock jumped. Runs the collect loops now and again a moment later,
   * because an endpoint may still show the old time.
   */
  #jumped(): void {
    this.#collect();
    setTimeout(() => this.#collect(), this.#context.times.loops.jumpMs).unref();
  }

  #collect(): void {
    for (const loop of this.#collecting) loop.wake();
  }
}
