// Registers sponsored sign-ups that landed without a subscription (db/offers/lost-sign-ups.ts).
// Their accounts are gone, so the subscriptions are registered as ended, with their payments.
import { ChainDataError } from '../../../chain/program/layouts.ts';
import { isSameAccount, periodSeconds } from '../../../chain/program/period.ts';
import type { FoundTransaction } from '../../../chain/rpc/responses.ts';
import type { Rpc } from '../../../chain/rpc/rpc.ts';
import {
  lockLostSignUp,
  type LostSignUp,
  setSignUpSubscription,
} from '../../../db/offers/lost-sign-ups.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import { readReplaced } from '../../../db/subscriptions/plan-changes.ts';
import { findPlan } from '../../../db/subscriptions/plans.ts';
import { type Landed, openedBy, readAccounts, storeLanded } from '../../../domain/offers/landed.ts';
import { PaymentUnderWay } from '../../../domain/registration/plan-credit.ts';

/** The methods with which a repair reads the chain. */
export interface SignUpReader {
  readonly rpc: Pick<Rpc, 'getMultipleAccounts'>;
  readonly programId: string;
  readonly keepers: readonly string[];
  readonly treasuries: readonly string[];
  readonly transactionOf: (signature: string) => Promise<FoundTransaction | null>;
}

/**
 * Registers a landed sign-up whose account is gone, and records its payment. Returns false if it
 * cannot be registered now: (1) its transaction is not readable, (2) the account still exists, or
 * (3) a payment of the replaced subscription may still land.
 */
export async function registerSignUp(
  sql: Sql,
  reader: SignUpReader,
  signUp: LostSignUp,
  signature: string,
): Promise<boolean> {
  try {
    const gone = await readGone(sql, reader, signUp, signature);
    if (gone === undefined) return false;
    return await sql.begin(async (tx) => {
      if (!(await lockLostSignUp(tx, signUp.offerId))) return false;
      const { id, update } = await storeLanded(tx, gone);
      await setSignUpSubscription(tx, signUp.offerId, id);
      return update !== undefined;
    });
  } catch (error) {
    if (error instanceof PaymentUnderWay || error instanceof ChainDataError) return false;
    throw error;
  }
}

async function readGone(
  sql: Sql,
  { rpc, programId, keepers, treasuries, transactionOf }: SignUpReader,
  signUp: LostSignUp,
  signature: string,
): Promise<Landed | undefined> {
  const { planId, replaces, subscriptionPda } = signUp;
  const [plan, found] = [await findPlan(sql, planId), await transactionOf(signature)];
  if (plan === undefined || subscriptionPda === null) return undefined;
  if (found === null || 'unreadable' in found) return undefined;
  const parties = { programId, keepers, treasuries, subscriptionPda };
  const opened = openedBy(found, parties, signUp);
  const replaced = replaces === null ? undefined : await readReplaced(sql, replaces);
  const view = await readAccounts({ rpc, programId }, plan, subscriptionPda, found.slot, replaced);
  const { subscription } = view;
  if (
    subscription !== null &&
    isSameAccount(opened.account, subscription, periodSeconds(subscription.periodHours))
  )
    return undefined;
  return { ...opened, signUp, plan, replaced, view, isGone: true };
}
