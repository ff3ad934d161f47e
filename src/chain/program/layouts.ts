import { AccountLayout, AccountState } from '@solana/spl-token';
import bs58 from 'bs58';
import { addressAt, addressOf } from './addresses.ts';
import { i64 } from './bytes.ts';

/** Thrown when an account's data has an unexpected length, kind or version. */
export class ChainDataError extends Error {
  override name = 'ChainDataError';
}

/**
 * A merchant's plan. Times are Unix seconds. `amount` is base units per period. An `endTs` of 0
 * means that the plan has no end.
 */
export interface PlanAccount {
  readonly owner: string;
  readonly bump: number;
  readonly status: 'sunset' | 'active';
  readonly planId: bigint;
  readonly mint: string;
  readonly amount: bigint;
  readonly periodHours: bigint;
  readonly createdAt: bigint;
  readonly endTs: bigint;
  /** Wallets whose token accounts may receive payments; empty slots are left out. */
  readonly destinations: readonly string[];
  /** Wallets that may pull in addition to the owner; empty slots are left out. */
  readonly pullers: readonly string[];
  readonly metadataUri: string;
}

/**
 * A wallet's subscription to a plan, with the agreed terms. An `expiresAt` of 0 means that the
 * subscription is not cancelled.
 */
export interface SubscriptionAccount {
  readonly bump: number;
  readonly subscriber: string;
  readonly plan: string;
  /** The wallet that paid the rent and gets the rent back. */
  readonly payer: string;
  /** The `initId` of the wallet's SubscriptionAuthority at the time of subscribing. */
  readonly initId: bigint;
  readonly amount: bigint;
  readonly periodHours: bigint;
  /**
   * The plan's `createdAt` at the time of subscribing. A later plan at the same address has another
   * value.
   */
  readonly planCreatedAt: bigint;
  readonly amountPulled: bigint;
  readonly periodStart: bigint;
  readonly expiresAt: bigint;
}

/**
 * The fields of a subscription account that change with a payment, a cancellation or a new
 * subscription at the same address.
 */
export type SubscriptionTerms = Pick<
  SubscriptionAccount,
  'amount' | 'periodHours' | 'planCreatedAt' | 'amountPulled' | 'periodStart' | 'expiresAt'
>;

/** The fields that distinguish a subscription account from other accounts at the same address. */
export type AccountIdentity = Pick<SubscriptionAccount, 'initId' | 'periodStart'>;

/**
 * A wallet's SubscriptionAuthority for a mint. `initId` is the slot in which the authority was
 * created.
 */
export interface AuthorityAccount {
  readonly user: string;
  readonly mint: string;
  readonly payer: string;
  readonly bump: number;
  readonly initId: bigint;
}

/** An SPL Token account. Amounts are base units. */
export interface TokenAccount {
  readonly mint: string;
  readonly owner: string;
  readonly amount: bigint;
  readonly delegate: string | null;
  readonly delegatedAmount: bigint;
  readonly state: 'initialized' | 'frozen';
}

/** The cluster's clock. On-chain programs take `unixTimestamp` (seconds) as the current time. */
export interface ClockAccount {
  readonly slot: bigint;
  readonly unixTimestamp: bigint;
}

export const PLAN_LENGTH = 491;
export const SUBSCRIPTION_LENGTH = 155;
export const AUTHORITY_LENGTH = 106;
export const TOKEN_ACCOUNT_LENGTH = AccountLayout.span;

const KIND = { authority: 0, plan: 1, subscription: 4 } as const;
const SUBSCRIPTION_VERSION = 1;
const PLAN_MINT_OFFSET = 43;
const AUTHORITY_MINT_OFFSET = 33;

/**
 * Checks the length of account data, and the kind if `kind` is given. Returns the data as a Buffer.
 * Data with a kind belongs to the Subscriptions program and may be longer than `length`, because
 * later versions of the program append fields. Data without a kind must have exactly this length.
 */
