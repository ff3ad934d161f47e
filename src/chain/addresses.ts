import { decodeBase58, encodeBase58 } from './base58.ts';
import { findProgramAddress } from './curve.ts';

/** The Subscriptions program on mainnet-beta, devnet and the local chain (chain.md). */
export const SUBSCRIPTIONS_PROGRAM = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';
export const SYSTEM_PROGRAM = '11111111111111111111111111111111';
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
export const ASSOCIATED_TOKEN_PROGRAM = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL';
export const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
export const COMPUTE_BUDGET_PROGRAM = 'ComputeBudget111111111111111111111111111111';
export const CLOCK_SYSVAR = 'SysvarC1ock11111111111111111111111111111111';

/** Whether `text` is a public key: Base58 of exactly 32 bytes. */
export function isAddress(text: string): boolean {
  return text.length >= 32 && text.length <= 44 && decodeBase58(text)?.length === 32;
}

// A message of the keeper names the same dozen addresses each time.
const KEPT = 10_000;
const decoded = new Map<string, Uint8Array>();

/** The 32 bytes of a Base58 address, not to be written to. Throws a TypeError naming the text when it is not one. */
export function addressBytes(address: string): Uint8Array {
  const known = decoded.get(address);
  if (known !== undefined) return known;
  const bytes = address.length <= 44 ? decodeBase58(address) : undefined;
  if (bytes?.length !== 32) throw new TypeError(`not a Base58 address of 32 bytes: ${JSON.stringify(address.slice(0, 64))}`);
  if (decoded.size >= KEPT) decoded.clear();
  decoded.set(address, bytes);
  return bytes;
}

// An account is read some four times for each payment, and names its wallet, plan and mint each time.
const encoded = new Map<string, string>();

/** The address whose 32 bytes begin at `offset`. */
export function addressAt(bytes: Buffer, offset: number): string {
  const key = bytes.toString('latin1', offset, offset + 32);
  const known = encoded.get(key);
  if (known !== undefined) return known;
  const address = encodeBase58(bytes.subarray(offset, offset + 32));
  if (encoded.size >= KEPT) encoded.clear();
  encoded.set(key, address);
  return address;
}

/** An address with the bump seed that takes it off the curve. */
export interface Derived {
  readonly address: string;
  readonly bump: number;
}

// A derivation costs some 100 us (measured: sha256 and a curve check per bump), and the keeper asks for the same ones each period, several times for each
// payment. Maps of maps: a key that is put together for the question costs more than the answer.
const CACHE_SIZE = 100_000;
type Cache = Map<string, Cache | Derived>;
const cache: Cache = new Map();
let cached = 0;

function derive(programId: string, key: readonly string[], seeds: () => Uint8Array[]): Derived {
  let place = cache;
  for (const part of [programId, ...key.slice(0, -1)]) {
    let inner = place.get(part);
    if (!(inner instanceof Map)) place.set(part, (inner = new Map()));
    place = inner;
  }
  const last = key.at(-1) ?? '';
  const known = place.get(last);
  if (known !== undefined && !(known instanceof Map)) return known;
  const { bytes, bump } = findProgramAddress(seeds(), addressBytes(programId));
  const derived = Object.freeze({ address: encodeBase58(bytes), bump });
  if (cached >= CACHE_SIZE) {
    cache.clear();
    cached = 0;
    return derived;
  }
  cached += 1;
  place.set(last, derived);
  return derived;
}

/** The Plan account of `owner` with the number `planId` (0..2^64-1). */
export function planAddress(programId: string, owner: string, planId: bigint): Derived {
  return derive(programId, ['plan', owner, planId.toString()], () => {
    const number = Buffer.alloc(8);
    number.writeBigUInt64LE(planId);
    return [Buffer.from('plan'), addressBytes(owner), number];
  });
}

/** The SubscriptionDelegation account of a subscriber to a plan. */
export function subscriptionAddress(programId: string, plan: string, subscriber: string): Derived {
  return derive(programId, ['subscription', plan, subscriber], () => [
    Buffer.from('subscription'),
    addressBytes(plan),
    addressBytes(subscriber),
  ]);
}

/** The SubscriptionAuthority (SA) of a wallet for a mint: the delegate of its token account. */
export function authorityAddress(programId: string, user: string, mint: string): Derived {
  return derive(programId, ['authority', mint, user], () => [Buffer.from('SubscriptionAuthority'), addressBytes(user), addressBytes(mint)]);
}

/** The account that signs the program's events. */
export function eventAuthorityAddress(programId: string): Derived {
  return derive(programId, ['event_authority'], () => [Buffer.from('event_authority')]);
}

/** The associated SPL Token account (ATA) of `owner` for `mint`. */
export function tokenAccountAddress(owner: string, mint: string): Derived {
  return derive(ASSOCIATED_TOKEN_PROGRAM, [mint, owner], () => [addressBytes(owner), addressBytes(TOKEN_PROGRAM), addressBytes(mint)]);
}
