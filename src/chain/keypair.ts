import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { open, writeFile } from 'node:fs/promises';
import bs58 from 'bs58';

/**
 * A signing key. Only the closure of `sign` holds the private half, so a printed or logged Keypair
 * shows only the address.
 */
export interface Keypair {
  readonly address: string;
  /** Returns the Ed25519 signature (64 bytes) of `message`. */
  sign(message: Uint8Array): Buffer;
}

// DER prefix of a raw 32-byte Ed25519 private key in PKCS #8 (RFC 8410).
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** DER prefix of a raw 32-byte Ed25519 public key in SPKI (RFC 8410). */
export const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
/** Length of an Ed25519 signature in bytes. */
export const SIGNATURE_LENGTH = 64;

const rawPublic = (key: KeyObject) =>
  createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);

function keypair(key: KeyObject): Keypair {
  const address = bs58.encode(rawPublic(key));
  return Object.freeze({ address, sign: (message: Uint8Array) => sign(null, message, key) });
}

/**
 * Creates a keypair from the 64 bytes that the Solana CLI stores: the private half, then the public
 * half. Throws an Error for other bytes. The error's message does not contain the secret bytes.
 */
export function keypairFromSecret(secret: Uint8Array): Keypair {
  if (secret.length !== 64)
    throw new Error(`a keypair has 64 bytes, this one has ${secret.length}`);
  const key = createPrivateKey({
    key: Buffer.concat([PKCS8_PREFIX, secret.subarray(0, 32)]),
    format: 'der',
    type: 'pkcs8',
  });
  if (!rawPublic(key).equals(secret.subarray(32)))
    throw new Error('the public half of the keypair does not belong to its private half');
  return keypair(key);
}

/**
 * Whether `signature` is the Ed25519 signature of `message` by the key `publicKey` (32 bytes). Uses
 * Node's crypto, because the library tweetnacl takes 10 ms per signature.
 */
export function isSigned(
  publicKey: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  const key = createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, publicKey]),
    format: 'der',
    type: 'spki',
  });
  return verify(null, message, key, signature);
}

export function generateKeypair(): Keypair {
  return keypair(generateKeyPairSync('ed25519').privateKey);
}

/**
 * Creates a random keypair and stores it in a new file in the format of the Solana CLI. Only the
 * file's owner can read the file. Throws an Error with the path if the file exists or cannot be
 * written.
 */
export async function createKeypairFile(path: string): Promise<Keypair> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32);
  const secret = [...seed, ...rawPublic(privateKey)];
  try {
    await writeFile(path, `${JSON.stringify(secret)}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST';
    throw new Error(
      exists
        ? `the file ${path} exists, and its key may have money: choose another name`
        : `the keypair file ${path} cannot be written: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
  return keypair(privateKey);
}

/**
 * Reads a keypair file of the Solana CLI: a JSON array of 64 bytes. Throws an Error with the path
 * if the file cannot be read, is not a keypair, or gives rights to users other than the owner. One
 * exception: the group may read a file that root owns, unless this process runs as root.
 */
export async function readKeypair(path: string): Promise<Keypair> {
  const file = await open(path, 'r').catch((error: unknown) => {
    throw new Error(
      `the keypair file ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  });
  try {
    const { mode, uid } = await file.stat();
    // systemd and Kubernetes provide credentials as files that root owns. An ACL or the file's
    // group lets the service read such a file. In both cases the file mode has the group's read
    // bit.
    const others = uid === 0 && process.geteuid?.() !== 0 ? 0o037 : 0o077;
    // Windows has no file mode bits, and Node reports every mode bit as set on Windows.
    if (process.platform !== 'win32' && (mode & others) !== 0) {
      throw new Error(
        `the keypair file ${path} is open to others (mode ${(mode & 0o777).toString(8)}): run chmod 600 ${path}`,
      );
    }
    return keypairFromSecret(parseSecret(await file.readFile('utf8')));
  } catch (error) {
    if (error instanceof Error && !error.message.includes(path)) {
      throw new Error(
        `the keypair file ${path} is not a Solana CLI keypair (a JSON array of 64 bytes): ${error.message}`,
      );
    }
    throw error;
  } finally {
    await file.close();
  }
}

function parseSecret(text: string): Uint8Array {
  if (text.startsWith('\uFEFF'))
    throw new Error('it begins with a byte order mark: save it as UTF-8 without one');
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // The error message of JSON.parse would quote the secret.
    throw new Error('it is not JSON');
  }
  const isByte = (value: unknown) =>
    typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 255;
  if (!Array.isArray(parsed) || !parsed.every(isByte))
    throw new Error('it is not an array of bytes');
  return Uint8Array.from(parsed as number[]);
}

const VERSION_1 = 0x81;

/**
 * Returns a transaction's id: its first signature in Base58. A version 1 transaction has its
 * signatures at the end, every other version at the start.
 */
export function signatureOf(transaction: Uint8Array): string {
  const [first = 0, signers = 0] = transaction;
  const start = first === VERSION_1 ? transaction.length - signers * SIGNATURE_LENGTH : 1;
  return bs58.encode(transaction.subarray(start, start + SIGNATURE_LENGTH));
}
