// The Subscriptions program's instructions for plans, as of program version 0.5.0 (docs/chain.md).
import { addressBytes, SYSTEM_PROGRAM, TOKEN_PROGRAM } from './addresses.ts';
import { addressSlots, fixedText, i64, u64, u8 } from './bytes.ts';
import {
  eventAccounts,
  type Instruction,
  instruction,
  optional,
  pay,
  read,
  sign,
  write,
} from './instructions.ts';

/**
 * The published terms of a plan. `amount` is base units per period. `endTs` is Unix seconds; 0
 * means no end. A plan has up to four destinations and four pullers.
 */
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

/** Publishes a plan. The program takes created_at from the chain's clock. */
export function createPlan(
  programId: string,
  {
    merchant,
    plan,
    terms,
    payer,
  }: { merchant: string; plan: string; terms: PlanTerms; payer?: string | undefined },
): Instruction {
  return instruction(
    programId,
    'createPlan',
    [
      pay(merchant),
      write(plan),
      read(terms.mint),
      read(SYSTEM_PROGRAM),
      read(TOKEN_PROGRAM),
      ...optional(pay, payer),
    ],
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

/** The fields of a plan that its owner can change. */
export interface PlanEdit {
  readonly status: 'sunset' | 'active';
  readonly endTs: bigint;
  readonly pullers: readonly string[];
  readonly metadataUri: string;
}

/**
 * The plan's fields that its owner saw when signing an update. Since version 0.5.0 the program
 * refuses the update (error 522) when the plan on chain differs from these fields.
 */
export interface PlanSeen extends Omit<PlanEdit, 'status'> {
  readonly createdAt: bigint;
}

/**
 * Changes a plan. The instruction data has 537 bytes since program version 0.5.0 (#222 in the
 * program's changelog).
 */
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
export function deletePlan(
  programId: string,
  { owner, plan }: { owner: string; plan: string },
): Instruction {
  return instruction(programId, 'deletePlan', [pay(owner), write(plan)]);
}
