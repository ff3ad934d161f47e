import { PublicKey } from '@solana/web3.js';
import bs58 from 'bs58';

export const SYSTEM_PROGRAM = '11111111111111111111111111111111';
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
export const ASSOCIATED_TOKEN_PROGRAM = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL';
export const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
export const COMPUTE_BUDGET_PROGRAM = 'ComputeBudget111111111111111111111111111111';
export const CLOCK_SYSVAR = 'SysvarC1ock11111111111111111111111111111111';

/**
 * Whether `text` is a public key: the Base58 form of exactly 32 bytes. The length of the text is
 * checked first, so that long text is never decoded.
 */
export function isAddress(text: string): boolean {
  return bytesOf(text) !== undefined;
}

/**
 * Returns whether a key can sign for the address. False for a program-derived address, such as the
 * vault of a multisig.
 */
export function isOnCurve(address: string): boolean {
  return PublicKey.isOnCurve(addressBytes(address));
}

function bytesOf(text: string): Uint8Array | undefined {
  if (text.length < 32 || text.length > 44) return undefined;
  const bytes = bs58.decodeUnsafe(text);
  return bytes?.length === 32 ? bytes : undefined;
}

/**
 * Returns the cached value for `key`. If the cache has none, creates the value with `make` and
 * caches it. A cache that has `maxEntries` entries is emptied before a value is added.
 */
function remembered<T>(known: Map<string, T>, maxEntries: number, key: string, make: () => T): T {
  const found = known.get(key);
  if (found !== undefined) return found;
  const value = make();
  if (known.size >= maxEntries) known.clear();
  known.set(key, value);
  return value;
}

/**
 * A public key that caches its Base58 text. web3.js compares keys by this text for each
 * instruction, and encoding the text each time took a third of a payment's CPU time.
 */
class AddressKey extends PublicKey {
  readonly #bytes: Uint8Array;
  readonly #address: string;

  constructor(bytes: Uint8Array, address: string) {
    super(bytes);
    this.#bytes = bytes;
    this.#address = address;
  }

  override toBytes(): Uint8Array {
    return this.#bytes;
  }

  override toBase58(): string {
    return this.#address;
  }
}

/** Maximum number of cached keys: enough for a few batches of payments. */
const MAX_KEYS = 20_000;
const keys = new Map<string, PublicKey>();

/**
 * Returns the public key of a Base58 address. Throws a TypeError that quotes the text when the text
 * is not an address.
 */
export function publicKey(address: string): PublicKey {
  return remembered(keys, MAX_KEYS, address, () => {
    const bytes = bytesOf(address);
    if (bytes !== undefined) return new AddressKey(bytes, address);
    throw new TypeError(
      `not a Base58 address of 32 bytes: ${JSON.stringify(address.slice(0, 64))}`,
    );
  });
}

/**
 * Returns the 32 bytes of a Base58 address. Throws a TypeError that quotes the text when the text
 * is not an address.
 */
export function addressBytes(address: string): Uint8Array {
  return publicKey(address).toBytes();
}

const texts = new Map<string, string>();

/**
 * Returns the Base58 address of the 32 bytes that begin at `offset`. The result is cached, because
 * Base58 encoding is slow and a keeper reads the same addresses many times.
 */
export function addressAt(bytes: Buffer, offset: number): string {
  const raw = bytes.toString('latin1', offset, offset + 32);
  return remembered(texts, MAX_KEYS, raw, () => bs58.encode(bytes.subarray(offset, offset + 32)));
}

/**
 * Returns the Base58 address of a public key. The result is cached, because `PublicKey.toBase58`
 * encodes the key on every call.
 */
export function addressOf(key: PublicKey): string {
  return addressAt(key.toBuffer(), 0);
}

/** A program-derived address, and the bump seed that moves it off the Ed25519 curve. */
export interface Derived {
  readonly address: string;
  readonly bump: number;
}

// Derived addresses are cached. findProgramAddressSync takes 200 us (a SHA-256 and a curve check
// per bump seed), and the keeper needs the addresses of a subscription each time it reads the
// chain, decides about a payment or signs a payment.
const MAX_DERIVED = 100_000;
const cache = new Map<string, Derived>();

/**
 * Derives a program address from the seed `name` and the seeds in `parts`. A string in `parts` is a
 * Base58 address and becomes a seed of 32 bytes. A bigint becomes a seed of eight bytes.
 */
function derive(programId: string, name: string, ...parts: readonly (string | bigint)[]): Derived {
  const key = `${programId} ${name} ${parts.join(' ')}`;
  return remembered(cache, MAX_DERIVED, key, () => {
    const seeds = [...(name === '' ? [] : [Buffer.from(name)]), ...parts.map(seedOf)];
    const [found, bump] = PublicKey.findProgramAddressSync(seeds, publicKey(programId));
    return Object.freeze({ address: found.toBase58(), bump });
  });
}

function seedOf(part: string | bigint): Uint8Array {
  if (typeof part === 'string') return addressBytes(part);
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(part);
  return number;
}

/** Derives the address of the Plan account of `owner` with the number `planId` (0..2^64-1). */
export function planAddress(programId: string, owner: string, planId: bigint): Derived {
  return derive(programId, 'plan', owner, planId);
}

/** Derives the address of the SubscriptionDelegation account of a subscriber to a plan. */
export function subscriptionAddress(programId: string, plan: string, subscriber: string): Derived {
  return derive(programId, 'subscription', plan, subscriber);
}

/**
 * Derives the address of a wallet's SubscriptionAuthority for a mint. The authority is the delegate
 * of the wallet's token account.
 */
export function authorityAddress(programId: string, user: string, mint: string): Derived {
  return derive(programId, 'SubscriptionAuthority', user, mint);
}

/** Derives the address of the account with which the program signs its events. */
export function eventAuthorityAddress(programId: string): Derived {
  return derive(programId, 'event_authority');
}

/**
 * Derives the address of the associated SPL Token account (ATA) of `owner` for `mint`. spl-token's
 * own function does not return the bump.
 */
export function tokenAccountAddress(owner: string, mint: string): Derived {
  return derive(ASSOCIATED_TOKEN_PROGRAM, '', owner, TOKEN_PROGRAM, mint);
}
