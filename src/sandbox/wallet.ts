// A played wallet: a key that signs in to the API and signs the transactions that the API hands out, as a browser wallet would.
import { createPrivateKey, createPublicKey } from 'node:crypto';
import bs58 from 'bs58';
import { keypairFromSecret, type Keypair } from '../chain/keypair.ts';

export interface Wallet {
  address: string;
  /** 64 bytes in Base58, as wallets import it. */
  secretKey: string;
  keypair: Keypair;
  /** The Base58 signature of a text. */
  sign(message: string): string;
}

// RFC 8410: the DER that precedes a raw Ed25519 seed in PKCS #8.
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The wallet of a 32-byte seed. */
export function walletFromSeed(seed: Buffer): Wallet {
  const privateKey = createPrivateKey({ key: Buffer.concat([pkcs8Prefix, seed]), format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
  const secret = Buffer.concat([seed, publicKey]);
  const keypair = keypairFromSecret(secret);
  return {
    address: keypair.address,
    secretKey: bs58.encode(secret),
    keypair,
    sign: (message) => bs58.encode(keypair.sign(Buffer.from(message))),
  };
}

/** Signs an unsigned transaction (base64: one place for a signature, then the message) as its fee payer; returns it as base64. */
export function signFor({ keypair }: Wallet, transaction: string): string {
  const bytes = Buffer.from(transaction, 'base64');
  const places = bytes.readUInt8(0);
  const message = bytes.subarray(1 + places * 64);
  keypair.sign(message).copy(bytes, 1);
  return bytes.toString('base64');
}

/** The 64 bytes of its key, as a keypair file holds them. */
export function bytesOf({ secretKey }: Wallet): Uint8Array {
  return bs58.decode(secretKey);
}
