// Sets up merchants. Each merchant signs in, creates an app, registers its webhook endpoint,
// publishes a plan on chain and creates an API key.
import { extraEventTypes } from '../../db/delivering/events.ts';
import type { SandboxChain } from './chain.ts';
import { clientOf, signIn } from './client.ts';
import type { MerchantServer } from './merchant-server.ts';
import type { Random } from './random.ts';
import { signFor, walletFromSeed, type Wallet } from './wallet.ts';

export interface Merchant {
  wallet: Wallet;
  token: string;
  apiKey: string;
  appId: string;
  planId: string;
  planPda: string;
  webhookId: string;
  webhookSecret: string;
  amount: bigint;
}

/** The length of a billing period in hours: thirty days. */
export const PERIOD_HOURS = 720;

// The amounts are base units of USDC. A fee of 1 % of 99 base units rounds to zero, so a payment
// for the plan "Tiny" has a single transfer, to the merchant.
const plans = [
  { app: 'Stellar Streams', plan: 'Monthly', amount: 9_990_000n },
  { app: 'Orbit Notes', plan: 'Team', amount: 24_999_999n },
  { app: 'Penny Press', plan: 'Tiny', amount: 99n },
];

/** Sets up one merchant per plan through the API. Resolves when all plans are active. */
export async function createMerchants(
  apiUrl: string,
  chain: SandboxChain,
  server: MerchantServer,
  random: Random,
): Promise<Merchant[]> {
  const wallets = plans.map(() => walletFromSeed(random.seed32()));
  return Promise.all(
    plans.map(async ({ app, plan, amount }, index) => {
      const wallet = wallets[index] as Wallet;
      await chain.fund(wallet.address, { lamports: 10_000_000_000n });
      const token = await signIn(apiUrl, wallet, 'merchant');
      const client = clientOf(apiUrl, token);
      const { id: appId } = await client.post('/merchant/apps', { body: { name: app } });
      const path = { appId };
      const endpoint = await client.post('/merchant/apps/{appId}/webhooks', {
        path,
        body: { url: server.urlFor(index), extraEvents: [...extraEventTypes] },
      });
      server.setSecret(index, endpoint.secret);
      const created = await client.post('/merchant/apps/{appId}/plans', {
        path,
        body: { name: plan, amount: amount.toString(), periodHours: PERIOD_HOURS },
      });
      const { id: planId, planPda, transaction } = created;
      if (transaction === undefined) throw new Error('The new plan has no transaction.');
      await chain.submit(signFor(wallet, transaction));
      await pollUntil(`plan ${planId} is active`, async () => {
        const { status } = await client.get('/merchant/apps/{appId}/plans/{planId}', {
          path: { appId, planId },
        });
        return status === 'active';
      });
      const { key } = await client.post('/merchant/api-keys');
      return {
        wallet,
        token,
        apiKey: key,
        appId,
        planId,
        planPda,
        webhookId: endpoint.id,
        webhookSecret: endpoint.secret,
        amount,
      };
    }),
  );
}

/** Calls `isSo` every 200 ms until `isSo` returns true. After 20 s throws an Error with `goal`. */
export async function pollUntil(goal: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`20 s passed, but not: ${goal}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
