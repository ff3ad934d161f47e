// Requests of `billing wallet` to the API. The wallet signs in, and the API sends the signed
// transactions (POST .../transactions).
import { setTimeout as pause } from 'node:timers/promises';
import bs58 from 'bs58';
import type { Keypair } from '../../chain/keypair.ts';
import { OperatorError } from '../../errors.ts';
import { parseId } from '../arguments.ts';
import { type ApiClient, apiUrlOf, connectApi } from './api-client.ts';

export type Role = 'subscriber' | 'merchant';

/**
 * The API's response to a signed transaction. `billing wallet send` prints the same fields when it
 * sends the transaction without the API.
 */
export interface Relayed {
  signature: string;
  status: 'confirmed' | 'pending' | 'lapsed' | 'failed';
  reason: string | null;
  subscription?: { id: string } | null;
  plan?: { id: string; status: string } | null;
}

type Api = Omit<ApiClient, 'key'>;

/** Signs in with the wallet's signature and returns the token. */
async function signIn(url: string, wallet: Keypair, role: Role): Promise<string> {
  const api = await connectApi(url);
  try {
    const { data: asked } = await api.call<{ nonce: string; message: string }>(
      'POST',
      '/auth/nonce',
      { body: { wallet: wallet.address, role } },
    );
    const signature = bs58.encode(wallet.sign(Buffer.from(asked.message)));
    const { data } = await api.call<{ token: string }>('POST', '/auth/verify', {
      body: { wallet: wallet.address, nonce: asked.nonce, signature },
    });
    return data.token;
  } finally {
    await api.close();
  }
}

/** Signs in and calls `work` with a client that has the wallet's token. */
async function asWallet<T>(
  { apiUrl, wallet, as }: { apiUrl: string; wallet: Keypair; as: Role },
  work: (api: Api) => Promise<T>,
): Promise<T> {
  const url = apiUrlOf(apiUrl);
  const api = await connectApi(url, await signIn(url, wallet, as));
  try {
    return await work(api);
  } finally {
    await api.close();
  }
}

/**
 * Sends a signed transaction through the API. Repeats the request while the response is `pending`.
 */
export function relayTransaction(
  given: { apiUrl: string; wallet: Keypair; as: Role; transaction: string; offerId?: string },
  signal: AbortSignal,
): Promise<Relayed> {
  return asWallet(given, (api) => relay(api, given, signal));
}

async function relay(
  api: Api,
  { as, transaction, offerId }: { as: Role; transaction: string; offerId?: string | undefined },
  signal: AbortSignal,
): Promise<Relayed> {
  for (;;) {
    const { data } = await api.call<Relayed>('POST', `/${as}/transactions`, {
      body: { transaction, ...(offerId !== undefined && { offerId }) },
      signal,
    });
    if (data.status !== 'pending') return data;
    await pause(200, undefined, { signal });
  }
}

/**
 * Subscribes the wallet to a plan: gets the transaction from the API and signs the transaction. The
 * API then sends the transaction and registers the subscription.
 */
export function subscribeTo(
  {
    apiUrl,
    wallet,
    planId,
    session,
  }: { apiUrl: string; wallet: Keypair; planId: string; session?: string | undefined },
  signal: AbortSignal,
): Promise<Relayed> {
  const id = parseId(planId);
  const body = session === undefined ? undefined : { checkoutSessionId: parseId(session) };
  return asWallet({ apiUrl, wallet, as: 'subscriber' }, async (api) => {
    const { data } = await api.call<{ transaction: string; offerId?: string }>(
      'POST',
      `/subscriber/plans/${id}/subscribe`,
      { ...(body !== undefined && { body }), signal },
    );
    const { signedBy } = await import('./wallet-chain.ts');
    const transaction = signedBy(wallet, data.transaction);
    const relayed = await relay(
      api,
      { as: 'subscriber', transaction, offerId: data.offerId },
      signal,
    );
    if (relayed.status === 'confirmed' && !relayed.subscription)
      throw new OperatorError(
        `The transaction ${relayed.signature} is confirmed, and the subscription is not registered yet: GET /subscriber/subscriptions shows it shortly.`,
      );
    return relayed;
  });
}
