// The Subscriptions program's instructions for authorities, subscriptions and payments, as of
// program version 0.5.0 (docs/chain.md).
import { type AccountMeta, TransactionInstruction } from '@solana/web3.js';
import {
  addressBytes,
  authorityAddress,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  tokenAccountAddress,
  eventAuthorityAddress,
  publicKey,
} from './addresses.ts';
import { i64, u64, u8 } from './bytes.ts';

/**
 * Value of `initId` (i64::MIN) in a subscribe instruction whose transaction also opens the
 * SubscriptionAuthority. The real init id is not known when the transaction is built, because it is
 * the slot in which the authority is opened.
 */
export const UNKNOWN_INIT_ID = -(2n ** 63n);

/**
 * Opens the wallet's SubscriptionAuthority if the authority is closed. Approves the authority as
 * delegate of the wallet's associated token account for u64::MAX base units.
 */
export function initAuthority(
  programId: string,
  { user, mint, payer }: { user: string; mint: string; payer?: string | undefined },
): Instruction {
  return instruction(programId, 'initAuthority', [
    pay(user),
    write(authorityAddress(programId, user, mint).address),
    read(mint),
    write(tokenAccountAddress(user, mint).address),
    read(SYSTEM_PROGRAM),
    read(TOKEN_PROGRAM),
    ...optional(pay, payer),
  ]);
}

/**
 * Revokes the token approval and closes the SubscriptionAuthority. The authority's rent goes to
 * `receiver`, which must be given when a wallet other than `user` paid the rent.
 */
export function revokeAuthority(
  programId: string,
  { user, mint, receiver }: { user: string; mint: string; receiver?: string | undefined },
): Instruction {
  return instruction(programId, 'revokeAuthority', [
    pay(user),
    write(tokenAccountAddress(user, mint).address),
    read(mint),
    read(TOKEN_PROGRAM),
    write(authorityAddress(programId, user, mint).address),
    ...optional(write, receiver),
  ]);
}

/** Closes the SubscriptionAuthority but keeps the token approval. */
export function closeAuthority(
  programId: string,
  { user, mint, receiver }: { user: string; mint: string; receiver?: string | undefined },
): Instruction {
  return instruction(programId, 'closeAuthority', [
    pay(user),
    write(authorityAddress(programId, user, mint).address),
    ...optional(write, receiver),
  ]);
}

/**
 * The terms that a wallet agrees to when it subscribes. The program refuses the subscribe
 * instruction (error 519) when the plan has other terms.
 */
export interface SubscribeTerms {
  readonly planId: bigint;
  readonly planBump: number;
  readonly mint: string;
  readonly amount: bigint;
  readonly periodHours: bigint;
  readonly createdAt: bigint;
  /**
   * The init id of the SubscriptionAuthority. UNKNOWN_INIT_ID when the transaction of the subscribe
   * instruction also opens the authority.
   */
  readonly initId: bigint;
}

/** Builds the instruction that opens a subscription. */
export function subscribe(
  programId: string,
  {
    subscriber,
    merchant,
    plan,
    subscription,
    terms,
    payer,
  }: {
    subscriber: string;
    merchant: string;
    plan: string;
    subscription: string;
    terms: SubscribeTerms;
    payer?: string | undefined;
  },
): Instruction {
  return instruction(
    programId,
    'subscribe',
    [
      pay(subscriber),
      read(merchant),
      read(plan),
      write(subscription),
      read(authorityAddress(programId, subscriber, terms.mint).address),
      read(SYSTEM_PROGRAM),
      ...eventAccounts(programId),
      ...optional(pay, payer),
    ],
    u64(terms.planId),
    u8(terms.planBump),
    addressBytes(terms.mint),
    u64(terms.amount),
    u64(terms.periodHours),
    i64(terms.createdAt),
    i64(terms.initId),
  );
}

/** The three accounts that every instruction about an existing subscription names. */
export interface SubscriptionParties {
  readonly subscriber: string;
  readonly plan: string;
  readonly subscription: string;
}

