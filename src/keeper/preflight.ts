// What is known before the first payment: keypair, program and mint, whether the chain is the
// configured one, and the SOL of the keeper's wallets.
import { CLUSTERS, clusterMismatch, oneChain, SUBSCRIPTIONS_PROGRAM } from '../chain/clusters.ts';
import { type Keypair, readKeypair } from '../chain/keypair.ts';
import { type ChainAccount, tokenAccountIn } from '../chain/program/accounts.ts';
import { TOKEN_PROGRAM, tokenAccountAddress } from '../chain/program/addresses.ts';
import {
  type AbsenceAlarm,
  type AbsenceJudge,
  believeAbsence,
  createAbsenceJudge,
} from '../chain/rpc/absence.ts';
import { createRpc, type RpcOptions } from '../chain/rpc/client.ts';
import type { Rpc } from '../chain/rpc/rpc.ts';
import type { ChainClock } from '../chain/time.ts';
import type { Fees } from '../chain/transactions/fees.ts';
import type { TransactionVersions } from '../chain/transactions/version.ts';
import { type Config, required } from '../config/config.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { Notifier } from '../db/postgres/notify.ts';
import type { HeldSubscription } from '../db/subscription-work.ts';
import type { Rules } from '../domain/collecting/decision.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { KeeperMetrics } from './metrics.ts';
import { alarm, type ReportUnreadable } from './reports.ts';

/** What every step of the keeper works with. */
export interface Context {
  readonly sql: Sql;
  readonly log: Log;
  readonly rpc: Rpc;
  readonly clock: ChainClock;
  /** Learns of expired and landed payments, and of exceeded compute limits. */
  readonly fees: Fees;
  readonly versions: Pick<TransactionVersions, 'refused'>;
  readonly metrics: KeeperMetrics;
  readonly reportUnreadable: ReportUnreadable;
  /** Gets each subscription that is read, and again as it was written. */
  readonly onRead: (rows: readonly HeldSubscription[]) => void;
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
 * Reads the configuration. Throws an OperatorError where the cluster has no mint, the keypair file
 * cannot be used or others can read it, or KEEPER_ADDRESS is another address.
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

/** Why a treasury cannot receive, and what to do; undefined where it can. */
async function treasuryFault(
  rpc: Rpc,
  mint: string,
  treasury: string,
  account: ChainAccount | null,
): Promise<string | undefined> {
  const tokens = tokenAccountIn(account);
  if (tokens?.owner === treasury) return undefined;
  if (tokens !== null)
    return `The USDC account of PLATFORM_TREASURY ${treasury} belongs to another wallet now, ${tokens.owner}. Name another treasury.`;
  // An endpoint that is behind may not have the account yet.
  const answers = await rpc.getAccountsEverywhere([tokenAccountAddress(treasury, mint).address]);
  if (answers.some((answer) => answer.accounts[0] !== null)) return undefined;
  return `The wallet of PLATFORM_TREASURY ${treasury} has no account for the mint ${mint}, and the keeper opens none. Open it: spl-token create-account ${mint} --owner ${treasury} --fee-payer <keypair file>.`;
}

/**
 * Compares the chain with the configuration. Throws an OperatorError where they differ or no
 * treasury can receive, and as the RPC client does. Resolves with what is wrong with some of
 * several treasuries.
 */
export async function verifyChain(
  rpc: Rpc,
  config: Config,
  { programId, mint, treasury }: Installation,
): Promise<string[]> {
  const mismatch = clusterMismatch(config.cluster, await rpc.getGenesisHash());
  if (mismatch !== null)
    throw new OperatorError(`${mismatch}. Correct SOLANA_CLUSTER or SOLANA_RPC_URL.`, 2);
  const treasuries = [...new Set([treasury, ...(config.treasuries ?? [])])];
  const { accounts } = await rpc.getMultipleAccounts([
    programId,
    mint,
    ...treasuries.map((one) => tokenAccountAddress(one, mint).address),
  ]);
  const [program = null, mintAccount = null, ...receiving] = accounts;
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
  const looked = await Promise.all(
    treasuries.map((one, place) => treasuryFault(rpc, mint, one, receiving[place] ?? null)),
  );
  const faults = looked.filter((fault) => fault !== undefined);
  const [first] = faults;
  if (first !== undefined && faults.length === treasuries.length) throw new OperatorError(first, 2);
  return faults;
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
    slots: isLocal(config)
      ? undefined
      : {
          onDisbelief: (slot, plausible) =>
            alarm({ log, metrics }, 'slot_not_believed', {
              slot: Number(slot),
              plausible: Number(plausible),
            }),
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

/** Lamports below which operators are warned: some 10,000 payments. */
const LOW = 100_000_000n;
/** Lamports below which nothing is collected: what a batch may cost. */
const EMPTY = 5_000_000n;
const SOL = 1_000_000_000;

/**
 * Milliseconds between reads of a balance that suffices: while payments are in flight, and while
 * none is.
 */
const SPENDING_AGE_MS = 10_000;
const IDLE_AGE_MS = 300_000;

export interface Balance {
  /**
   * Reads the balances, but for those of which the last reading is recent enough. Throws as the RPC
   * client does.
   */
  check(isSpending: boolean): Promise<void>;
  /** Why nothing can be paid for; undefined while the balance of the wallet in use suffices. */
  shortage(): string | undefined;
  /** Whether this wallet was out of SOL when its balance was last read. */
  isEmpty(keeper: string): boolean;
}

/** Watches the SOL balance of each of the keeper's wallets and logs each change of level once. */
export function createBalance(
  context: Context,
  monotonicMs: () => number = () => performance.now(),
): Balance {
  const { keypair, keypairs } = context;
  const wallets = new Map(
    [keypair.address, ...keypairs.keys()].map((address) => [
      address,
      watchWallet(context, address, monotonicMs),
    ]),
  );
  return {
    async check(isSpending) {
      await Promise.all([...wallets.values()].map((wallet) => wallet.check(isSpending)));
    },
    shortage: () => wallets.get(keypair.address)?.shortage(),
    isEmpty: (keeper) => wallets.get(keeper)?.isEmpty() === true,
  };
}

function watchWallet(
  { rpc, log, metrics }: Context,
  keeper: string,
  monotonicMs: () => number,
): Omit<Balance, 'isEmpty'> & { isEmpty(): boolean } {
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
    isEmpty: () => level === 'empty',
  };
}
