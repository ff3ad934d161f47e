// Before the first payment, checks that keypairs, program, mint, treasuries and chain match the
// configuration. Also creates the RPC client.
import {
  CLUSTERS,
  clusterMismatch,
  oneChain,
  SUBSCRIPTIONS_PROGRAM,
} from '../../chain/clusters.ts';
import { type Keypair, readKeypair } from '../../chain/keypair.ts';
import { type ChainAccount, tokenAccountIn } from '../../chain/program/accounts.ts';
import { TOKEN_PROGRAM, tokenAccountAddress } from '../../chain/program/addresses.ts';
import {
  type AbsenceAlarm,
  type AbsenceJudge,
  believeAbsence,
  createAbsenceJudge,
} from '../../chain/rpc/absence.ts';
import { createRpc, type RpcOptions } from '../../chain/rpc/client.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { type Config, required } from '../../config/config.ts';
import type { RateShare } from '../../daemon/rate-share.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { alarm } from '../track/reports.ts';

export interface Installation {
  readonly programId: string;
  readonly mint: string;
  readonly treasury: string;
  /** The keypairs in the order of the configuration. */
  readonly keypairs: readonly [Keypair, ...Keypair[]];
}

/**
 * Reads program, mint, treasury and keypairs from the configuration. Throws an OperatorError when
 * (1) no mint is known for the cluster, (2) a keypair file is unusable or readable by others, or
 * (3) the address of a keypair is missing in KEEPER_ADDRESS.
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

/**
 * Returns a message that tells the operator why this treasury cannot receive the fee, and what to
 * do. Returns undefined when the treasury can receive the fee.
 */
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
  // A lagging endpoint may not have the token account yet, so every endpoint is asked.
  const answers = await rpc.getAccountsEverywhere([tokenAccountAddress(treasury, mint).address]);
  if (answers.some((answer) => answer.accounts[0] !== null)) return undefined;
  return `The wallet of PLATFORM_TREASURY ${treasury} has no account for the mint ${mint}, and the keeper opens none. Open it: spl-token create-account ${mint} --owner ${treasury} --fee-payer <keypair file>.`;
}

/**
 * Compares the chain with the configuration. Throws an OperatorError when they differ or when no
 * treasury can receive the fee. Otherwise returns one message for each treasury that cannot receive
 * the fee. Throws RpcUnreachable or RpcError.
 */
export async function verifyChain(
  rpc: Rpc,
  config: Config,
  { programId, mint, treasury }: Installation,
): Promise<string[]> {
  const mismatch = clusterMismatch(config.cluster, await rpc.getGenesisHash());
  if (mismatch !== null)
    throw new OperatorError(`${mismatch}. Correct SOLANA_CLUSTER or SOLANA_RPC_URL.`, 2);
  const wallets = [...new Set([treasury, ...(config.treasuries ?? [])])];
  const { program, token, treasuries } = await examineAccounts(rpc, config, {
    programId,
    mint,
    wallets,
  });
  const wrong = program ?? token;
  if (wrong !== undefined) throw new OperatorError(wrong, 2);
  const faults = treasuries.flatMap(({ fault }) => fault ?? []);
  const [first] = faults;
  if (first !== undefined && faults.length === treasuries.length) throw new OperatorError(first, 2);
  return faults;
}

/** For each account of the configuration, a message if the account is unusable, else undefined. */
export interface AccountFaults {
  program: string | undefined;
  token: string | undefined;
  /** Empty when the program or the mint is unusable, because then no treasury is checked. */
  treasuries: { wallet: string; fault: string | undefined }[];
}

/** Reads program, mint and treasuries. Throws RpcUnreachable or RpcError. */
export async function examineAccounts(
  rpc: Rpc,
  { cluster }: Pick<Config, 'cluster'>,
  { programId, mint, wallets }: { programId: string; mint: string; wallets: readonly string[] },
): Promise<AccountFaults> {
  const { accounts } = await rpc.getMultipleAccounts([
    programId,
    mint,
    ...wallets.map((wallet) => tokenAccountAddress(wallet, mint).address),
  ]);
  const [program = null, mintAccount = null, ...receiving] = accounts;
  const faults = {
    program:
      program === null
        ? `There is no Subscriptions program at ${programId} on ${cluster}. Correct SUBSCRIPTIONS_PROGRAM_ID.`
        : undefined,
    token:
      mintAccount?.owner !== TOKEN_PROGRAM
        ? `There is no SPL Token mint at ${mint} on ${cluster}. Correct USDC_MINT.`
        : undefined,
  };
  if (faults.program !== undefined || faults.token !== undefined)
    return { ...faults, treasuries: [] };
  const treasuries = wallets.map(async (wallet, index) => {
    const fault = await treasuryFault(rpc, mint, wallet, receiving[index] ?? null);
    return { wallet, fault };
  });
  return { ...faults, treasuries: await Promise.all(treasuries) };
}

// On localnet the node's clock and slots are not checked, because developers set the node's clock.
const isLocal = ({ cluster }: Config) => cluster === 'localnet';

/** This keeper's shares of SOLANA_RPC_RATE and SOLANA_SEND_RATE. */
export type Rates = Record<'reads' | 'sends', RateShare>;

type Alarms = Parameters<typeof alarm>[0];

/**
 * Creates the RPC client of a keeper without sending a request. Throws a TypeError for a bad URL.
 */
export function openClient(
  config: Config,
  urls: readonly string[],
  {
    log,
    metrics,
    observe,
    rates,
  }: Alarms & { log: Log; observe: RpcOptions['observe']; rates: Rates },
): Rpc {
  return createRpc({
    urls,
    refuses: oneChain(config.cluster),
    requestsPerSecond: rates.reads.now,
    sendUrls: config.sendUrls,
    sendsPerSecond: rates.sends.now,
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

/**
 * Creates the AbsenceJudge, which decides whether an account that is missing at one RPC endpoint no
 * longer exists. On localnet, every missing account counts as gone.
 */
export function absenceJudge(config: Config, rpc: Rpc, alarms: Alarms): AbsenceJudge {
  const onAlarm = (reason: AbsenceAlarm, accounts: number) => alarm(alarms, reason, { accounts });
  return isLocal(config) ? believeAbsence : createAbsenceJudge(rpc, { onAlarm });
}
