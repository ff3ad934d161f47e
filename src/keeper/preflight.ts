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
import { createRpc, type Rpc, type RpcOptions } from '../chain/rpc/client.ts';
import { type Config, required } from '../config/config.ts';
import { messageOf, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { alarm } from './reports.ts';

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
  const walkedRows = await Promise.all(
    treasuries.map((one, place) => treasuryFault(rpc, mint, one, receiving[place] ?? null)),
  );
  const faults = walkedRows.filter((fault) => fault !== undefined);
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
