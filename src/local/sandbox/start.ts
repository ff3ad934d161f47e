// The sandbox: starts the processes, sets up merchants and wallets, plays the scenario and checks
// the invariants.
import { randomBytes } from 'node:crypto';
import { SUBSCRIPTIONS_PROGRAM } from '../../chain/clusters.ts';
import { datePlay } from '../../db/operating/sandbox.ts';
import type { Log } from '../../log.ts';
import { LOCALNET_MINT } from '../chain/genesis.ts';
import { createSandboxChain, type SandboxChain } from './chain.ts';
import { createChaos } from './chaos.ts';
import { signIn } from './client.ts';
import { addControls, breakEndpoint } from './controls.ts';
import { gatherEvidence } from './evidence.ts';
import { checkInvariants } from './invariants.ts';
import { startMerchantServer } from './merchant-server.ts';
import { createMerchants, type Merchant } from './merchants.ts';
import { cast, play, playHours } from './play.ts';
import { allReady, startProcesses, type Processes } from './processes.ts';
import { seeded } from './random.ts';
import type { Stage } from './subscribers.ts';
import { walletFromSeed, type Wallet } from './wallet.ts';

export interface SandboxOptions {
  subscribers: number;
  periods: number;
  seed: number;
  /** Number of kills while the scenario is played. */
  chaos: number;
  /** Whether the sandbox plays the scenario. */
  play: boolean;
  /**
   * Whether people use the sandbox after the scenario. If true, playOnce() dates the subscriptions
   * back to the months of the scenario, and breaks one webhook endpoint for people to repair.
   */
  staysUp: boolean;
  dataDir?: string | undefined;
  /** Called with each message about the progress. */
  report: (line: string) => void;
  log: Log;
  /** When this signal aborts, a running startSandbox() or playOnce() throws the signal's reason. */
  signal: AbortSignal;
}

/** The JSON that `billing sandbox --once --json` prints. */
export interface Summary {
  subscribers: number;
  periods: number;
  payments: { succeeded: number; failed: number };
  events: Record<string, number>;
  deliveries: { delivered: number; failed: number; attempts: number };
  invariants: Record<string, boolean>;
  chainSeconds: number;
  elapsedMs: number;
  kills: Readonly<Record<string, number>>;
}

export interface DemoPages {
  subscribe: string;
  account: string;
  dashboard: string;
}

export interface Sandbox {
  /** The JSON that `billing sandbox --json` prints when the sandbox is up. */
  ready: {
    ready: true;
    apiUrl: string;
    metricsUrls: Record<string, string>;
    rpcUrl: string;
    wsUrl: string;
    databaseUrl: string;
    mint: string;
    programId: string;
    keeper: string;
    treasury: string;
    merchants: {
      wallet: string;
      secretKey: string;
      token: string;
      apiKey: string;
      appId: string;
      planId: string;
      planPda: string;
      webhookSecret: string;
    }[];
    subscribers: { wallet: string; secretKey: string; token: string }[];
    /**
     * A wallet with SOL and USDC that takes no part in the scenario. `subscribeUrl` and
     * `accountUrl` open the subscriber pages with this wallet. `dashboardUrl` opens the dashboard
     * with the first merchant's wallet.
     */
    demo: {
      wallet: string;
      secretKey: string;
      subscribeUrl: string;
      accountUrl: string;
      dashboardUrl: string;
    };
  };
  /** Creates a short URL with the path `path` that redirects to `url`. */
  lead: (path: string, url: string) => string;
  /** Short URLs of the demo wallets' pages. */
  pages: DemoPages;
  processes: Processes;
  chain: SandboxChain;
  /**
   * Plays the scenario once and checks the invariants. Afterwards the chain runs in real time.
   * `breaches` lists the breaches of each invariant by the invariant's name.
   */
  playOnce(): Promise<{ summary: Summary; breaches: Record<string, string[]> }>;
  stop(): Promise<void>;
}