/** Cancels a subscription at the end of its current period. */
export function cancelSubscription(
  programId: string,
  { subscriber, plan, subscription }: SubscriptionParties,
): Instruction {
  return instruction(programId, 'cancel', [
    sign(subscriber),
    read(plan),
    write(subscription),
    ...eventAccounts(programId),
  ]);
}

/**
 * Cancels a subscription at once. Both the subscriber and the plan's owner sign. The program
 * refuses (error 521) when `periodStart` is not the start of the current period.
 */
export function cancelSubscriptionNow(
  programId: string,
  {
    subscriber,
    merchant,
    plan,
    subscription,
    periodStart,
  }: SubscriptionParties & { merchant: string; periodStart: bigint },
): Instruction {
  const accounts = [
    sign(subscriber),
    sign(merchant),
    read(plan),
    write(subscription),
    ...eventAccounts(programId),
  ];
  return instruction(programId, 'cancelNow', accounts, i64(periodStart));
}

/**
 * Undoes a cancellation. The program refuses (error 521) when `expiresAt` differs from the value in
 * the subscription account.
 */
export function resumeSubscription(
  programId: string,
  {
    subscriber,
    plan,
    subscription,
    mint,
    expiresAt,
  }: SubscriptionParties & { mint: string; expiresAt: bigint },
): Instruction {
  const authority = read(authorityAddress(programId, subscriber, mint).address);
  const accounts = [
    sign(subscriber),
    read(plan),
    write(subscription),
    authority,
    ...eventAccounts(programId),
  ];
  return instruction(programId, 'resume', accounts, i64(expiresAt));
}

/**
 * Closes a subscription account. `authority` signs: the subscriber or the payer of the rent. Either
 * may close the account once the subscription has expired. The payer may also close it when the
 * plan has ended, was closed or was changed. The payer always gets the rent back, so if the
 * subscriber signs and is not the payer, `receiver` must be the payer.
 */
export function revokeDelegation(
  programId: string,
  {
    authority,
    plan,
    subscription,
    receiver,
  }: { authority: string; plan: string; subscription: string; receiver?: string | undefined },
): Instruction {
  return instruction(programId, 'revokeDelegation', [
    pay(authority),
    write(subscription),
    read(plan),
    ...optional(write, receiver),
  ]);
}

/**
 * Closes a subscription account whose authority was closed or replaced. The plan's account must be
 * open. The payer of the subscription's rent signs, and gets the rent back.
 */
export function revokeAbandoned(
  programId: string,
  {
    authority: payer,
    subscriber,
    plan,
    subscription,
    mint,
  }: SubscriptionParties & { authority: string; mint: string },
): Instruction {
  return instruction(programId, 'revokeAbandoned', [
    pay(payer),
    write(subscription),
    read(authorityAddress(programId, subscriber, mint).address),
    read(plan),
  ]);
}

/**
 * Moves `amount` base units from the subscriber's associated token account to the associated token
 * account of `receiver`. The plan must list the wallet `receiver` among its destinations.
 */
export function transferSubscription(
  programId: string,
  {
    caller,
    subscriber,
    plan,
    subscription,
    mint,
    receiver,
    amount,
  }: SubscriptionParties & { caller: string; mint: string; receiver: string; amount: bigint },
): Instruction {
  return instruction(
    programId,
    'transfer',
    [
      write(subscription),
      read(plan),
      read(authorityAddress(programId, subscriber, mint).address),
      write(tokenAccountAddress(subscriber, mint).address),
      write(tokenAccountAddress(receiver, mint).address),
      sign(caller),
      read(mint),
      read(TOKEN_PROGRAM),
      ...eventAccounts(programId),
    ],
    u64(amount),
    addressBytes(subscriber),
    addressBytes(mint),
  );
}

export type Instruction = TransactionInstruction;

