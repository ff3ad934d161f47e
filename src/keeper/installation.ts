// Which chain, program, mint and wallet this keeper works with, and whether they are what the configuration says.
import { tokenAccountIn } from '../chain/accounts.ts';
import { SUBSCRIPTIONS_PROGRAM, TOKEN_PROGRAM, tokenAccountAddress } from '../chain/addresses.ts';
import { CLUSTERS, clusterMismatch } from '../chain/clusters.ts';
import { type Keypair, readKeypair } from '../chain/keypair.ts';
import type { Rpc } from '../chain/rpc.ts';
import type { Config } from '../config.ts';
import { required } from '../config.ts';
import { messageOf, OperatorError } from '../errors.ts';

export interface Installation {
  readonly programId: string;
  readonly mint: string;
  readonly treasury: string;
  readonly keypair: Keypair;
}

/** Reads what is configured. Throws an OperatorError: no mint for the cluster, a keypair file that is none or open to others, an address that is not its own. */
export async function readInstallation(config: Config): Promise<Installation> {
  const { keeperKeypair, treasury } = required(config, 'keeperKeypair', 'treasury');
  const mint = config.usdcMint ?? CLUSTERS[config.cluster].usdcMint;
  if (mint === null) throw new OperatorError(`USDC_MINT is required: the cluster ${config.cluster} has no USDC mint of its own.`, 2);
  const keypair = await readKeypair(keeperKeypair).catch((error: unknown) => {
    throw new OperatorError(`KEEPER_KEYPAIR cannot be used: ${messageOf(error)}.`, 2, { cause: error });
  });
  if (config.keeperAddress !== undefined && config.keeperAddress !== keypair.address) {
    throw new OperatorError(
      `KEEPER_ADDRESS is ${config.keeperAddress}, but the keypair in KEEPER_KEYPAIR is ${keypair.address}'s. Correct one of them.`,
      2,
    );
  }
  return { programId: config.programId ?? SUBSCRIPTIONS_PROGRAM, mint, treasury, keypair };
}

/** Looks whether the chain is the configured one. Throws an OperatorError when it is not, and as the RPC client does when it cannot be asked. */
export async function verifyChain(rpc: Rpc, config: Config, { programId, mint, treasury }: Installation): Promise<void> {
  const mismatch = clusterMismatch(config.cluster, await rpc.getGenesisHash());
  if (mismatch !== null) throw new OperatorError(`${mismatch}. Correct SOLANA_CLUSTER or SOLANA_RPC_URL.`, 2);
  const { accounts } = await rpc.getMultipleAccounts([programId, mint, tokenAccountAddress(treasury, mint).address]);
  const [program = null, mintAccount = null, treasuryTokens = null] = accounts;
  if (program === null)
    throw new OperatorError(`There is no Subscriptions program at ${programId} on ${config.cluster}. Correct SUBSCRIPTIONS_PROGRAM_ID.`, 2);
  if (mintAccount?.owner !== TOKEN_PROGRAM)
    throw new OperatorError(`There is no SPL Token mint at ${mint} on ${config.cluster}. Correct USDC_MINT.`, 2);
  const tokens = tokenAccountIn(treasuryTokens);
  if (tokens !== null && tokens.owner !== treasury) {
    throw new OperatorError(
      `The USDC account of PLATFORM_TREASURY ${treasury} belongs to another wallet now, ${tokens.owner}. Name another treasury.`,
      2,
    );
  }
}