// Block time in milliseconds during the start and while the scenario is played. The time is short
// enough that months of chain time take seconds, and long enough that a block has several
// transactions.
const PLAY_BLOCK_MS = 30;
// Block time in milliseconds while people use the sandbox. With this block time, as on a public
// cluster, a transaction stays valid for a minute, so a person has time to sign it.
const REAL_BLOCK_MS = 400;
// Lamports that each wallet gets for transaction fees and rent.
const WALLET_LAMPORTS = 1_000_000_000n;
const DEMO_USDC = 1_000_000_000n;
const KEEPER_LAMPORTS = 1_000_000_000_000n;

/**
 * Starts the sandbox. Resolves when the merchants have active plans and every wallet is signed in.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { report, log, periods, signal } = options;
  const startedAt = Date.now();
  const processes = await startProcesses({
    dataDir: options.dataDir,
    blockMs: PLAY_BLOCK_MS,
    mint: LOCALNET_MINT,
    // The clock starts in the past, so that the months of the scenario end now.
    hoursAgo: options.play ? playHours(periods) : 0,
    signal,
  });
  const chain = createSandboxChain(processes.rpcUrl, LOCALNET_MINT, log);
  const server = await startMerchantServer();
  const stop = async () => {
    await server.close();
    await chain.close();
    await processes.stop();
  };
  try {
    await chain.fund(processes.keeper, { lamports: KEEPER_LAMPORTS });
    await allReady(processes, signal);
    report(`everything is up after ${Date.now() - startedAt} ms: ${processes.apiUrl}`);
    const { apiUrl } = processes;
    // Each run of the scenario on the same data gets another seed, and therefore other wallets.
    const random = seeded(options.seed + processes.plays * 1_000_003);
    const merchants = await createMerchants(apiUrl, chain, server, random);
    signal.throwIfAborted();
    const subscribers = cast(options.subscribers, periods, merchants, random);
    await Promise.all(
      subscribers.map(async (subscriber) => {
        await chain.fund(subscriber.wallet.address, { lamports: WALLET_LAMPORTS });
        subscriber.token = await signIn(apiUrl, subscriber.wallet, 'subscriber');
      }),
    );
    const demo = walletFromSeed(randomBytes(32));
    await chain.fund(demo.address, { lamports: WALLET_LAMPORTS, usdc: DEMO_USDC });
    report(
      `${merchants.length} merchants have published plans, ${subscribers.length} wallets are signed in`,
    );
    const stage = { apiUrl, chain, programId: SUBSCRIPTIONS_PROGRAM, mint: LOCALNET_MINT };
    if (!options.play) await chain.setBlockTime(REAL_BLOCK_MS);
    const ready = describeReady(processes, merchants, subscribers, demo);
    const wallets = [...subscribers.map(({ wallet }) => wallet), demo];
    const scene = { stage, processes, server, merchants, subscribers, random, wallets };
    const { control, ...playing } = playable(scene, options, startedAt);
    ready.demo.dashboardUrl += `&control=${encodeURIComponent(control)}`;
    return {
      ready,
      lead: (path, url) => server.leadTo(path, url),
      pages: {
        subscribe: server.leadTo('/subscribe', ready.demo.subscribeUrl),
        account: server.leadTo('/account', ready.demo.accountUrl),
        dashboard: server.leadTo('/dashboard', ready.demo.dashboardUrl),
      },
      processes,
      chain,
      ...playing,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Adds the controls to the dashboard. The controls do not work while the scenario is running. If
 * the sandbox stays up, playOnce() breaks a webhook endpoint after the scenario, so that people can
 * repair the endpoint.
 */
function playable(
  scene: Parameters<typeof playOnce>[0] & { wallets: readonly Wallet[] },
  options: SandboxOptions,
  startedAt: number,
): Pick<Sandbox, 'playOnce'> & { control: string } {
  const { signal, periods } = options;
  const { stage, processes, server, wallets } = scene;
  const [merchant] = scene.merchants;
  if (merchant === undefined) throw new Error('there is no merchant');
  let isPlaying = options.play;
  const control = addControls({
    ...{ server, stage, processes, merchant, wallets, signal },
    chaos: createChaos(processes, 0, periods),
    blockTimes: { play: PLAY_BLOCK_MS, real: REAL_BLOCK_MS },
    isPlaying: () => isPlaying,
  });
  return {
    control,
    async playOnce() {
      try {
        const played = await playOnce(scene, options, startedAt);
        if (options.staysUp) {
          await datePlay(processes.sql);
          await breakEndpoint({ server, stage, merchant });
        }
        return played;
      } finally {
        isPlaying = false;
        if (!signal.aborted) await stage.chain.setBlockTime(REAL_BLOCK_MS);
      }
    },
  };
}

