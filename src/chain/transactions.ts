import { planAddress, subscriptionAddress } from './addresses.ts';
import { computeUnitLimit, computeUnitPrice, createTokenAccount, memo } from './companions.ts';
import type { Instruction } from './instruction.ts';
import {
  cancelSubscription,
  cancelSubscriptionNow,
  createPlan,
  initAuthority,
  type PlanTerms,
  resumeSubscription,
  revokeAuthority,
  revokeDelegation,
  subscribe,
  type SubscriptionParties,
  transferSubscription,
  UNKNOWN_INIT_ID,
  updatePlan,
} from './instructions.ts';
import type { Keypair } from './keypair.ts';
import type { AuthorityAccount, PlanAccount, SubscriptionAccount } from './layouts.ts';
import { compileMessage, serializeTransaction, signatureOf, unsignedTransaction } from './message.ts';
import type { PullLayout } from './errors.ts';

/** What one collection moves and names. Amounts are base units; a zero one sends no transfer. */
export interface Collection extends SubscriptionParties {
  readonly programId: string;
  readonly mint: string;
  readonly keeper: string;
  /** The wallets that receive: destinations of the plan. */
  readonly merchant: string;
  readonly treasury: string;
  readonly net: bigint;
  readonly fee: bigint;
  /** Tells this attempt's transaction from every other one: two equal ones with one blockhash would have one signature. */
  readonly reference: string;
  readonly computeUnits: number;
  readonly microLamportsPerUnit: bigint;
  /** Receivers without a token account: theirs is created at the keeper's expense. */
  readonly createAccountsFor: readonly string[];
}

/** The instructions of a collection, net and fee in one transaction, and where in it the transfers are. Throws a RangeError when both are 0. */
export function collectionInstructions(collection: Collection): { instructions: Instruction[]; layout: PullLayout } {
  const { programId, mint, keeper, merchant, treasury, subscriber, plan, subscription, net, fee, reference, createAccountsFor } =
    collection;
  if (net <= 0n && fee <= 0n) throw new RangeError('a collection moves at least one base unit');
  const before = [
    computeUnitLimit(collection.computeUnits),
    computeUnitPrice(collection.microLamportsPerUnit),
    ...createAccountsFor.map((owner) => createTokenAccount({ payer: keeper, owner, mint })),
  ];
  const pulls = [
    { receiver: merchant, amount: net },
    { receiver: treasury, amount: fee },
  ]
    .filter(({ amount }) => amount !== 0n)
    .map(({ receiver, amount }) =>
      transferSubscription(programId, { caller: keeper, receiver, amount, subscriber, plan, subscription, mint }),
    );
  return {
    instructions: [...before, ...pulls, memo(reference)],
    layout: {
      creations: createAccountsFor.map((_, place) => 2 + place),
      pulls: pulls.map((_, place) => before.length + place),
    },
  };
}

/** A transaction ready to send, and the signature that it will have on chain. */
export interface SignedTransaction {
  readonly signature: string;
  readonly bytes: Buffer;
}

/** Signs for the one signer and fee payer. Throws as `compileMessage` does. */
export function signTransaction(keypair: Keypair, instructions: readonly Instruction[], blockhash: string): SignedTransaction {
  const message = compileMessage(keypair.address, instructions, blockhash);
  if (message.readUInt8(0) !== 1) throw new RangeError('signTransaction signs for one signer');
  const bytes = serializeTransaction(message, [keypair.sign(message)]);
  return { signature: signatureOf(bytes), bytes };
}

/** The unsigned create-plan transaction (base64) for the merchant's wallet, and the address the plan will have. */
export function createPlanTransaction(
  programId: string,
  { merchant, terms, blockhash }: { merchant: string; terms: PlanTerms; blockhash: string },
): { transaction: string; plan: string } {
  const plan = planAddress(programId, merchant, terms.planId).address;
  return { transaction: unsignedTransaction(merchant, [createPlan(programId, { merchant, plan, terms })], blockhash), plan };
}

/** The unsigned transaction (base64) that sunsets a plan; the program wants a finite `endTs` for it (514). */
export function sunsetPlanTransaction(
  programId: string,
  { plan, seen, endTs, blockhash }: { plan: string; seen: PlanAccount; endTs: bigint; blockhash: string },
): string {
  const edit = { status: 'sunset', endTs, pullers: seen.pullers, metadataUri: seen.metadataUri } as const;
  return unsignedTransaction(seen.owner, [updatePlan(programId, { owner: seen.owner, plan, edit, seen })], blockhash);
}

