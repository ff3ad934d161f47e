// The subscribers of the scenario and their actions. A subscriber's role decides its action, such
// as a cancellation or a late top-up.
import { unsignedTransaction } from '../../chain/transactions/message.ts';
import { approveInstructions } from '../../chain/transactions/subscriptions.ts';
import { revokeApproval } from '../../chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../chain/transactions/wallet.ts';
import type { SandboxChain } from './chain.ts';
import { clientOf } from './client.ts';
import { pollUntil, type Merchant } from './merchants.ts';
import { signFor, type Wallet } from './wallet.ts';

/**
 * The roles of subscribers. A steady subscriber only pays. In every other role, something happens
 * to the subscription in the period `at`, such as a cancellation or a missing balance.
 */
export const roles = [
  'steady',
  'topsUp',
  'staysDry',
  'revokes',
  'cancels',
  'merchantCancels',
  'merchantForces',
  'resumes',
] as const;
export type SubscriberRole = (typeof roles)[number];

export interface Subscriber {
  wallet: Wallet;
  token: string;
  merchant: Merchant;
  role: SubscriberRole;
  /**
   * Number of the period in which the subscriber takes the action of its role. The first period is
   * 0.
   */
  at: number;
  /**
   * Id of the subscription. `subscriptionId` and `subscriptionPda` are empty until the wallet has
   * subscribed.
   */
  subscriptionId: string;
  subscriptionPda: string;
}

export interface Stage {
  apiUrl: string;
  chain: SandboxChain;
  programId: string;
  mint: string;
}

/** Returns for how many periods the wallet's initial USDC is enough. */
export function fundedPeriods(
  { role, at }: Pick<Subscriber, 'role' | 'at'>,
  periods: number,
): number {
  return role === 'topsUp' || role === 'staysDry' ? at : periods + 1;
}

/**
 * Subscribes on chain with a transaction that the API has built, then registers the subscription
 * with the API.
 */
export async function subscribe({ apiUrl, chain }: Stage, subscriber: Subscriber): Promise<void> {
  const { wallet, token, merchant } = subscriber;
  const { appId, planId } = merchant;
  const client = clientOf(apiUrl, token);
  const { transaction, subscriptionPda } = await client.post(
    '/subscriber/plans/{planId}/subscribe',
    { path: { planId } },
  );
  await chain.submit(signFor(wallet, transaction));
  const body = { appId, planId, subscriptionPda };
  const { id } = await client.post('/subscriber/subscriptions', { body });
  Object.assign(subscriber, { subscriptionId: id, subscriptionPda });
}

/**
 * Takes the action of the subscriber's role in the middle of a paid period. If the subscriber
 * cancels or resumes, waits until the API shows the change.
 */
export async function actMidPeriod(stage: Stage, subscriber: Subscriber): Promise<void> {
  const { apiUrl, chain } = stage;
  const { role, token, merchant, subscriptionId } = subscriber;
  const client = clientOf(apiUrl, token);
  const path = { subscriptionId };
  const signed = async (verb: 'cancel' | 'resume') => {
    const { transaction } = await client.post(
      `/subscriber/subscriptions/{subscriptionId}/${verb}`,
      { path },
    );
    await chain.submit(signFor(subscriber.wallet, transaction));
  };
  const cancelSeen = async () => {
    const subscription = await client.get('/subscriber/subscriptions/{subscriptionId}', { path });
    return subscription.cancelRequestedAt !== null;
  };
  const asMerchant = (mode: 'period_end' | 'force') =>
    clientOf(apiUrl, merchant.apiKey).post(
      '/merchant/apps/{appId}/subscriptions/{subscriptionId}/cancel',
      { path: { appId: merchant.appId, subscriptionId }, body: { mode } },
    );
  switch (role) {
    case 'revokes':
      return revokeDelegation(stage, subscriber);
    case 'cancels':
      await signed('cancel');
      return pollUntil(`the cancel of ${subscriber.subscriptionId} is seen`, cancelSeen);
    case 'merchantCancels':
      await asMerchant('period_end');
      return;
    case 'merchantForces':
      await asMerchant('force');
      return;
    case 'resumes':
      await signed('cancel');
      await pollUntil(`the cancel of ${subscriber.subscriptionId} is seen`, cancelSeen);
      await signed('resume');
      return pollUntil(
        `the resume of ${subscriber.subscriptionId} is seen`,
        async () => !(await cancelSeen()),
      );
    case 'steady':
    case 'topsUp':
    case 'staysDry':
      return;
  }
}

/**
 * Takes the action of the subscriber's role after a payment has failed: tops up the wallet, or
 * approves again.
 */
export async function actPastDue(
  stage: Stage,
  subscriber: Subscriber,
  periods: number,
): Promise<void> {
  const { role, wallet, merchant } = subscriber;
  if (role === 'topsUp')
    await stage.chain.fund(wallet.address, { usdc: merchant.amount * BigInt(periods + 1) });
  if (role === 'revokes') await approveAgain(stage, subscriber);
}

/**
 * Revokes the wallet's token approval with SPL Token's Revoke. The wallet keeps its
 * SubscriptionAuthority account. To pay again, the wallet only has to approve that authority.
 */
export async function revokeDelegation(
  { chain, mint }: Stage,
  { wallet }: Pick<Subscriber, 'wallet'>,
): Promise<void> {
  const { blockhash } = await chain.rpc.getLatestBlockhash();
  const revoke = revokeApproval({ owner: wallet.address, mint });
  await chain.submit(signFor(wallet, unsignedTransaction(wallet.address, [revoke], blockhash)));
}

async function approveAgain(
  { chain, programId, mint }: Stage,
  { wallet }: Subscriber,
): Promise<void> {
  const { blockhash } = await chain.rpc.getLatestBlockhash();
  const approve = { user: wallet.address, mint, hasTokenAccount: true };
  const instructions = approveInstructions(programId, approve);
  await chain.submit(signFor(wallet, walletTransaction(wallet.address, instructions, blockhash)));
}
