// A wallet of the sandbox. Like a browser wallet, it signs the sign-in message and the transactions
// that the API builds.
import bs58 from 'bs58';
import nacl from 'tweetnacl';
import type { Keypair } from '../../chain/keypair.ts';
import { addSignature } from '../../chain/transactions/message.ts';

export interface Wallet {
  address: string;
  /** The secret key (64 bytes) in Base58. Browser wallets import this format. */
  secretKey: string;
  keypair: Keypair;
  /** Signs a text. Returns the signature in Base58. */
  sign(message: string): string;
}

/** Derives a wallet from a 32-byte seed. The wallet signs with tweetnacl, as browser wallets do. */
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

/** Adds this wallet's signature to a transaction in base64. Returns the signed transaction. */
export function signFor({ keypair }: Wallet, transaction: string): string {
  return addSignature(keypair, transaction);
}

/** Returns the 64 bytes of the wallet's secret key, the content of a keypair file. */
export function bytesOf({ secretKey }: Wallet): Uint8Array {
  return bs58.decode(secretKey);
}
