// Encrypts webhook secrets, and stored API responses that contain a secret. Uses AES-256-GCM with
// ENCRYPTION_KEY. The tag also authenticates the row's id, so a ciphertext that was copied to
// another row does not decrypt. Layout: version (1 byte), key fingerprint (4), nonce (12),
// ciphertext, tag (16).
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

export interface SecretBox {
  /** Encrypts a secret under the newest key, for the row with the id `owner`. */
  seal(secret: string, owner: string): Buffer;
  /**
   * Decrypts a secret. Throws an Error (without secrets in its message) when no key matches or the
   * bytes were altered.
   */
  open(sealed: Uint8Array, owner: string): string;
  /** Whether the newest key encrypted these bytes. */
  isCurrent(sealed: Uint8Array): boolean;
}

const VERSION = 1;
const HEADER = 1 + 4;
const NONCE_LENGTH = 12;
const TAG_LENGTH = 16;

/** Returns each key's fingerprint, by which an encrypted secret identifies its key. */
export function fingerprintsOf(keys: readonly string[]): Buffer[] {
  return keys.map((key) => Buffer.from(hkdfSync('sha256', key, '', 'billing key fingerprint', 4)));
}

/**
 * `keys` are the keys of ENCRYPTION_KEY. The first key encrypts; all keys decrypt. HKDF-SHA256
 * derives 256 bits from each key.
 */
export function secretBox(keys: readonly string[]): SecretBox {
  const derived = keys.map((key) => ({
    key: Buffer.from(hkdfSync('sha256', key, '', 'billing webhook secret', 32)),
    fingerprint: fingerprintsOf([key])[0] ?? Buffer.alloc(0),
  }));
  const [newest] = derived;
  if (newest === undefined) throw new Error('no encryption key');
  return {
    seal(secret, owner) {
      const nonce = randomBytes(NONCE_LENGTH);
      const cipher = createCipheriv('aes-256-gcm', newest.key, nonce).setAAD(Buffer.from(owner));
      const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return Buffer.concat([
        Buffer.of(VERSION),
        newest.fingerprint,
        nonce,
        sealed,
        cipher.getAuthTag(),
      ]);
    },
    isCurrent: (sealed) =>
      sealed[0] === VERSION && newest.fingerprint.equals(sealed.subarray(1, HEADER)),
    open(sealed, owner) {
      const bytes = Buffer.from(sealed);
      const fingerprint = bytes.subarray(1, HEADER);
      const fitting = derived.find((each) => each.fingerprint.equals(fingerprint));
      if (bytes[0] !== VERSION || fitting === undefined)
        throw new Error('it was encrypted with a key that ENCRYPTION_KEY does not list');
      const decipher = createDecipheriv(
        'aes-256-gcm',
        fitting.key,
        bytes.subarray(HEADER, HEADER + NONCE_LENGTH),
      )
        .setAAD(Buffer.from(owner))
        .setAuthTag(bytes.subarray(-TAG_LENGTH));
      return Buffer.concat([
        decipher.update(bytes.subarray(HEADER + NONCE_LENGTH, -TAG_LENGTH)),
        decipher.final(),
      ]).toString('utf8');
    },
  };
}
