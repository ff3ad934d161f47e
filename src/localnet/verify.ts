import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { bytesOf, type Key } from './keys.ts';
import { signaturesOf, type WireTransaction } from './wire.ts';

// Ed25519 on Node's thread pool. LiteSVM can verify too, but on the one thread that everything else waits for: a fifth of a pull's time.

// RFC 8410: the DER that precedes a raw 32-byte Ed25519 public key.
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const KEYS_CACHED = 10_000;
const cache = new Map<Key, KeyObject>();

function keyObject(key: Key): KeyObject {
  const known = cache.get(key);
  if (known !== undefined) return known;
  const made = createPublicKey({ key: Buffer.concat([SPKI_PREFIX, bytesOf(key)]), format: 'der', type: 'spki' });
  if (cache.size >= KEYS_CACHED) cache.clear();
  cache.set(key, made);
  return made;
}

function verifyOne(message: Buffer, signer: Key, signature: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    verify(null, message, keyObject(signer), signature, (error, valid) => resolve(error === null && valid));
  });
}

/** Whether every signature of a transaction is its signer's. */
export async function isSigned(transaction: WireTransaction): Promise<boolean> {
  const { bytes, signaturesAt, message } = transaction;
  const signatures = signaturesOf(transaction);
  const signed = bytes.subarray(signaturesAt + message.requiredSignatures * 64);
  const verdicts = await Promise.all(signatures.map((signature, signer) => verifyOne(signed, message.keys[signer] ?? '', signature)));
  return verdicts.every(Boolean);
}
