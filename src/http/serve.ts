import { Counter, Histogram, type Registry } from 'prom-client';
import { oneChain, clusterMismatch, CLUSTERS, SUBSCRIPTIONS_PROGRAM } from '../chain/clusters.ts';
import { createRpc } from '../chain/rpc/client.ts';
import type { Rpc } from '../chain/rpc/rpc.ts';
import { required, type Config } from '../config/config.ts';
import { rpcObserver } from '../daemon/metrics.ts';
import { startRateShare } from '../daemon/rate-share.ts';
import type { Daemon, DaemonResources } from '../daemon/run.ts';
import { deleteOldKeys } from '../db/accounts/idempotency.ts';
import { deleteExpiredNonces } from '../db/accounts/nonces.ts';
import { deleteEndedBudgets } from '../db/accounts/rate-budgets.ts';
import { deleteOldSamples } from '../db/delivering/event-feed.ts';
import { deleteGoneReaders } from '../db/delivering/event-readers.ts';
import { recordPublicUrl } from '../db/money/receipts.ts';
import { deleteOldOffers } from '../db/offers/offers.ts';
import type { Sql } from '../db/postgres/connect.ts';
import {
  ANY_ENDPOINT,
  appName,
  createNotifier,
  DELIVERIES_QUEUED,
  SUBSCRIPTIONS_DUE,
} from '../db/postgres/notify.ts';
import { databaseTrouble } from '../db/postgres/readiness.ts';
import { openReports } from '../db/postgres/reports.ts';
import { deleteEndedSessions } from '../db/subscriptions/checkout-sessions.ts';
import { secretBox } from '../domain/accounts/secrets.ts';
import { sponsorLimits } from '../domain/offers/limits.ts';
import { workOnReplays } from '../domain/outbox/replay.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { startLoop, type Loop } from '../loop.ts';
import { createSsrfGuard, guardOptions } from '../webhooks/ssrf-guard.ts';
import { buildApp } from './app.ts';
import type { Api, ApiDeps } from './door/context.ts';
import { requestsPerMinute } from './door/limits.ts';
import { shareChain } from './door/shared-chain.ts';

/** Interval at which expired rows are deleted. */
const SWEEP_MS = 60_000;
/** Interval at which serve looks for replay runs. */
const REPLAYS_MS = 10_000;
/**
 * Milliseconds from startup to the check of the genesis hash. The check is delayed because it loads
 * the RPC client, which would take a seventh of the startup time.
 */
const SETTLED_MS = 1000;
// Errors of listen(2), each with a cause and a remedy.
const listenFaults: readonly (readonly [string, string])[] = [
  ['EADDRINUSE', 'another process has that address; set PORT to a free one'],
  [
    'EADDRNOTAVAIL',
    'no interface has that address; set HOST to one of this machine, or to 0.0.0.0',
  ],
  ['EACCES', 'ports below 1024 are for root; set PORT to a higher one and put a proxy in front'],
  ['ENOTFOUND', 'HOST is not a host name or address'],
];

/**
 * Builds the API and listens. Throws an OperatorError for an incomplete configuration or an address
 * on which the process cannot listen.
 */
export async function startServe(resources: DaemonResources): Promise<Daemon> {
  const { config, log, sql, registry, trouble, isStopping } = resources;
  const { rpcUrls } = required(config, 'rpcUrls');
  const rate = await startRateShare('serve', config.serveRpcRate, resources);
  const rpc = createRpc({
    urls: rpcUrls,
    refuses: oneChain(config.cluster),
    requestsPerSecond: rate.now,
    // Registrations store the slots of RPC responses, so the RPC client checks that slots are
    // plausible.
    slots:
      config.cluster === 'localnet'
        ? undefined
        : {
            onDisbelief: (slot, plausible) =>
              log.error(
                { slot: Number(slot), plausible: Number(plausible) },
                'RPC endpoints not believed',
              ),
          },
    log,
    observe: rpcObserver(registry),
  });
  const chain = shareChain(rpc);
  const dispatchers = createNotifier(sql, DELIVERIES_QUEUED);
  const keepers = createNotifier(sql, SUBSCRIPTIONS_DUE);
  const reports = openReports(required(config, 'databaseUrl').databaseUrl, {
    name: 'billing serve',
    directUrl: config.databaseDirectUrl,
    replicaUrl: config.reportsDatabaseUrl,
  });
  const app = buildApp({
    ...settings(config),
    sql,
    reports,
    trouble,
    isStopping,
    log,
    chain,
    onResponse: durations(registry),
    onConnectionRefused: refusals(registry),
    wakeDispatchers: (appId) =>
      dispatchers.notify(new Set([ANY_ENDPOINT, ...(appId === undefined ? [] : [appName(appId)])])),
    wakeKeepers: () => keepers.notify(),
    wakeReplays: () => replays.wake(),
  });
  // Keepers write receipt URLs into events. They read the public URL from Postgres.
  await recordPublicUrl(sql, config.publicUrl);
  const sweeper = sweep(sql, log);
  const replays = startReplays(sql, log, () => dispatchers.notify());
  await app.ready();
  const asking = setTimeout(() => warnOfWrongCluster(chain, config, log), SETTLED_MS);
  const stop = async () => {
    clearTimeout(asking);
    await app.close();
    await Promise.all([sweeper.stop(), replays.stop()]);
    await Promise.all([dispatchers.flush(), keepers.flush(), chain.close(), reports.end()]);
    await rate.stop();
  };
  const address = await listen(app, config).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  log.info({ address, publicUrl: config.publicUrl }, 'listening');
  return { ready: () => databaseTrouble(sql), stop };
}

