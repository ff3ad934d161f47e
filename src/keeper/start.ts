// The keeper: collects what is due and follows the chain. Any number of them work on one Postgres; each subscription is in one keeper's hands at
// a time.
import type { Registry } from 'prom-client';
import { oneChain } from '../chain/clusters.ts';
import { followProgram, websocketUrl } from '../chain/subscribe.ts';
import { createRpc } from '../chain/rpc.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { required, type Config } from '../config.ts';
import { postgresSilence, type Sql } from '../db/connect.ts';
import { createNotifier, deliveriesQueued, subscriptionsDue } from '../db/notify.ts';
import { measureOpenAttempts } from '../db/payment-attempts.ts';
import { type HeldSubscription, readBacklog } from '../db/subscriptions.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { startLoop, type Loop } from '../loop.ts';
import { type Readiness, rpcObserver } from '../metrics.ts';
import { createApprovals } from './approvals.ts';
import { createChainClock, type ChainClock } from './clock.ts';
import { createCollector } from './collect.ts';
import type { Context } from './context.ts';
import { createFees } from './fees.ts';
import { createFlight } from './flight.ts';
import { createNotices } from './follow.ts';
import { createFunds } from './funds.ts';
import { readInstallation, verifyChain } from './installation.ts';
import { createLanding } from './landing.ts';
import { createMetrics } from './metrics.ts';
import { recover } from './recover.ts';
import { createSweep } from './sweep.ts';
import { createPlanWatch } from './watch-plans.ts';
import { watchRpc } from './watch-rpc.ts';

export interface Keeper {
  ready: Readiness;
  /** Takes nothing more on, waits some seconds for what is in the air, and gives its leases back. */
  stop(): Promise<void>;
}

/** Milliseconds that payments in the air get at a stop: what is left is taken over by the next keeper. */
const GRACE_MS = 8000;
/** Collectors at once: while one waits for the chain, another uses the database. */
const COLLECTORS = 2;

/**
 * Starts a keeper. Throws an OperatorError when the keypair or the cluster is not what the configuration says; a chain out of reach is no error:
 * the keeper is not ready, and waits.
 */
