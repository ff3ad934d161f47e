// Builds the unsigned transaction with which a wallet subscribes. The transaction opens a new
// subscription account, or resumes an existing account. An account can be resumed if it is
// cancelled and has not expired, and if its registration has ended.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import type { Instruction } from '../../chain/program/instructions.ts';
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import { subscribeInstructions } from '../../chain/transactions/subscriptions.ts';
import { walletTransaction } from '../../chain/transactions/wallet.ts';
import { isSignupOpen } from '../../db/offers/sponsorships.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  type EarlierRegistration,
  findNewestRegistration,
} from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import {
  cancelReplaced,
  decideAction,
  isRunning,
  obstacleError,
  subscribeState,
} from '../actions/actions.ts';
import {
  type PlanView,
  readWalletView,
  type Replaced,
  type WalletView,
} from '../actions/wallet-view.ts';
import {
  type ChainReader,
  type BillingAddresses,
  reaching,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { pullersOf } from '../plans/plans.ts';
import { blockedPlan, blockOf, soldPlan } from '../plans/selling.ts';
import { isOfAccount } from './ended.ts';
import { endedByMerchant, signupUnderWay } from './registration.ts';

interface Parts {
  sql: Queryable;
  chain: ChainReader;
  network: BillingAddresses;
}

/**
 * The transaction that opens or resumes a subscription. `resumes` tells whether the transaction
 * resumes a cancelled account.
 */
export interface Opening extends Unsigned {
  subscriptionPda: string;
  resumes: boolean;
  /** Whether the transaction cancels the replaced subscription. */
  cancels: boolean;
  /** The block height when the transaction was built. */
  blockHeight: bigint;
  view: PlanView;
}

/**
 * Builds the transaction (base64) with which the wallet subscribes. The transaction also creates
 * missing accounts and a missing approval. If `replaced` is given, the transaction first cancels
 * the replaced subscription. Throws CONFLICT when (1) the plan takes no subscriptions, (2) the
 * wallet is frozen or already subscribed, (3) the merchant has ended the wallet's subscription, (4)
 * a sponsored sign-up of the account is not settled, because its terms would apply. Throws
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function openingTransaction(
  parts: Parts,
  plan: PlanRow,
  wallet: string,
  replaced?: Replaced,
): Promise<Opening> {
  const { chain, network } = parts;
  const { view, subscriptionPda, resumes } = await readOpening(parts, plan, wallet, replaced);
  const { programId } = network;
  const { blockhash, lastValidBlockHeight, blockHeight, slot } = await readBlockhash(chain);
  const cancelInstructions = cancelReplaced(programId, { wallet, replaced }, view);
  const openInstructions = openingInstructions(programId, { wallet, plan, resumes }, view);
  const transaction = walletTransaction(
    wallet,
    [...cancelInstructions, ...openInstructions],
    blockhash,
  );
  const unsigned = { transaction, blockhash, lastValidBlockHeight, slot };
  const effects = { resumes, cancels: cancelInstructions.length > 0 };
  return { ...unsigned, ...effects, subscriptionPda, blockHeight, view };
}

function openingInstructions(
  programId: string,
  { wallet, plan, resumes }: { wallet: string; plan: PlanRow; resumes: boolean },
  view: PlanView,
): readonly Instruction[] {
  if (!resumes)
    return subscribeInstructions(programId, { subscriber: wallet, state: subscribeState(view) })
      .instructions;
  const action = { purpose: 'resume', wallet, plan, withdraws: false } as const;
  const decided = decideAction({ programId, mint: plan.mint }, action, view);
  if ('obstacle' in decided) throw obstacleError(decided.obstacle);
  return decided.instructions;
}

/**
 * Reads the wallet's accounts for a plan, and whether subscribing resumes an account. Throws as
 * openingTransaction does.
 */
export async function readOpening(
  { sql, chain, network }: Parts,
  plan: PlanRow,
  wallet: string,
  replaced?: Replaced,
): Promise<{ view: PlanView; subscriptionPda: string; resumes: boolean }> {
  const names = { programId: network.programId, mint: plan.mint };
  const read = await reaching(readWalletView(chain, names, { wallet, plan, replaced }));
  const keepers = pullersOf(network);
  const sold = soldPlan(plan, wallet, keepers, read);
  if (sold instanceof ServiceError) throw sold;
  const view = { ...read, plan: sold };
  const subscriptionPda = subscriptionAddress(network.programId, plan.planPda, wallet).address;
  const { subscription: previous, now } = view;
  const resumes = previous !== null && isRunning(previous, now);
  if (resumes && (await isSignupOpen(sql, subscriptionPda))) throw signupUnderWay();
  if (resumes)
    await checkResumable(
      sql,
      { plan: sold, subscriptionPda, isChange: replaced !== undefined },
      {
        ...view,
        subscription: previous,
      },
    );
  const blocked = blockOf(plan, keepers, view);
  if (blocked !== null) throw blockedPlan(blocked);
  if (view.subscriberTokens?.state === 'frozen') throw obstacleError('frozen');
  return { view, subscriptionPda, resumes };
}

/**
 * Builds the transaction that resumes the account of an ended registration. Throws as
 * openingTransaction does. Also throws CONFLICT when the account has ended.
 */
export async function reopeningTransaction(
  parts: Parts,
  plan: PlanRow,
  wallet: string,
): Promise<Opening> {
  const opening = await openingTransaction(parts, plan, wallet);
  if (!opening.resumes)
    throw new ServiceError('CONFLICT', 'The subscription has ended on chain: subscribe again.');
  return opening;
}

const subscribed = (next: string) =>
  new ServiceError(
    'CONFLICT',
    `This wallet has a subscription to the plan on chain already: ${next}.`,
  );

/**
 * Throws CONFLICT if the account's registration forbids a resume: it is live, or the merchant has
 * force-cancelled it. `earlier` is the newest registration of the address. In a change of plan, the
 * registration may be live if another change of plan has replaced it.
 */
export function refuseRegistered(
  earlier: EarlierRegistration | undefined,
  account: SubscriptionAccount,
  { isChange }: { isChange: boolean },
): void {
  if (earlier === undefined || !isOfAccount(earlier, account)) return;
  const registered = 'it is registered, and GET /subscriber/subscriptions lists it';
  const isLive = earlier.status === 'active' || earlier.status === 'past_due';
  if (isLive && !(isChange && earlier.replacedBy !== null))
    throw subscribed(account.expiresAt === 0n ? registered : 'resume it, or wait for its end');
  if (earlier.isBarred) throw endedByMerchant();
}

/**
 * Throws CONFLICT unless the account can be resumed. The account must be cancelled, with the plan's
 * terms and the wallet's authority, and its registration must allow it (refuseRegistered).
 */
async function checkResumable(
  sql: Queryable,
  {
    plan: { amount, periodHours, createdAt },
    subscriptionPda,
    isChange,
  }: { plan: PlanAccount; subscriptionPda: string; isChange: boolean },
  { subscription: account, authority }: WalletView & { subscription: SubscriptionAccount },
): Promise<void> {
  refuseRegistered(await findNewestRegistration(sql, subscriptionPda), account, { isChange });
  const unregistered =
    'register it with POST /subscriber/subscriptions, unless GET /subscriber/subscriptions lists it';
  if (account.expiresAt === 0n) throw subscribed(unregistered);
  const end = timeOf(account.expiresAt).toISOString();
  if (
    account.amount !== amount ||
    account.periodHours !== periodHours ||
    account.planCreatedAt !== createdAt
  )
    throw subscribed(`it has other terms than the plan: wait for its end, ${end}`);
  if (authority?.initId !== account.initId)
    throw subscribed(`its authority was closed, so it cannot be resumed: wait for its end, ${end}`);
}
