// A wallet of the sandbox. It signs in to the API and signs the transactions that the API builds,
// as a browser wallet does.
import bs58 from 'bs58';
import nacl from 'tweetnacl';
import type { Keypair } from '../../chain/keypair.ts';
import { addSignature } from '../../chain/transactions/message.ts';

export interface Wallet {
  address: string;
  /** The secret key (64 bytes) in Base58, which wallets can import. */
  secretKey: string;
  keypair: Keypair;
  /** Returns the signature of a text in Base58. */
  sign(message: string): string;
}

/** Creates the wallet of a 32-byte seed. It signs with tweetnacl, as browser wallets do. */
export function walletFromSeed(seed: Buffer): Wallet {
  const { publicKey, secretKey } = nacl.sign.keyPair.fromSeed(seed);
  const keypair = {
    address: bs58.encode(publicKey),
    sign: (message: Uint8Array) => Buffer.from(nacl.sign.detached(message, secretKey)),
  };
  return {
    address: keypair.address,
    secretKey: bs58.encode(secretKey),
    keypair,
    sign: (message) => bs58.encode(keypair.sign(Buffer.from(message))),
  };
}

/** Signs an unsigned transaction in base64 as one of its signers. */
export function signFor({ keypair }: Wallet, transaction: string): string {
  return addSignature(keypair, transaction);
}

/** The 64 bytes of the wallet's secret key, as in a keypair file. */
export function bytesOf({ secretKey }: Wallet): Uint8Array {
  return bs58.decode(secretKey);
}