/** Builds the JSON that `billing sandbox --json` prints. */
function describeReady(
  processes: Processes,
  merchants: readonly Merchant[],
  subscribers: ReturnType<typeof cast>,
  demo: Wallet,
): Sandbox['ready'] {
  return {
    ready: true,
    apiUrl: processes.apiUrl,
    metricsUrls: processes.metricsUrls,
    rpcUrl: processes.rpcUrl,
    wsUrl: processes.wsUrl,
    databaseUrl: processes.databaseUrl,
    mint: LOCALNET_MINT,
    programId: SUBSCRIPTIONS_PROGRAM,
    keeper: processes.keeper,
    treasury: processes.treasury,
    merchants: merchants.map(describeMerchant),
    subscribers: subscribers.map(({ wallet, token }) => ({
      wallet: wallet.address,
      secretKey: wallet.secretKey,
      token,
    })),
    demo: demoPages(processes.apiUrl, demo, merchants),
  };
}

/**
 * Plays the scenario, reads its results and checks the invariants. `startedAt` is the sandbox's
 * start in Unix milliseconds.
 */
async function playOnce(
  scene: {
    stage: Stage;
    processes: Processes;
    server: Awaited<ReturnType<typeof startMerchantServer>>;
    merchants: Merchant[];
    subscribers: ReturnType<typeof cast>;
    random: ReturnType<typeof seeded>;
  },
  { chaos: kills, periods, report, signal }: SandboxOptions,
  startedAt: number,
): ReturnType<Sandbox['playOnce']> {
  const { stage, processes, server, merchants, subscribers } = scene;
  const { chain } = stage;
  const chaos = createChaos(processes, kills, periods);
  const treasuryBefore = await chain.balance(processes.treasury);
  const chainStart = await chain.now();
  await play({ ...scene, periods, chaos, report, signal });
  const evidence = await gatherEvidence(stage, processes, server, merchants, subscribers);
  const breaches = checkInvariants(evidence, { subscribers, periods, treasuryBefore });
  const { delivered, failed, attempts } = evidence.deliveries;
  const summary: Summary = {
    subscribers: subscribers.length,
    periods,
    payments: {
      succeeded: evidence.payments.filter(({ status }) => status === 'succeeded').length,
      failed: evidence.payments.filter(({ status }) => status === 'failed').length,
    },
    events: countBy(evidence.events.map(({ type }) => type)),
    deliveries: { delivered, failed, attempts },
    invariants: Object.fromEntries(
      Object.entries(breaches).map(([name, found]) => [name, found.length === 0]),
    ),
    chainSeconds: Number((await chain.now()) - chainStart),
    elapsedMs: Date.now() - startedAt,
    kills: chaos.kills(),
  };
  return { summary, breaches };
}

/**
 * Builds the URLs of the demo wallets' pages. The fragment of each URL holds the secret key of the
 * wallet that the page uses.
 */
function demoPages(apiUrl: string, demo: Wallet, [merchant]: readonly Merchant[]) {
  const selling = merchant?.wallet.secretKey ?? '';
  return {
    wallet: demo.address,
    secretKey: demo.secretKey,
    subscribeUrl: `${apiUrl}/s/${merchant?.planId ?? ''}#demo=${demo.secretKey}`,
    accountUrl: `${apiUrl}/account#demo=${demo.secretKey}`,
    dashboardUrl: `${apiUrl}/dashboard#demo=${selling}`,
  };
}

function describeMerchant({
  wallet,
  token,
  apiKey,
  appId,
  planId,
  planPda,
  webhookSecret,
}: Merchant) {
  return {
    wallet: wallet.address,
    secretKey: wallet.secretKey,
    token,
    apiKey,
    appId,
    planId,
    planPda,
    webhookSecret,
  };
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names.toSorted()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
