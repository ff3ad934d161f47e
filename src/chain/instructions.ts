// Every instruction of the Subscriptions program that the service builds or tests, in its 0.5.0 form (chain.md).
import { addressBytes, authorityAddress, SYSTEM_PROGRAM, TOKEN_PROGRAM, tokenAccountAddress } from './addresses.ts';
import { addressSlots, fixedText, i64, u64, u8 } from './bytes.ts';
import { eventAccounts, type Instruction, instruction, optional, pay, read, sign, write } from './instruction.ts';

/** `initId` for a subscribe in the very transaction (slot) that opens the SubscriptionAuthority: i64::MIN. */
export const UNKNOWN_INIT_ID = -(2n ** 63n);

/** Opens the wallet's SubscriptionAuthority and approves it on the wallet's ATA for u64::MAX; when it is open, approves again. */
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

/** Takes the approval away and closes the authority; the rent goes to `receiver`, which must be named when the payer was not the user. */
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

/** Closes the authority and leaves the token approval. */
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

/** What a merchant publishes. `amount` base units per period, `endTs` Unix seconds (0 = none), up to four destinations and pullers. */
export interface PlanTerms {
  readonly planId: bigint;
  readonly mint: string;
  readonly amount: bigint;
  readonly periodHours: bigint;
  readonly endTs: bigint;
  readonly destinations: readonly string[];
  readonly pullers: readonly string[];
  readonly metadataUri: string;
}

/** Publishes a plan; the program overwrites created_at with its clock. */
export function createPlan(
  programId: string,
  { merchant, plan, terms, payer }: { merchant: string; plan: string; terms: PlanTerms; payer?: string | undefined },
): Instruction {
  return instruction(
    programId,
    'createPlan',
    [pay(merchant), write(plan), read(terms.mint), read(SYSTEM_PROGRAM), read(TOKEN_PROGRAM), ...optional(pay, payer)],
    u64(terms.planId),
    addressBytes(terms.mint),
    u64(terms.amount),
    u64(terms.periodHours),
    i64(0n),
    i64(terms.endTs),
    addressSlots(terms.destinations, 'destinations'),
    addressSlots(terms.pullers, 'pullers'),
    fixedText(terms.metadataUri, 128, 'metadataUri'),
  );
}

/** The part of a plan that its owner can change. */
export interface PlanEdit {
  readonly status: 'sunset' | 'active';
  readonly endTs: bigint;
  readonly pullers: readonly string[];
  readonly metadataUri: string;
}

/** What the owner saw when it signed an update: since 0.5.0 the program refuses the update (522) when the plan differs. */
export interface PlanSeen extends Omit<PlanEdit, 'status'> {
  readonly createdAt: bigint;
}

/** Changes a plan (0.5.0: 537 bytes of data, the program's changelog #222). */
export function updatePlan(
  programId: string,
  { owner, plan, edit, seen }: { owner: string; plan: string; edit: PlanEdit; seen: PlanSeen },
): Instruction {
  return instruction(
    programId,
    'updatePlan',
    [sign(owner), write(plan), ...eventAccounts(programId)],
    u8(edit.status === 'active' ? 1 : 0),
    i64(edit.endTs),
    addressSlots(edit.pullers, 'pullers'),
    fixedText(edit.metadataUri, 128, 'metadataUri'),
    i64(seen.createdAt),
    i64(seen.endTs),
    addressSlots(seen.pullers, 'pullers'),
    fixedText(seen.metadataUri, 128, 'metadataUri'),
  );
}

/** Closes a plan whose end has passed. */
export function deletePlan(programId: string, { owner, plan }: { owner: string; plan: string }): Instruction {
  return instruction(programId, 'deletePlan', [pay(owner), write(plan)]);
}

/** What a wallet agrees to when it subscribes: the program refuses (519) when the plan differs. */
export interface SubscribeTerms {
  readonly planId: bigint;
  readonly planBump: number;
  readonly mint: string;
  readonly amount: bigint;
  readonly periodHours: bigint;
  readonly createdAt: bigint;
  /** The authority's init id, or UNKNOWN_INIT_ID when the same transaction opens it. */
  readonly initId: bigint;
}

/** Opens a subscription. */
export function subscribe(
  programId: string,
  {
    subscriber,
    merchant,
    plan,
    subscription,
    terms,
    payer,
  }: { subscriber: string; merchant: string; plan: string; subscription: string; terms: SubscribeTerms; payer?: string | undefined },
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

/** The three accounts of a subscription that its life-cycle instructions name. */
export interface SubscriptionParties {
  readonly subscriber: string;
  readonly plan: string;
  readonly subscription: string;
}

/** Cancels at the end of the current period. */
export function cancelSubscription(programId: string, { subscriber, plan, subscription }: SubscriptionParties): Instruction {
  return instruction(programId, 'cancel', [sign(subscriber), read(plan), write(subscription), ...eventAccounts(programId)]);
}

/** Cancels at once; the plan's owner signs too. `periodStart` as seen by the signers, or the program refuses (521). */
export function cancelSubscriptionNow(
  programId: string,
  { subscriber, merchant, plan, subscription, periodStart }: SubscriptionParties & { merchant: string; periodStart: bigint },
): Instruction {
  const accounts = [sign(subscriber), sign(merchant), read(plan), write(subscription), ...eventAccounts(programId)];
  return instruction(programId, 'cancelNow', accounts, i64(periodStart));
}

/** Takes a cancellation back. `expiresAt` as seen by the signer, or the program refuses (508). */
export function resumeSubscription(
  programId: string,
  { subscriber, plan, subscription, mint, expiresAt }: SubscriptionParties & { mint: string; expiresAt: bigint },
): Instruction {
  const authority = read(authorityAddress(programId, subscriber, mint).address);
  const accounts = [sign(subscriber), read(plan), write(subscription), authority, ...eventAccounts(programId)];
  return instruction(programId, 'resume', accounts, i64(expiresAt));
}

/**
 * Closes a subscription account: by the subscriber once it expired, by its payer also when the plan ended, closed or changed.
 * The rent goes to the recorded payer, who must be named as `receiver` when it is not `authority`.
 */
export function revokeDelegation(
  programId: string,
  { authority, plan, subscription, receiver }: { authority: string; plan: string; subscription: string; receiver?: string | undefined },
): Instruction {
  return instruction(programId, 'revokeDelegation', [pay(authority), write(subscription), read(plan), ...optional(write, receiver)]);
}

/** Moves `amount` base units from the subscriber's ATA to the ATA of `receiver` (a wallet among the plan's destinations). */
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