function settings(
  config: Config,
): Omit<
  ApiDeps,
  | 'sql'
  | 'reports'
  | 'trouble'
  | 'isStopping'
  | 'log'
  | 'chain'
  | 'onResponse'
  | 'onConnectionRefused'
  | 'wakeDispatchers'
  | 'wakeKeepers'
  | 'wakeReplays'
> {
  const { keeperAddress, treasury, jwtSecrets, encryptionKeys } = required(
    config,
    'keeperAddress',
    'treasury',
    'jwtSecrets',
    'encryptionKeys',
  );
  const mint = config.usdcMint ?? CLUSTERS[config.cluster].usdcMint;
  if (mint === null)
    throw new OperatorError(
      `USDC_MINT is required where SOLANA_CLUSTER is ${config.cluster}: the mint's address.`,
      2,
    );
  const guard = createSsrfGuard(guardOptions(config));
  const limits = sponsorLimits(config);
  return {
    network: {
      programId: config.programId ?? SUBSCRIPTIONS_PROGRAM,
      mint,
      puller: keeperAddress,
      treasury,
      standbyPullers: (config.keeperAddresses ?? []).slice(1),
      backupTreasuries: (config.treasuries ?? []).slice(1),
    },
    cluster: config.cluster,
    environment: config.env,
    publicUrl: config.publicUrl,
    merchants: config.merchants,
    reportUrl: config.reportUrl,
    contactUrl: config.contactUrl ?? config.reportUrl,
    jwtSecrets,
    secretBox: secretBox(encryptionKeys),
    sponsoring: limits && { limits, feeBps: config.feeBps },
    planMinimumAmount: BigInt(config.planMinimumAmount),
    requestsPerMinute,
    onrampUrl: config.onrampUrl,
    corsOrigins: config.corsOrigins,
    dashboardOrigins: config.dashboardOrigins,
    trustProxy: config.trustProxy,
    connectionsPerAddress: config.connectionsPerAddress,
    // Imported on demand, because loading undici would delay the start.
    ping: async (target) => (await import('../webhooks/ping.ts')).sendPing({ config, ...target }),
    readSmallFile: async (file) =>
      (await import('../webhooks/small-file.ts')).readSmallFile(config, file),
    checkWebhookHost: (hostname) => guard.checkLiteral(hostname),
  };
}

function durations(registry: Registry): ApiDeps['onResponse'] {
  const histogram = new Histogram({
    name: 'billing_http_request_duration_seconds',
    help: 'Time from a request to its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  });
  return ({ method, route, status, seconds }) =>
    histogram.observe({ method, route, status }, seconds);
}

function refusals(registry: Registry): NonNullable<ApiDeps['onConnectionRefused']> {
  const counter = new Counter({
    name: 'billing_http_connections_refused_total',
    help: 'Connections that the limit of the process or of an address closed',
    labelNames: ['limit'] as const,
    registers: [registry],
  });
  for (const limit of ['process', 'address'] as const) counter.inc({ limit }, 0);
  return (limit) => counter.inc({ limit });
}

async function listen(app: Api, { host, port }: Config): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (error) {
    const [, next] =
      listenFaults.find(
        ([code]) => error instanceof Error && 'code' in error && error.code === code,
      ) ?? [];
    if (next === undefined) throw error;
    throw new OperatorError(`serve cannot listen on ${host}:${port}: ${next}.`, 1, {
      cause: error,
    });
  }
}

/**
 * Logs an error when the RPC endpoint serves another cluster. The daemon keeps running, because
 * most routes work without the chain.
 */
function warnOfWrongCluster(chain: Rpc, { cluster }: Config, log: Log): void {
  chain.getGenesisHash().then(
    (hash) => {
      const mismatch = clusterMismatch(cluster, hash);
      if (mismatch !== null)
        log.error({ mismatch }, 'Solana RPC endpoint serves another cluster than configured');
    },
    (error: unknown) => log.warn({ reason: messageOf(error) }, 'Solana RPC not reached yet'),
  );
}

/** Runs replays that merchants started, including replays that another process left unfinished. */
function startReplays(sql: Sql, log: Log, wakeDispatchers: () => void): Loop {
  return startLoop({
    name: 'replaying',
    idleMs: REPLAYS_MS,
    turn: async () => {
      const worked = await workOnReplays(sql);
      if (worked) wakeDispatchers();
      return worked;
    },
    onError: (error, failures) => log.warn({ err: error, failures }, 'replay failed'),
  });
}

/**
 * Deletes expired nonces, idempotency keys, sample events, readers of the event feed, offered
 * transactions, checkout sessions and rate windows.
 */
function sweep(sql: Sql, log: Log): Loop {
  return startLoop({
    name: 'deleting old rows',
    idleMs: SWEEP_MS,
    turn: async () => {
      const [, ...counts] = await Promise.all([
        deleteEndedBudgets(sql),
        deleteExpiredNonces(sql),
        deleteOldKeys(sql),
        deleteOldSamples(sql),
        deleteGoneReaders(sql),
        deleteOldOffers(sql),
        deleteEndedSessions(sql),
      ]);
      return counts.includes(1000);
    },
    onError: (error, failures) =>
      log.warn({ err: error, failures }, 'old rows could not be deleted'),
  });
}
