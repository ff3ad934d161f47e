import { createHash } from 'node:crypto';
import nacl from 'tweetnacl';
import { keypairFromSecret } from '../../chain/keypair.ts';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../chain/program/addresses.ts';
import {
  activeFeature,
  FEATURE_LENGTH,
  RENT_EXEMPT_FOREVER,
  V1_FEATURE,
} from './cluster-settings.ts';
import { addressKey, bytesOf, type Key, keyOf } from './keys.ts';
import type { AccountState, Vm } from './vm.ts';

/**
 * The address of the USDC mint of every local chain. The address was chosen as readable text, so
 * nobody has its private key.
 */
export const LOCALNET_MINT = 'USDCLoca1net1111111111111111111111111111111';
/** Number of decimal places of USDC: one USDC has 10^6 base units. */
export const MINT_DECIMALS = 6;

const FAUCET_SEED = createHash('sha256').update('billing localnet faucet').digest();

/**
 * The keypair that funds wallets. The keypair is also the mint authority and freeze authority of
 * the local USDC. The seed is public and the same on every machine, because the keypair controls
 * nothing outside a local chain.
 */
export const faucet = keypairFromSecret(nacl.sign.keyPair.fromSeed(FAUCET_SEED).secretKey);

/**
 * The genesis hash of every local chain. Clients can tell a local chain from a public cluster by
 * this hash.
 */
export const GENESIS_HASH: Key = keyOf(
  createHash('sha256').update('billing localnet genesis').digest(),
);

const FAUCET_LAMPORTS = 500_000_000n * 1_000_000_000n;
const MINT_LENGTH = 82;

// Builds the data of a Mint account of SPL Token: mint authority (option u32, key), supply u64,
// decimals, initialized, freeze authority (option u32, key).
function mintData(): Buffer {
  const authority = bytesOf(addressKey(faucet.address));
  const data = Buffer.alloc(MINT_LENGTH);
  data.writeUInt32LE(1, 0);
  data.set(authority, 4);
  data.writeUInt8(MINT_DECIMALS, 44);
  data.writeUInt8(1, 45);
  data.writeUInt32LE(1, 46);
  data.set(authority, 50);
  return data;
}

/**
 * Writes the initial accounts of a new chain: the faucet, the mint, and the feature account of
 * version 1 transactions.
 */
export function writeGenesis(vm: Vm): void {
  const account = (owner: string, lamports: bigint, data: Buffer): AccountState => ({
    lamports,
    owner: addressKey(owner),
    data,
    executable: false,
    rentEpoch: RENT_EXEMPT_FOREVER,
  });
  vm.write(V1_FEATURE, activeFeature(0, vm.rentExempt(FEATURE_LENGTH)));
  vm.write(addressKey(faucet.address), account(SYSTEM_PROGRAM, FAUCET_LAMPORTS, Buffer.alloc(0)));
  vm.write(
    addressKey(LOCALNET_MINT),
    account(TOKEN_PROGRAM, vm.rentExempt(MINT_LENGTH), mintData()),
  );
}
