import { planAddress } from '../program/addresses.ts';
import type { PlanAccount } from '../program/layouts.ts';
import { createPlan, type PlanTerms, updatePlan } from '../program/plan-instructions.ts';
import { createTokenAccount } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/**
 * Builds the unsigned transaction (base64) with which a merchant's wallet creates a plan, and
 * derives the plan's address. If the wallet has no token account for the mint, the transaction also
 * creates the token account, and the merchant pays the account's rent.
 */
export function createPlanTransaction(
  programId: string,
  { merchant, terms, blockhash }: { merchant: string; terms: PlanTerms; blockhash: string },
): { transaction: string; plan: string } {
  const plan = planAddress(programId, merchant, terms.planId).address;
  return {
    transaction: walletTransaction(
      merchant,
      [
        createTokenAccount({ payer: merchant, owner: merchant, mint: terms.mint }),
        createPlan(programId, { merchant, plan, terms }),
      ],
      blockhash,
    ),
    plan,
  };
}

/** Builds the unsigned transaction (base64) that changes a plan's pullers and nothing else. */
export function pullersUpdateTransaction(
  programId: string,
  {
    plan,
    seen,
    pullers,
    blockhash,
  }: { plan: string; seen: PlanAccount; pullers: readonly string[]; blockhash: string },
): string {
  const { owner, status, endTs, metadataUri } = seen;
  const edit = { status, endTs, metadataUri, pullers };
  return walletTransaction(owner, [updatePlan(programId, { owner, plan, edit, seen })], blockhash);
}
