// What is known before the first payment: keypair, program and mint, whether the chain is the configured one, whether RPC answers, and the SOL balance.
import {
  type AbsenceAlarm,
  type AbsenceJudge,
  believeAbsence,
  createAbsenceJudge,
} from '../chain/absence.ts';
import { tokenAccountIn } from '../chain/accounts.ts';
import { TOKEN_PROGRAM, tokenAccountAddress } from '../chain/addresses.ts';
import { CLUSTERS, clusterMismatch, oneChain, SUBSCRIPTIONS_PROGRAM } from '../chain/clusters.ts';
import { type Keypair, readKeypair } from '../chain/keypair.ts';
import { RpcUnreachable } from '../chain/rpc-errors.ts';
import { createRpc, type Rpc, type RpcOptions } from '../chain/rpc.ts';
import { type Config, required } from '../config.ts';
import type { Sql } from '../db/connect.ts';
import type { Notifier } from '../db/notify.ts';
import type { Rules } from '../domain/decision.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { alarm, type KeeperMetrics } from './metrics.ts';
import type { ReportUnreadable } from './unreadable-report.ts';

/** What every step of the keeper works with. */
export interface Context {
  readonly sql: Sql;
  readonly log: Log;
  readonly rpc: Rpc;
  readonly metrics: KeeperMetrics;
  readonly reportUnreadable: ReportUnreadable;
  /** Tells whether accounts that an endpoint does not have are gone. */
  readonly absence: AbsenceJudge;
  /** Wakes the dispatchers. */
  readonly deliveries: Notifier;
  readonly programId: string;
  readonly mint: string;
  /** The keypair in use. */
  readonly keypair: Keypair;
  /** All keypairs by their address: a plan is collected from with one that it names. */
  readonly keypairs: ReadonlyMap<string, Keypair>;
  /** Our wallets, former ones too. */
  readonly ours: readonly string[];
  /** Wallets that take the fee, the preferred one first. */
  readonly treasuries: readonly string[];
  readonly rules: Rules;
}

export interface Installation {
  readonly programId: string;
  readonly mint: string;
  readonly treasury: string;
  /** The one in use, then others that plans name. */
  readonly keypairs: readonly [Keypair, ...Keypair[]];
}

/**
 * Reads the configuration. Throws an OperatorError where the cluster has no mint, the keypair file cannot be used or others can read it, or
 * KEEPER_ADDRESS is another address.
 */
export async function readInstallation(config: Config): Promise<Installation> {
  const { keeperKeypairs, treasury } = required(config, 'keeperKeypairs', 'treasury');
  const mint = config.usdcMint ?? CLUSTERS[config.cluster].usdcMint;
  if (mint === null)
    throw new OperatorError(
      `USDC_MINT is required: the cluster ${config.cluster} has no USDC mint of its own.`,
      2,
    );
  const keypairs = await Promise.all(keeperKeypairs.map((path) => openKeypair(config, path)));
  const [first, ...others] = keypairs;
  if (first === undefined) throw new OperatorError('KEEPER_KEYPAIR names no file.', 2);
  const programId = config.programId ?? SUBSCRIPTIONS_PROGRAM;
  return { programId, mint, treasury, keypairs: [first, ...others] };
}

async function openKeypair({ keeperAddresses }: Config, path: string): Promise<Keypair> {
  const keypair = await readKeypair(path).catch((error: unknown) => {
    throw new OperatorError(`KEEPER_KEYPAIR cannot be used: ${messageOf(error)}.`, 2, {
      cause: error,
    });
  });
  if (keeperAddresses === undefined || keeperAddresses.includes(keypair.address)) return keypair;
  throw new OperatorError(
    `KEEPER_ADDRESS is ${keeperAddresses.join(', ')}, but the keypair in KEEPER_KEYPAIR is ${keypair.address}'s. Correct one of them.`,
    2,
  );
}

