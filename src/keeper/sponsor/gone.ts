// Settles a landed sponsored sign-up whose account the wallet closed before a keeper settled it.
// Its transaction shows the payment and the account that it opened.
import { ChainDataError } from '../../chain/program/layouts.ts';
import { readListed } from '../../chain/rpc/transactions.ts';
import type { OpenSponsorship, SponsoredPayment } from '../../db/offers/sponsorships.ts';
import type { ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import {
  type Gone,
  openedBy,
  registrationOf,
  type LandedView,
} from '../../domain/offers/landed.ts';
import type { Context } from '../base/context.ts';

/**
 * Reads the transaction of a landed sign-up and returns the data to store. Throws ChainDataError
 * while no endpoint returns the transaction in readable form. The sign-up then waits and is read
 * again later.
 */
export async function readGone(
  context: Context,
  sponsorship: OpenSponsorship,
  attempt: SponsoredPayment & { id: string },
  { plan, view, replaced }: { plan: PlanRow; view: LandedView; replaced: ReplacedRow | undefined },
): Promise<Gone> {
  const { rpc, programId, keeperWallets: keepers, treasuries } = context;
  const { signature, subscriptionPda } = sponsorship;
  const found = await readListed(rpc, signature);
  if ('unreadable' in found) {
    context.reportUnreadable([found]);
    context.metrics.alerts.inc({ reason: 'sponsored_unregistered' });
    throw new ChainDataError(`the sponsored transaction ${signature} is ${found.unreadable}`);
  }
  const parties = {
    ...{ programId, keepers, treasuries: [plan.treasury, ...treasuries] },
    subscriptionPda: subscriptionPda ?? '',
  };
  const { account, pull } = openedBy(found, parties, attempt);
  const registration = await registrationOf(context.sql, sponsorship, plan, {
    ...{ account, view, pull, replaced },
  });
  const resolution = { id: attempt.id, state: 'landed', error: null } as const;
  return { one: sponsorship, registration, pull, view, resolution };
}
