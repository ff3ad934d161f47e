import { readKeypair } from '../chain/keypair.ts';
import type { Config } from '../config.ts';
import { messageOf, OperatorError } from '../errors.ts';

/** The keeper's wallet: KEEPER_ADDRESS, or that of KEEPER_KEYPAIR; undefined where neither is configured. Throws an OperatorError for a file that is no keypair. */
export async function keeperAddressOf({
  keeperAddress,
  keeperKeypair,
}: Pick<Config, 'keeperAddress' | 'keeperKeypair'>): Promise<string | undefined> {
  if (keeperAddress !== undefined || keeperKeypair === undefined) return keeperAddress;
  const { address } = await readKeypair(keeperKeypair).catch((error: unknown) => {
    throw new OperatorError(`KEEPER_KEYPAIR cannot be used: ${messageOf(error)}.`, 2, {
      cause: error,
    });
  });
  return address;
}
