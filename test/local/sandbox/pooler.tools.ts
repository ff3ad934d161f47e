// The sandbox's scenario, with its daemons behind Debian's PgBouncer in transaction mode.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { LOCALNET_MINT } from '../../../src/local/chain/genesis.ts';
import { cheat, createSandboxChain } from '../../../src/local/sandbox/chain.ts';
import { createChaos } from '../../../src/local/sandbox/chaos.ts';
import { signIn } from '../../../src/local/sandbox/client.ts';
import { gatherEvidence } from '../../../src/local/sandbox/evidence.ts';
import { checkInvariants } from '../../../src/local/sandbox/invariants.ts';
import { startMerchantServer } from '../../../src/local/sandbox/merchant-server.ts';
import { createMerchants } from '../../../src/local/sandbox/merchants.ts';
import { cast, play } from '../../../src/local/sandbox/play.ts';
import { freePorts } from '../../../src/local/sandbox/ports.ts';
import { type Processes } from '../../../src/local/sandbox/processes.ts';
import { type Random, seeded } from '../../../src/local/sandbox/random.ts';
import { supervise } from '../../../src/local/sandbox/supervise.ts';
import { bytesOf, walletFromSeed } from '../../../src/local/sandbox/wallet.ts';
import { createLog } from '../../../src/log.ts';
import { asDaemon, daemons } from '../../fixtures/daemons.ts';
import { startPgBouncer } from '../../fixtures/pgbouncer.ts';
import { makeTestRoles, testDatabase } from '../../fixtures/postgres.ts';

const BLOCK_MS = 30;
const [SUBSCRIBERS, PERIODS] = [16, 5];

/** What startProcesses() of the sandbox starts, with a pooler between the daemons and Postgres. */
async function startPooled(t: Test, random: Random): Promise<Omit<Processes, 'stop'>> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-sandbox-pooled-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const { sql, url } = await testDatabase(t);
  await makeTestRoles(sql);
  const pooler = await startPgBouncer(t, url);
  const [apiPort = 0, rpcPort = 0, wsPort = 0, ...metricsPorts] = await freePorts(6);
  const at = (port = 0) => `http://127.0.0.1:${port}`;
  const [apiUrl, rpcUrl, wsUrl] = [at(apiPort), at(rpcPort), `ws://127.0.0.1:${wsPort}`];
  const [keeper, treasury] = [walletFromSeed(random.seed32()), walletFromSeed(random.seed32())];
  const keypair = join(directory, 'keeper.json');
  await writeFile(keypair, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
  const supervised = (name: string, args: string[], env: Record<string, string>, ready: string) => {
    const process = supervise({
      ...{ name, args, env },
      logFile: join(directory, `${name}.log`),
      readyUrl: ready,
    });
    t.teardown(() => process.stop());
    return process;
  };
  const ports = ['--port', String(rpcPort), '--ws-port', String(wsPort)];
  const args = ['localnet', ...ports, '--block-ms', String(BLOCK_MS), '--json'];
  await supervised('localnet', args, {}, `${rpcUrl}/health`).ready();
  await cheat(rpcUrl, 'requestAirdrop', [keeper.address, 1_000_000_000_000]);
  await cheat(rpcUrl, 'localnet_faucet', [treasury.address, '1']);
  const encryptionKey = random.seed32().toString('base64');
  const env = {
    DATABASE_URL: pooler.url,
    DATABASE_DIRECT_URL: url,
    SOLANA_RPC_URL: rpcUrl,
    SOLANA_WS_URL: wsUrl,
    SOLANA_CLUSTER: 'localnet',
    SOLANA_SERVE_RATE: '0',
    USDC_MINT: LOCALNET_MINT,
    KEEPER_KEYPAIR: keypair,
    KEEPER_ADDRESS: keeper.address,
    PLATFORM_TREASURY: treasury.address,
    PLAN_MINIMUM_AMOUNT: '1',
    COLLECTION_WINDOW_SECONDS: '0',
    JWT_SECRET: random.seed32().toString('base64'),
    ENCRYPTION_KEY: encryptionKey,
    TRUST_PROXY: '127.0.0.1',
    PORT: String(apiPort),
  };
  const [serve, keeps, dispatches] = metricsPorts.map(at);
  const metricsUrls = { serve: serve ?? '', keeper: keeps ?? '', dispatch: dispatches ?? '' };
  const started = daemons.map((name) => {
    const own = { ...asDaemon(env, name), METRICS_PORT: new URL(metricsUrls[name]).port };
    return [name, supervised(name, [name], own, `${metricsUrls[name]}/readyz`)] as const;
  });
  await Promise.all(started.map(([, process]) => process.ready()));
  return {
    ...{ apiUrl, rpcUrl, wsUrl, metricsUrls, encryptionKey, sql, mint: LOCALNET_MINT },
    ...{ databaseUrl: url, keeper: keeper.address, treasury: treasury.address, plays: 0 },
    daemons: Object.fromEntries(started) as Processes['daemons'],
    killPostgres: () => undefined,
    logDirectory: directory,
  };
}

void t.test(
  'the sandbox keeps every invariant when its daemons connect through a pooler',
  async (t) => {
    const random = seeded(2);
    const processes: Processes = {
      ...(await startPooled(t, random)),
      stop: () => Promise.resolve(),
    };
    const log = createLog('sandbox', { level: 'silent', pretty: false, stream: 'stderr' });
    const chain = createSandboxChain(processes.rpcUrl, LOCALNET_MINT, log);
    t.teardown(() => chain.close());
    const server = await startMerchantServer();
    t.teardown(() => server.close());
    const { apiUrl } = processes;
    const merchants = await createMerchants(apiUrl, chain, server, random);
    const subscribers = cast(SUBSCRIBERS, PERIODS, merchants, random);
    for (const subscriber of subscribers) {
      await chain.fund(subscriber.wallet.address, { lamports: 1_000_000_000n });
      subscriber.token = await signIn(apiUrl, subscriber.wallet, 'subscriber');
    }
    const stage = { apiUrl, chain, programId: SUBSCRIPTIONS_PROGRAM, mint: LOCALNET_MINT };
    const treasuryBefore = await chain.balance(processes.treasury);
    await play({
      ...{ stage, processes, server, merchants, subscribers, random, periods: PERIODS },
      chaos: createChaos(processes, 0, PERIODS),
      report: (line) => t.comment(line),
      signal: new AbortController().signal,
    });
    const evidence = await gatherEvidence(stage, processes, server, merchants, subscribers);
    const breaches = checkInvariants(evidence, { subscribers, periods: PERIODS, treasuryBefore });
    t.equal(Object.keys(breaches).length, 12);
    for (const [name, found] of Object.entries(breaches)) t.same(found, [], name);
    t.ok(evidence.payments.length > SUBSCRIBERS * 2);
  },
);
