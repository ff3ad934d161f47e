// API keys. A key is an environment marker and 256 random bits in Base58. Only the key's SHA-256 is
// stored.
import { hash, randomBytes } from 'node:crypto';
import bs58 from 'bs58';

export type Environment = 'development' | 'production';

const markers = { development: 'sk_test_', production: 'sk_live_' } as const;
const SHOWN_AFTER_MARKER = 6;

export interface NewKey {
  /** The whole key. The key is shown only once. */
  key: string;
  /**
   * The environment marker and the next six characters. This prefix identifies a key without
   * exposing it.
   */
  prefix: string;
  hash: Buffer;
}

export function generateKey(environment: Environment): NewKey {
  const marker = markers[environment];
  const key = marker + bs58.encode(randomBytes(32));
  return { key, prefix: key.slice(0, marker.length + SHOWN_AFTER_MARKER), hash: hashKey(key) };
}

export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Whether a bearer token has the form of an API key of any environment. */
export function looksLikeKey(token: string): boolean {
  return token.startsWith('sk_');
}

/** Whether an API key begins with the marker of this environment. */
export function isKeyOf(environment: Environment, key: string): boolean {
  return key.startsWith(markers[environment]);
}
