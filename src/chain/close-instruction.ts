import type { Instruction } from './instruction.ts';
import { revokeDelegation } from './instructions.ts';

/** Closes a subscription account; `authority` is the subscriber or the payer. The rent goes to the recorded payer. */
export function closeInstruction(
  programId: string,
  authority: string,
  { plan, subscription, payer }: { plan: string; subscription: string; payer: string },
): Instruction {
  const receiver = payer === authority ? undefined : payer;
  return revokeDelegation(programId, { authority, plan, subscription, receiver });
}