/** An endpoint that is behind may not have the account yet. */
async function isMissingEverywhere(rpc: Rpc, address: string): Promise<boolean> {
  const answers = await rpc.getAccountsEverywhere([address]);
  return answers.every(({ accounts }) => accounts[0] === null);
}

/** Compares the chain with the configuration. Throws an OperatorError where they differ, and as the RPC client does. */
export async function verifyChain(
  rpc: Rpc,
  config: Config,
  { programId, mint, treasury }: Installation,
): Promise<void> {
  const mismatch = clusterMismatch(config.cluster, await rpc.getGenesisHash());
  if (mismatch !== null)
    throw new OperatorError(`${mismatch}. Correct SOLANA_CLUSTER or SOLANA_RPC_URL.`, 2);
  const treasuryAddress = tokenAccountAddress(treasury, mint).address;
  const { accounts } = await rpc.getMultipleAccounts([programId, mint, treasuryAddress]);
  const [program = null, mintAccount = null, treasuryTokens = null] = accounts;
  if (program === null)
    throw new OperatorError(
      `There is no Subscriptions program at ${programId} on ${config.cluster}. Correct SUBSCRIPTIONS_PROGRAM_ID.`,
      2,
    );
  if (mintAccount?.owner !== TOKEN_PROGRAM)
    throw new OperatorError(
      `There is no SPL Token mint at ${mint} on ${config.cluster}. Correct USDC_MINT.`,
      2,
    );
  const tokens = tokenAccountIn(treasuryTokens);
  if (tokens === null && (await isMissingEverywhere(rpc, treasuryAddress))) {
    throw new OperatorError(
      `The wallet of PLATFORM_TREASURY ${treasury} has no account for the mint ${mint}, and the keeper opens none. Open it: spl-token create-account ${mint} --owner ${treasury} --fee-payer <keypair file>.`,
      2,
    );
  }
  if (tokens !== null && tokens.owner !== treasury) {
    throw new OperatorError(
      `The USDC account of PLATFORM_TREASURY ${treasury} belongs to another wallet now, ${tokens.owner}. Name another treasury.`,
      2,
    );
  }
}

// A local chain has one node, which is believed, and its users move its clock.
const isLocal = ({ cluster }: Config) => cluster === 'localnet';

type Alarms = Parameters<typeof alarm>[0];

/** Opens the RPC client of a keeper; nothing is sent yet. Throws a TypeError for a bad URL. */
export function openClient(
  config: Config,
  urls: readonly string[],
  { log, metrics, observe }: Alarms & { log: Log; observe: RpcOptions['observe'] },
): Rpc {
  return createRpc({
    urls,
    refuses: oneChain(config.cluster),
    requestsPerSecond: config.rpcRate === 0 ? undefined : config.rpcRate,
    sendUrls: config.sendUrls,
    sendsPerSecond: config.sendRate === 0 ? undefined : config.sendRate,
    clock: isLocal(config)
      ? undefined
      : {
          onDisbelief: (seconds, expected) =>
            alarm({ log, metrics }, 'clock_not_believed', { seconds, expected }),
        },
    log,
    observe,
  });
}

/** How this cluster's endpoints are believed about accounts that they do not have. */
export function absenceJudge(config: Config, rpc: Rpc, alarms: Alarms): AbsenceJudge {
  const onAlarm = (reason: AbsenceAlarm, accounts: number) => alarm(alarms, reason, { accounts });
  return isLocal(config) ? believeAbsence : createAbsenceJudge(rpc, { onAlarm });
}

export interface WatchedRpc {
  readonly rpc: Rpc;
  /** Why the chain is out of reach; undefined while an endpoint answers. */
  outage(): string | undefined;
}

/** An endpoint that is behind the wanted slot is no outage, and no sign that an outage is over. */
function isBehind({ failures }: RpcUnreachable): boolean {
  return failures.some(({ fault }) => fault === 'behind');
}

