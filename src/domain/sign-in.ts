// Sign-In With Solana (github.com/phantom/sign-in-with-solana): the text that a wallet shows and signs, and the check of its signature.
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import bs58 from 'bs58';
import type { Role } from './tokens.ts';

const nonceLifetimeMs = 5 * 60_000;

export interface SignInRequest {
  wallet: string;
  role: Role;
  /** PUBLIC_URL: its host is the domain that wallets compare with the page's. */
  publicUrl: string;
  /** SOLANA_CLUSTER. */
  cluster: string;
  now: Date;
}

/** A nonce of 192 random bits, and the message that carries it for five minutes. */
export function signInMessage({ wallet, role, publicUrl, cluster, now }: SignInRequest): {
  nonce: string;
  message: string;
  expiresAt: Date;
} {
  const nonce = bs58.encode(randomBytes(24));
  const expiresAt = new Date(now.getTime() + nonceLifetimeMs);
  const message = [
    `${new URL(publicUrl).host} wants you to sign in with your Solana account:`,
    wallet,
    '',
    `Sign in as a ${role}. This costs nothing and moves no money.`,
    '',
    `URI: ${publicUrl}`,
    'Version: 1',
    `Chain ID: ${cluster === 'mainnet-beta' ? 'mainnet' : cluster}`,
    `Nonce: ${nonce}`,
    `Issued At: ${now.toISOString()}`,
    `Expiration Time: ${expiresAt.toISOString()}`,
  ].join('\n');
  return { nonce, message, expiresAt };
}

// RFC 8410: the DER that precedes a raw Ed25519 public key.
const spkiPrefix = Buffer.from('302a300506032b6570032100', 'hex');

// Keys of small order (libsodium, ge25519_has_small_order), without their sign bit: a signature by one of them says nothing, since anybody can
// make one that fits a message out of eight.
const smallOrder = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

function hasSmallOrder(publicKey: Uint8Array): boolean {
  const bytes = Buffer.from(publicKey);
  bytes.writeUInt8(bytes.readUInt8(31) & 0x7f, 31);
  return smallOrder.has(bytes.toString('hex'));
}

/** Whether `signature` (Base58 of 64 bytes) is the wallet's Ed25519 signature of the message's UTF-8 bytes. */
export function isSignedBy(wallet: string, message: string, signature: string): boolean {
  const publicKey = bs58.decodeUnsafe(wallet);
  const bytes = bs58.decodeUnsafe(signature);
  if (publicKey?.length !== 32 || bytes?.length !== 64 || hasSmallOrder(publicKey)) return false;
  const key = createPublicKey({ key: Buffer.concat([spkiPrefix, publicKey]), format: 'der', type: 'spki' });
  return verify(null, Buffer.from(message, 'utf8'), key, bytes);
}