/** What is on chain for a wallet that is about to subscribe. */
export interface SubscribeState {
  /** The plan as it is on chain: the wallet agrees to exactly these terms. */
  readonly plan: PlanAccount;
  /** The wallet's SubscriptionAuthority, null when it has none. */
  readonly authority: AuthorityAccount | null;
  /** Whether the wallet has a token account for the mint. */
  readonly hasTokenAccount: boolean;
  /** Whether the authority is the token account's delegate. */
  readonly approved: boolean;
  /** An expired subscription account of the same wallet and plan that is still open; it is closed first. */
  readonly previous: SubscriptionAccount | null;
}

/**
 * The unsigned transaction (base64) that opens a subscription, and its address. Whatever is missing before it goes into the same transaction:
 * the token account, the authority (then subscribe takes UNKNOWN_INIT_ID), the approval, the closing of an expired subscription.
 */
export function subscribeTransaction(
  programId: string,
  { subscriber, state, blockhash }: { subscriber: string; state: SubscribeState; blockhash: string },
): { transaction: string; subscription: string } {
  const { owner: merchant, planId, mint, amount, periodHours, createdAt } = state.plan;
  const plan = planAddress(programId, merchant, planId);
  const subscription = subscriptionAddress(programId, plan.address, subscriber).address;
  const terms = {
    planId,
    planBump: plan.bump,
    mint,
    amount,
    periodHours,
    createdAt,
    initId: state.authority?.initId ?? UNKNOWN_INIT_ID,
  };
  const instructions = [
    ...(state.hasTokenAccount ? [] : [createTokenAccount({ payer: subscriber, owner: subscriber, mint })]),
    ...(state.authority !== null && state.approved ? [] : [initAuthority(programId, { user: subscriber, mint })]),
    ...(state.previous === null
      ? []
      : [closeInstruction(programId, subscriber, { plan: plan.address, subscription, payer: state.previous.payer })]),
    subscribe(programId, { subscriber, merchant, plan: plan.address, subscription, terms }),
  ];
  return { transaction: unsignedTransaction(subscriber, instructions, blockhash), subscription };
}

/** The unsigned transaction (base64) by which a wallet approves its authority again (and opens it when it is closed). */
export function approveTransaction(
  programId: string,
  { user, mint, blockhash }: { user: string; mint: string; blockhash: string },
): string {
  return unsignedTransaction(user, [initAuthority(programId, { user, mint })], blockhash);
}

/** The unsigned transaction (base64) by which a wallet takes its approval back for every plan of this mint. */
export function revokeTransaction(
  programId: string,
  { authority, blockhash }: { authority: Pick<AuthorityAccount, 'user' | 'mint' | 'payer'>; blockhash: string },
): string {
  const { user, mint, payer } = authority;
  const receiver = payer === user ? undefined : payer;
  return unsignedTransaction(user, [revokeAuthority(programId, { user, mint, receiver })], blockhash);
}

/** The unsigned transaction (base64) that cancels at the end of the period. */
export function cancelTransaction(programId: string, parties: SubscriptionParties, blockhash: string): string {
  return unsignedTransaction(parties.subscriber, [cancelSubscription(programId, parties)], blockhash);
}

/** The unsigned transaction (base64) that cancels at once: the subscriber and the plan's owner both sign, the subscriber pays. */
export function cancelNowTransaction(
  programId: string,
  parties: SubscriptionParties & { merchant: string; periodStart: bigint },
  blockhash: string,
): string {
  return unsignedTransaction(parties.subscriber, [cancelSubscriptionNow(programId, parties)], blockhash);
}

/** The unsigned transaction (base64) that takes a cancellation back. */
export function resumeTransaction(
  programId: string,
  parties: SubscriptionParties & { mint: string; expiresAt: bigint },
  blockhash: string,
): string {
  return unsignedTransaction(parties.subscriber, [resumeSubscription(programId, parties)], blockhash);
}

/** The unsigned transaction (base64) by which the subscriber closes an expired subscription account; the rent goes to `payer`. */
export function closeTransaction(programId: string, parties: SubscriptionParties & { payer: string }, blockhash: string): string {
  return unsignedTransaction(parties.subscriber, [closeInstruction(programId, parties.subscriber, parties)], blockhash);
}

/** The instruction by which `authority` (the subscriber, or the payer) closes a subscription account; the rent goes to its recorded payer. */
export function closeInstruction(
  programId: string,
  authority: string,
  { plan, subscription, payer }: { plan: string; subscription: string; payer: string },
): Instruction {
  const receiver = payer === authority ? undefined : payer;
  return revokeDelegation(programId, { authority, plan, subscription, receiver });
}