export async function startKeeper({
  sql,
  config,
  log,
  registry,
}: {
  sql: Sql;
  config: Config;
  log: Log;
  registry: Registry;
}): Promise<Keeper> {
  const installation = await readInstallation(config);
  const { rpcUrls } = required(config, 'rpcUrls');
  const metrics = createMetrics(registry);
  const client = createRpc({
    urls: rpcUrls,
    refuses: oneChain(config.cluster),
    requestsPerSecond: config.rpcRate === 0 ? undefined : config.rpcRate,
    log,
    observe: rpcObserver(registry),
  });
  const watched = watchRpc(client, log, metrics);
  const { rpc } = watched;
  const { programId, mint, keypair } = installation;
  const deliveries = createNotifier(sql, deliveriesQueued);
  const rules = { keeper: keypair.address, pastDueDays: config.pastDueDays, feeBps: config.feeBps };
  const context: Context = { sql, log, rpc, metrics, deliveries, programId, mint, keypair, rules };

  let verified = false;
  let refusal: string | undefined;
  const verify = async () => {
    if (verified) return;
    await verifyChain(rpc, config, installation);
    verified = true;
    log.info({ keeper: keypair.address, cluster: config.cluster, programId, mint }, 'the chain is the configured one');
  };
  try {
    await verify();
  } catch (error) {
    if (!(error instanceof RpcUnreachable)) {
      await client.close();
      throw error;
    }
  }

  const clock = createChainClock(rpc);
  const fees = createFees(rpc, log);
  const collecting: Loop[] = [];
  const goOn = () => {
    for (const one of collecting) one.wake();
  };
  const flight = createFlight(context, createLanding(context, fees), goOn);
  const funds = createFunds(context);
  const wsUrls = config.wsUrls ?? rpcUrls.map(websocketUrl);
  const approvals = createApprovals(context, {
    wsUrls,
    most: config.wsAccounts,
    onChange: (wallet, slot) => notices.takeWallet(wallet, slot),
    onGap: () => sweep.gap(),
  });
  const onRead = (rows: readonly HeldSubscription[]) => approvals.watch(rows);
  const sweep = createSweep(context, clock, onRead);
  const plans = createPlanWatch(context, clock);
  const collector = createCollector(context, { clock, fees, flight, onRead });
  const wake = () => {
    clock.expire();
    goOn();
  };
  const notices = createNotices(context, { sweep, plans, flight, wake });

  // What an outage of chain or database interrupts is tried again by the same loop; the outage itself is told of once, by watchRpc.
  const loop = (what: string, idleMs: number, turn: () => Promise<boolean>) =>
    startLoop({
      idleMs,
      turn: async () => {
        await verify();
        return turn();
      },
      onError(error, failures) {
        if (error instanceof RpcUnreachable) return;
        if (error instanceof OperatorError) {
          if (refusal === undefined) log.fatal(error.message);
          refusal = error.message;
          return;
        }
        log.error({ err: error, failures }, `${what} failed; it is tried again`);
      },
    });

  // Start-up first takes over every attempt left open; no subscription with one is collected from meanwhile, by anybody.
  // Afterwards now and then: each look reads everything under way, and nobody's lease is over in less than 45 s.
  const recovering = loop('taking over open payments', 5000, () => recover(context, flight));
  for (let place = 0; place < COLLECTORS; place += 1) {
    collecting.push(loop('collecting', 1000, async () => (funds.shortage() === undefined ? collector.turn() : false)));
  }
  const others = [
    recovering,
    loop('reading the SOL balance', 5000, async () => {
      await funds.check();
      return false;
    }),
    loop('the sweep', 1000, () => sweep.turn()),
    loop('watching plans', 2000, () => plans.turn()),
    loop('looking into notices', 200, () => notices.turn()),
    loop('measuring', 5000, async () => {
      await measure(context, clock);
      metrics.accountsFollowed.set(approvals.followed());
      for (const endpoint of client.health()) {
        metrics.endpointUp.set({ endpoint: endpoint.name }, endpoint.failures === 0 ? 1 : 0);
        metrics.endpointLag.set({ endpoint: endpoint.name }, endpoint.lag);
      }
      return false;
    }),
  ];
  const follower = followProgram({
    urls: wsUrls,
    programId,
    onNotice: (notice) => notices.take(notice),
    onTransaction: (notice) => notices.takeTransaction(notice),
    onGap: () => sweep.gap(),
    onSlot: (_slot, root) => flight.rooted(root),
    log,
  });
  const listening = await sql.listen(subscriptionsDue, wake, wake).catch((error: unknown) => {
    log.warn({ reason: messageOf(error) }, 'cannot listen for registrations; they are found by polling');
    return undefined;
  });

  return {
    async ready() {
      const reason = refusal ?? watched.outage() ?? (verified ? funds.shortage() : 'the chain has not been reached yet');
      return reason ?? (await postgresSilence(sql));
    },
    async stop() {
      follower.close();
      approvals.close();
      await listening?.unlisten().catch(() => undefined);
      await Promise.all([...collecting, ...others].map((one) => one.stop()));
      await Promise.all([collector.stop(), flight.stop(GRACE_MS)]);
      await deliveries.flush();
      await client.close();
    },
  };
}

async function measure({ sql, metrics }: Context, clock: ChainClock): Promise<void> {
  const now = await clock.now();
  const [{ oldest, waiting }, open] = await Promise.all([readBacklog(sql, now), measureOpenAttempts(sql)]);
  metrics.waiting.set(waiting);
  metrics.oldestDueSeconds.set(oldest === null ? 0 : (now.getTime() - oldest.getTime()) / 1000);
  metrics.openAttempts.set(open.count);
  metrics.oldestOpenSeconds.set(open.oldestSeconds);
}
