// The sandbox's controls on the dashboard. The demo wallet's script (pages/demo-wallet/controls.ts)
// links to URLs of the sandbox's own server. The service itself has no such URLs.
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import { timeOf } from '../../chain/time.ts';
import { refundTransaction } from '../../chain/transactions/refund.ts';
import { OperatorError } from '../../errors.ts';
import { clientOf } from './client.ts';
import type { MerchantServer } from './merchant-server.ts';
import type { Merchant } from './merchants.ts';
import { type Passing, passTimeUntil, periodSeconds } from './play.ts';
import { revokeDelegation } from './subscribers.ts';
import { signFor, type Wallet } from './wallet.ts';

/**
 * Index of the merchant whose dashboard people use. After the scenario, the sandbox breaks this
 * merchant's webhook endpoint.
 */
const SHOWN_MERCHANT = 0;
const DAY_SECONDS = 86_400n;

/**
 * Milliseconds between blocks: `play` while a control moves the clock by a month, otherwise `real`.
 */
interface BlockTimes {
  readonly play: number;
  readonly real: number;
}

interface Scene extends Passing {
  readonly server: MerchantServer;
  readonly merchant: Merchant;
  /** The wallets of all subscribers and the demo wallet. */
  readonly wallets: readonly Wallet[];
  readonly blockTimes: BlockTimes;
  /**
   * Whether the scenario is running. While the scenario runs, it moves the clock itself, and the
   * controls are refused.
   */
  readonly isPlaying: () => boolean;
}

/**
 * Adds the controls to the sandbox's server. Returns the base URL of the controls. The base URL
 * contains a secret, so that only the dashboard can use the controls.
 */
export function addControls(scene: Scene): string {
  const { server, stage, processes } = scene;
  const base = `/control/${randomBytes(16).toString('hex')}`;
  const back = (query: URLSearchParams) => {
    const hash = query.get('back') ?? '';
    return hash.startsWith('#/') ? hash : '#/';
  };
  // Only one control runs at a time. If two controls moved the clock at once, the clock would skip
  // the times at which payments are due.
  let last: Promise<unknown> = Promise.resolve();
  const add = (
    name: string,
    act: (query: URLSearchParams) => Promise<void>,
    hashAfter: (query: URLSearchParams) => string | Promise<string> = back,
  ) =>
    server.actOn(`${base}/${name}`, async (query) => {
      if (scene.isPlaying())
        throw new OperatorError('The scenario is being played. Try again when it is over.');
      const acting = last.then(() => act(query));
      last = acting.catch(() => undefined);
      await acting;
      return `${processes.apiUrl}/dashboard${await hashAfter(query)}`;
    });
  add(
    'month',
    () => passMonth(scene),
    async (query) => withLastMonth(back(query), await stage.chain.now()),
  );
  add('empty', async (query) => emptyWallet(scene, await walletOf(scene, query)));
  add('revoke', async (query) => revokeDelegation(stage, { wallet: await walletOf(scene, query) }));
  const repair = add('repair', async () => server.setGone(SHOWN_MERCHANT, false));
  return repair.slice(0, -'/repair'.length);
}

/**
 * Moves the clock by a month. The clock stops at each due payment until the payment's transaction
 * is final. Blocks are faster meanwhile, so that the stops are short.
 */
async function passMonth(scene: Scene): Promise<void> {
  const { chain } = scene.stage;
  await chain.setBlockTime(scene.blockTimes.play);
  try {
    await passTimeUntil(scene, (await chain.now()) + periodSeconds);
  } finally {
    await chain.setBlockTime(scene.blockTimes.real);
  }
}

/**
 * Returns the fragment of the dashboard's overview with the 31 days until the chain's time `now`
 * (Unix seconds). The chain's clock is ahead of the browser's, so "Last 30 days" would not include
 * the month that has passed. Fragments of other views are returned unchanged.
 */
function withLastMonth(hash: string, now: bigint): string {
  const [path, query] = hash.split('?');
  if (path !== '#/') return hash;
  const filters = new URLSearchParams(query);
  filters.delete('days');
  const dayAt = (seconds: bigint) => timeOf(seconds).toISOString().slice(0, 10);
  filters.set('from', dayAt(now - 30n * DAY_SECONDS));
  filters.set('to', dayAt(now));
  return `#/?${filters.toString()}`;
}

/** Returns the wallet of the subscription that the parameter `subscription` of the URL names. */
async function walletOf(
  { stage, merchant, wallets }: Scene,
  query: URLSearchParams,
): Promise<Wallet> {
  const id = query.get('subscription') ?? '';
  const { subscriberWallet } = await clientOf(stage.apiUrl, merchant.apiKey).get(
    '/merchant/apps/{appId}/subscriptions/{subscriptionId}',
    { path: { appId: merchant.appId, subscriptionId: id } },
  );
  const wallet = wallets.find(({ address }) => address === subscriberWallet);
  if (wallet === undefined)
    throw new OperatorError(`The key of ${subscriberWallet} is not in the sandbox.`);
  return wallet;
}

/** Sends all USDC of the wallet to the merchant. */
async function emptyWallet({ stage, merchant }: Scene, wallet: Wallet): Promise<void> {
  const { chain, mint } = stage;
  const amount = await chain.balance(wallet.address);
  if (amount === 0n) return;
  const { blockhash } = await chain.rpc.getLatestBlockhash();
  const transfer = {
    mint,
    merchant: wallet.address,
    subscriber: merchant.wallet.address,
    amount,
    reference: bs58.encode(randomBytes(32)),
  };
  const transaction = refundTransaction(transfer, { hasTokenAccount: true, blockhash });
  await chain.submit(signFor(wallet, transaction));
}

/**
 * Breaks the shown merchant's webhook endpoint. Then pauses a subscription and ends the pause,
 * which causes two events. The deliveries of these events fail. People can repair the endpoint and
 * replay the deliveries.
 */
export async function breakEndpoint({
  server,
  stage,
  merchant,
}: Pick<Scene, 'server' | 'stage' | 'merchant'>): Promise<void> {
  const { appId, apiKey } = merchant;
  const client = clientOf(stage.apiUrl, apiKey);
  const live = await client.get('/merchant/apps/{appId}/subscriptions', {
    path: { appId },
    query: { status: 'active' },
  });
  const one = live.find(({ cancelRequestedAt }) => cancelRequestedAt === null);
  if (one === undefined) return;
  server.setGone(SHOWN_MERCHANT, true);
  const path = { appId, subscriptionId: one.id };
  for (const verb of ['pause', 'unpause'] as const)
    await client.post(`/merchant/apps/{appId}/subscriptions/{subscriptionId}/${verb}`, { path });
}