function view(data: Uint8Array, name: string, length: number, kind?: number): Buffer {
  if (kind === undefined ? data.length !== length : data.length < length)
    throw new ChainDataError(`a ${name} account has ${length} bytes, this one has ${data.length}`);
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  if (kind !== undefined && bytes[0] !== kind) {
    throw new ChainDataError(
      `a ${name} account has the discriminator ${kind}, this one has ${bytes.readUInt8(0)}`,
    );
  }
  return bytes;
}

const LENGTH = {
  authority: AUTHORITY_LENGTH,
  plan: PLAN_LENGTH,
  subscription: SUBSCRIPTION_LENGTH,
};

/**
 * Reads the kind of a program account from the first byte of the account's data. Returns undefined
 * for an unknown kind or truncated data.
 */
export function kindOf(data: Uint8Array): keyof typeof KIND | undefined {
  const kinds = Object.keys(KIND) as (keyof typeof KIND)[];
  return kinds.find((kind) => data[0] === KIND[kind] && data.length >= LENGTH[kind]);
}

/**
 * Returns stream filters for (1) all subscriptions of the program, (2) the plans of `mint`, (3) the
 * authorities of `mint`. The filters do not test the length of an account, because accounts can
 * grow.
 */
export function accountFilters(mint: string): { offset: number; bytes: string }[][] {
  const kind = (value: number) => ({ offset: 0, bytes: bs58.encode(Uint8Array.of(value)) });
  return [
    [kind(KIND.subscription)],
    [kind(KIND.plan), { offset: PLAN_MINT_OFFSET, bytes: mint }],
    [kind(KIND.authority), { offset: AUTHORITY_MINT_OFFSET, bytes: mint }],
  ];
}

/**
 * Offsets of the fields `delegator` and `initId`. The offsets are the same in subscription accounts
 * and in the program's other delegation accounts.
 */
const DELEGATOR_OFFSET = 3;
const INIT_ID_OFFSET = 99;

/**
 * Returns the filters for all delegation accounts of a wallet that have the init id `initId`.
 * Subscription accounts are delegation accounts. Only these accounts can move tokens through the
 * authority with this init id.
 */
export function delegationFilter(wallet: string, initId: bigint) {
  return [
    { offset: DELEGATOR_OFFSET, bytes: wallet },
    { offset: INIT_ID_OFFSET, bytes: bs58.encode(i64(initId)) },
  ];
}

const PLAN_OFFSET = 35;
const EXPIRES_AT_OFFSET = 147;

/** The part of a subscription account's data that holds its `AccountIdentity`. */
export const IDENTITY = { offset: 99, length: 48 };

/** Filter for the live subscriptions to a plan: those whose `expiresAt` is 0. */
export function liveSubscriptionFilter(planPda: string) {
  return [
    { offset: 0, bytes: bs58.encode(Uint8Array.of(KIND.subscription)) },
    { offset: PLAN_OFFSET, bytes: planPda },
    { offset: EXPIRES_AT_OFFSET, bytes: bs58.encode(i64(0n)) },
  ];
}

const EMPTY = Buffer.alloc(32);

function addresses(bytes: Buffer, offset: number): string[] {
  return [0, 1, 2, 3]
    .map((slot) => offset + slot * 32)
    .filter((start) => !bytes.subarray(start, start + 32).equals(EMPTY))
    .map((start) => addressAt(bytes, start));
}

/** Decodes a Plan (docs/chain.md). Throws ChainDataError. */
export function decodePlan(data: Uint8Array): PlanAccount {
  const bytes = view(data, 'Plan', PLAN_LENGTH, KIND.plan);
  const status = bytes.readUInt8(34);
  if (status > 1)
    throw new ChainDataError(`a Plan's status is 0 (sunset) or 1 (active), this one has ${status}`);
  return {
    owner: addressAt(bytes, 1),
    bump: bytes.readUInt8(33),
    status: status === 1 ? 'active' : 'sunset',
    planId: bytes.readBigUInt64LE(35),
    mint: addressAt(bytes, PLAN_MINT_OFFSET),
    amount: bytes.readBigUInt64LE(75),
    periodHours: bytes.readBigUInt64LE(83),
    createdAt: bytes.readBigInt64LE(91),
    endTs: bytes.readBigInt64LE(99),
    destinations: addresses(bytes, 107),
    pullers: addresses(bytes, 235),
    metadataUri: bytes.toString('utf8', 363, PLAN_LENGTH).replace(/\0+$/, ''),
  };
}

