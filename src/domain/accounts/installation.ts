// Derives the installation from the configuration and compares it with the installation that the
// first daemon recorded.
import { CLUSTERS, SUBSCRIPTIONS_PROGRAM } from '../../chain/clusters.ts';
import type { Config } from '../../config/config.ts';
import { claimInstallation, type Installation } from '../../db/operating/installation.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { OperatorError } from '../../errors.ts';
import { keeperAddressOf } from './keeper-address.ts';

const variableOf: Record<keyof Installation, string> = {
  cluster: 'SOLANA_CLUSTER',
  mint: 'USDC_MINT',
  programId: 'SUBSCRIPTIONS_PROGRAM_ID',
  keepers: 'KEEPER_ADDRESS',
  treasuries: 'PLATFORM_TREASURY',
  feeBps: 'PLATFORM_FEE_BPS',
  windowSeconds: 'COLLECTION_WINDOW_SECONDS',
};

/**
 * Derives the configured installation. Throws an OperatorError (exit code 2) when the mint, the
 * keeper or the treasury is not configured.
 */
export async function installationOf(config: Config): Promise<Installation> {
  const mint = config.usdcMint ?? CLUSTERS[config.cluster].usdcMint;
  const keeper = await keeperAddressOf(config);
  const keepers = config.keeperAddresses ?? (keeper === undefined ? [] : [keeper]);
  const { cluster, programId = SUBSCRIPTIONS_PROGRAM, treasuries = [] } = config;
  const { feeBps, windowSeconds } = config;
  if (mint === null)
    throw new OperatorError(`USDC_MINT is required where SOLANA_CLUSTER is ${cluster}.`, 2);
  if (keepers.length === 0) throw new OperatorError('KEEPER_ADDRESS is required.', 2);
  if (treasuries.length === 0) throw new OperatorError('PLATFORM_TREASURY is required.', 2);
  return { cluster, mint, programId, keepers, treasuries, feeBps, windowSeconds };
}

/**
 * Returns one line for each value that differs between the two installations. The line has both
 * values.
 */
export function differences(recorded: Installation, configured: Installation): string[] {
  return (Object.keys(variableOf) as (keyof Installation)[]).flatMap((key) => {
    const [recordedValue, ownValue] = [String(recorded[key]), String(configured[key])];
    return recordedValue === ownValue
      ? []
      : [`${variableOf[key]} is ${ownValue} here and ${recordedValue} in the database`];
  });
}

/**
 * Records the configured installation if none is recorded. If the recorded installation differs,
 * throws an OperatorError (exit code 2) that lists the differences. If KEEPER_ADDRESS is not set,
 * the configuration has only the address of the keypair. The keepers then do not count as different
 * if this address is one of the recorded keepers.
 */
export async function assertInstallation(sql: Sql, config: Config): Promise<void> {
  const configured = await installationOf(config);
  const recorded = await claimInstallation(sql, configured);
  const isKnown = configured.keepers.every((keeper) => recorded.keepers.includes(keeper));
  if (config.keeperAddresses === undefined && isKnown) configured.keepers = recorded.keepers;
  const found = differences(recorded, configured);
  if (found.length === 0) return;
  throw new OperatorError(
    `This configuration differs from that of the other daemons:\n${found.map((line) => `  - ${line}`).join('\n')}\n` +
      'Correct it, or change all daemons together with "billing configure".',
    2,
  );
}