const DISCRIMINATOR = {
  initAuthority: 0,
  revokeDelegation: 3,
  closeAuthority: 6,
  createPlan: 7,
  updatePlan: 8,
  deletePlan: 9,
  transfer: 10,
  subscribe: 11,
  cancel: 12,
  resume: 13,
  revokeAuthority: 14,
  revokeAbandoned: 16,
  cancelNow: 17,
} as const;

export type InstructionKind = keyof typeof DISCRIMINATOR;

const meta =
  (isSigner: boolean, isWritable: boolean) =>
  (address: string): AccountMeta => ({ pubkey: publicKey(address), isSigner, isWritable });

/**
 * Functions that return the account meta of an address: `read` for a read-only account, `write` for
 * a writable account, `sign` for a signer, `pay` for a writable signer.
 */
export const read = meta(false, false);
export const write = meta(false, true);
export const sign = meta(true, false);
export const pay = meta(true, true);

/**
 * Returns a list with the account meta of an instruction's optional last account. The list is empty
 * when `address` is undefined.
 */
export const optional = (account: (address: string) => AccountMeta, address: string | undefined) =>
  address === undefined ? [] : [account(address)];

/**
 * Returns the accounts that an instruction needs so that the program can emit an event by calling
 * itself.
 */
export const eventAccounts = (programId: string) => [
  read(eventAuthorityAddress(programId).address),
  read(programId),
];

/** Number of data bytes of each instruction, the discriminator included. */
const DATA_LENGTH: Readonly<Record<InstructionKind, number>> = {
  initAuthority: 1,
  revokeDelegation: 1,
  closeAuthority: 1,
  createPlan: 457,
  updatePlan: 538,
  deletePlan: 1,
  transfer: 73,
  subscribe: 74,
  cancel: 1,
  resume: 9,
  revokeAuthority: 1,
  revokeAbandoned: 1,
  cancelNow: 9,
};

/** Returns what an instruction with this data does. Undefined for other data. */
export function instructionKind(data: Uint8Array): InstructionKind | undefined {
  const kinds = Object.keys(DISCRIMINATOR) as InstructionKind[];
  return kinds.find((kind) => data[0] === DISCRIMINATOR[kind] && data.length === DATA_LENGTH[kind]);
}

/** Offset of the authority's init id in the data of a subscribe instruction. */
const SUBSCRIBE_INIT_ID = 66;

/** Returns the init id in the subscribe instruction of the account; undefined without one. */
export function openedAccount(
  instructions: readonly { programId: string; accounts: readonly string[]; data: Buffer }[],
  programId: string,
  subscription: string,
): { initId: bigint } | undefined {
  const opening = instructions.filter(
    ({ data, ...one }) => one.programId === programId && instructionKind(data) === 'subscribe',
  );
  const found = opening.find(({ accounts }) => accounts[3] === subscription);
  return found && { initId: found.data.readBigInt64LE(SUBSCRIBE_INIT_ID) };
}

/** Whether the instruction data begins with the discriminator of a transfer. */
export const isTransfer = (data: Uint8Array) => data[0] === DISCRIMINATOR.transfer;

/**
 * Builds an instruction of the program. The instruction data is the discriminator, followed by the
 * fields.
 */
export function instruction(
  programId: string,
  kind: InstructionKind,
  keys: AccountMeta[],
  ...fields: Uint8Array[]
): Instruction {
  return new TransactionInstruction({
    programId: publicKey(programId),
    keys,
    data: Buffer.concat([u8(DISCRIMINATOR[kind]), ...fields]),
  });
}
/**
 * Builds the instruction that closes a subscription account. The wallet `payer` paid the rent and
 * gets the rent back. `authority` signs, and must be the subscriber or `payer`.
 */
export function closeInstruction(
  programId: string,
  authority: string,
  { plan, subscription, payer }: { plan: string; subscription: string; payer: string },
): Instruction {
  const receiver = payer === authority ? undefined : payer;
  return revokeDelegation(programId, { authority, plan, subscription, receiver });
}