/**
 * Decodes a SubscriptionDelegation account (docs/chain.md). Throws ChainDataError, also for an
 * unknown version of the layout.
 */
export function decodeSubscription(data: Uint8Array): SubscriptionAccount {
  const bytes = view(data, 'SubscriptionDelegation', SUBSCRIPTION_LENGTH, KIND.subscription);
  const version = bytes.readUInt8(1);
  if (version !== SUBSCRIPTION_VERSION) {
    throw new ChainDataError(
      `a SubscriptionDelegation of version ${SUBSCRIPTION_VERSION} is known, this one has ${version}`,
    );
  }
  return {
    bump: bytes.readUInt8(2),
    subscriber: addressAt(bytes, 3),
    plan: addressAt(bytes, PLAN_OFFSET),
    payer: addressAt(bytes, 67),
    initId: bytes.readBigInt64LE(IDENTITY.offset),
    amount: bytes.readBigUInt64LE(107),
    periodHours: bytes.readBigUInt64LE(115),
    planCreatedAt: bytes.readBigInt64LE(123),
    amountPulled: bytes.readBigUInt64LE(131),
    periodStart: bytes.readBigInt64LE(139),
    expiresAt: bytes.readBigInt64LE(EXPIRES_AT_OFFSET),
  };
}

/** Decodes the `IDENTITY` part of a subscription account. Throws ChainDataError. */
export function decodeIdentity(data: Uint8Array): AccountIdentity {
  const bytes = view(data, 'SubscriptionDelegation part', IDENTITY.length);
  return { initId: bytes.readBigInt64LE(0), periodStart: bytes.readBigInt64LE(40) };
}

/** Decodes a SubscriptionAuthority (docs/chain.md). Throws ChainDataError. */
export function decodeAuthority(data: Uint8Array): AuthorityAccount {
  const bytes = view(data, 'SubscriptionAuthority', AUTHORITY_LENGTH, KIND.authority);
  return {
    user: addressAt(bytes, 1),
    mint: addressAt(bytes, AUTHORITY_MINT_OFFSET),
    payer: addressAt(bytes, 65),
    bump: bytes.readUInt8(97),
    initId: bytes.readBigInt64LE(98),
  };
}

/**
 * Decodes an SPL Token account. Throws ChainDataError, also for an account that is not initialized.
 */
export function decodeTokenAccount(data: Uint8Array): TokenAccount {
  const decoded = AccountLayout.decode(view(data, 'token', TOKEN_ACCOUNT_LENGTH));
  const { state, delegateOption } = decoded;
  if (state !== AccountState.Initialized && state !== AccountState.Frozen)
    throw new ChainDataError(`a token account's state is 1 or 2, this one has ${state}`);
  const hasDelegate = delegateOption === 1;
  return {
    mint: addressOf(decoded.mint),
    owner: addressOf(decoded.owner),
    amount: decoded.amount,
    delegate: hasDelegate ? addressOf(decoded.delegate) : null,
    delegatedAmount: hasDelegate ? decoded.delegatedAmount : 0n,
    state: state === AccountState.Frozen ? 'frozen' : 'initialized',
  };
}

/**
 * Decodes the account of the Clock sysvar: slot (u64) at offset 0, unix_timestamp (i64) at offset
 * 32. Throws ChainDataError.
 */
export function decodeClock(data: Uint8Array): ClockAccount {
  const bytes = view(data, 'Clock', 40);
  return { slot: bytes.readBigUInt64LE(0), unixTimestamp: bytes.readBigInt64LE(32) };
}
