import { readKeypair } from '../../chain/keypair.ts';
import type { Config } from '../../config/config.ts';
import { messageOf, OperatorError } from '../../errors.ts';

/**
 * The keeper's address from KEEPER_ADDRESS, else from the file in KEEPER_KEYPAIR; undefined when
 * neither is configured. Throws an OperatorError for an unusable keypair file.
 */
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
