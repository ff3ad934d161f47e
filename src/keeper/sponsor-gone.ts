// A sponsored sign-up that landed, and whose account was closed before a keeper settled it. The
// transaction shows the payment and the account that it opened.
import { UNKNOWN_INIT_ID, openedAccount } from '../chain/program/instructions.ts';
import { ChainDataError } from '../chain/program/layouts.ts';
import { readListed } from '../chain/rpc/transactions.ts';
import type { PlanRow } from '../db/plans.ts';
import type { OpenSponsorship, SponsoredPayment } from '../db/sponsorships.ts';
import type { Pull } from '../domain/collecting/chain-view.ts';
import { pullsIn } from '../domain/collecting/pulls.ts';
import type { Context } from './context.ts';

/** The account that a sign-up opened, and its payment. */
export interface LandedSignUp {
  readonly initId: bigint;
  readonly periodStart: bigint;
  readonly pull: Pull;
}

/**
 * Reads a landed sign-up from its transaction. Throws ChainDataError while no endpoint returns the
 * transaction readable: the sign-up then waits, and is read again later.
 */
export async function readSignUp(
  context: Context,
  { signature, subscriptionPda }: OpenSponsorship,
  { amountGross: gross, platformFee: fee, amountNet: net, feeOwed, creditSpent }: SponsoredPayment,
  plan: PlanRow,
): Promise<LandedSignUp> {
  const { rpc, programId, keeperWallets, treasuries } = context;
  const found = await readListed(rpc, signature);
  if ('unreadable' in found) {
    context.reportUnreadable([found]);
    context.metrics.alerts.inc({ reason: 'sponsored_unregistered' });
    throw new ChainDataError(`the sponsored transaction ${signature} is ${found.unreadable}`);
  }
  const parties = { programId, keepers: keeperWallets, subscriptionPda: subscriptionPda ?? '' };
  const [pull] = pullsIn(found, { ...parties, treasuries: [plan.treasury, ...treasuries] });
  const opened = openedAccount(found.instructions, programId, parties.subscriptionPda);
  if (pull === undefined || opened === undefined)
    throw new ChainDataError(`the sponsored transaction ${signature} opens no paid subscription`);
  // A transaction that opens the wallet's authority too does not name its init id, which is the
  // slot in which the authority is opened.
  const initId = opened.initId === UNKNOWN_INIT_ID ? found.slot : opened.initId;
  const amounts = { gross, fee, net, feeOwed, creditSpent };
  return {
    initId,
    periodStart: pull.periodStart,
    pull: { ...pull, ...amounts, source: 'keeper' },
  };
}