/** The same client, which logs an outage once when it begins and once when it ends. */
export function watchRpc(
  rpc: Rpc,
  log: Log,
  metrics: Pick<KeeperMetrics, 'rpcReachable'>,
): WatchedRpc {
  let outage: string | undefined;
  const answered = () => {
    if (outage !== undefined) log.info('the Solana RPC is back');
    outage = undefined;
    metrics.rpcReachable.set(1);
  };
  const watch = async (call: Promise<unknown>): Promise<unknown> => {
    try {
      const answer = await call;
      answered();
      return answer;
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) answered();
      else if (!isBehind(error)) {
        if (outage === undefined)
          log.error({ reason: error.message }, 'no Solana RPC endpoint answers; the keeper waits');
        outage = messageOf(error);
        metrics.rpcReachable.set(0);
      }
      throw error;
    }
  };
  const methods = Object.entries(rpc) as [string, (...args: unknown[]) => unknown][];
  const wrapped: Record<string, unknown> = {};
  for (const [name, method] of methods) {
    wrapped[name] =
      name === 'health' || name === 'close' || name === 'sendRate'
        ? method
        : (...args: unknown[]) => watch(method(...args) as Promise<unknown>);
  }
  return { rpc: wrapped as unknown as Rpc, outage: () => outage };
}

/** Lamports below which operators are warned: some 10,000 payments. */
const LOW = 100_000_000n;
/** Lamports below which nothing is collected: what a batch may cost. */
const EMPTY = 5_000_000n;
const SOL = 1_000_000_000;

/** Milliseconds between reads of a balance that suffices: while payments are in flight, and while none is. */
const SPENDING_AGE_MS = 10_000;
const IDLE_AGE_MS = 300_000;

export interface Balance {
  /** Reads the balances, but for those of which the last reading is recent enough. Throws as the RPC client does. */
  check(isSpending: boolean): Promise<void>;
  /** Why nothing can be paid for; undefined while the balance of the wallet in use suffices. */
  shortage(): string | undefined;
}

/** Watches the SOL balance of each of the keeper's wallets and logs each change of level once. */
export function createBalance(
  context: Context,
  monotonicMs: () => number = () => performance.now(),
): Balance {
  const { keypair, keypairs } = context;
  const inUse = watchWallet(context, keypair.address, monotonicMs);
  const others = [...keypairs.keys()]
    .filter((address) => address !== keypair.address)
    .map((address) => watchWallet(context, address, monotonicMs));
  return {
    async check(isSpending) {
      await Promise.all([inUse, ...others].map((wallet) => wallet.check(isSpending)));
    },
    shortage: () => inUse.shortage(),
  };
}

function watchWallet(
  { rpc, log, metrics }: Context,
  keeper: string,
  monotonicMs: () => number,
): Balance {
  let level: 'unknown' | 'fine' | 'low' | 'empty' = 'unknown';
  let balance = 0n;
  let readAt = -Infinity;
  return {
    async check(isSpending) {
      const age = monotonicMs() - readAt;
      if (level === 'fine' && age < (isSpending ? SPENDING_AGE_MS : IDLE_AGE_MS)) return;
      balance = await rpc.getBalance(keeper);
      readAt = monotonicMs();
      const facts = { keeper, sol: Number(balance) / SOL };
      metrics.sol.set({ keeper }, facts.sol);
      const now = balance < EMPTY ? 'empty' : balance < LOW ? 'low' : 'fine';
      if (now === level) return;
      if (now === 'empty') {
        metrics.alerts.inc({ reason: 'keeper_out_of_sol' });
        log.error(facts, 'keeper out of SOL; nothing is collected with it until it is refilled');
      } else if (now === 'low') log.warn(facts, 'keeper low on SOL; refill it');
      else if (level !== 'unknown') log.info(facts, 'keeper has enough SOL again');
      level = now;
    },
    shortage() {
      if (level === 'unknown') return 'the SOL balance of the keeper has not been read yet';
      return level === 'empty'
        ? `the keeper ${keeper} is out of SOL (${Number(balance) / SOL})`
        : undefined;
    },
  };
}
