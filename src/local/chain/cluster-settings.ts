// The settings of a cluster that can change while the cluster runs: the rent, and the feature that
// enables version 1 transactions. Both settings are stored in accounts. A fork or a restart
// restores the accounts, and thereby the settings.
import { SYSTEM_PROGRAM } from '../../chain/program/addresses.ts';
import { current, noteChange, overwrite } from './accounts.ts';
import { addressKey } from './keys.ts';
import type { Chain } from './state.ts';
import type { AccountState } from './vm.ts';

const RENT_SYSVAR = addressKey('SysvarRent111111111111111111111111111111111');
/**
 * The feature account of version 1 transactions. The account holds the slot in which the feature
 * was activated.
 */
export const V1_FEATURE = addressKey('txv1aq4pp281K9um3tnPgkfX8UqtFT6wcVW3hNezGLL');
const FEATURE_PROGRAM = addressKey('Feature111111111111111111111111111111111111');
/**
 * Length of a feature account in bytes: one byte for the activation flag, eight for the slot (u64).
 */
export const FEATURE_LENGTH = 9;
const SYSTEM = addressKey(SYSTEM_PROGRAM);
/** The value of `rentEpoch` in an account that is exempt from rent. */
export const RENT_EXEMPT_FOREVER = 2n ** 64n - 1n;

/**
 * Rent in lamports per byte, as on Solana's clusters since autumn 2026. With this rent, a token
 * account needs 1,488,440 lamports.
 */
export const RENT_LAMPORTS_PER_BYTE = 5_080;

/** Sets the rent. The new rent applies from the block being built. */
export function setRent(chain: Chain, lamportsPerByte: number): void {
  const before = current(chain, RENT_SYSVAR);
  chain.vm.setRent(lamportsPerByte);
  chain.hot.delete(RENT_SYSVAR);
  noteChange(chain, RENT_SYSVAR, before, current(chain, RENT_SYSVAR));
}

/** Returns whether the chain accepts version 1 transactions. */
export function takesV1(chain: Chain): boolean {
  const feature = current(chain, V1_FEATURE);
  return feature?.owner === FEATURE_PROGRAM && feature.data[0] === 1;
}

/** Builds the feature account of version 1 transactions as it is after activation in `slot`. */
export function activeFeature(slot: number, lamports: bigint): AccountState {
  const data = Buffer.alloc(FEATURE_LENGTH);
  data.writeUInt8(1, 0);
  data.writeBigUInt64LE(BigInt(slot), 1);
  const flags = { executable: false, rentEpoch: RENT_EXEMPT_FOREVER };
  return { lamports, owner: FEATURE_PROGRAM, data, ...flags };
}

/**
 * Enables version 1 transactions as of `slot`, or disables them by removing the feature account.
 */
export function setV1Feature(chain: Chain, active: boolean, slot: number): void {
  const removed = {
    lamports: 0n,
    owner: SYSTEM,
    data: Buffer.alloc(0),
    executable: false,
    rentEpoch: RENT_EXEMPT_FOREVER,
  };
  const lamports = chain.vm.rentExempt(FEATURE_LENGTH);
  overwrite(chain, V1_FEATURE, active ? activeFeature(slot, lamports) : removed);
}
