// A signed-in wallet. Only this object holds the access token.
import { type Client, createClient } from '../../client/client.ts';
import type { components } from '../../client/openapi.ts';
import { AlteredTransaction, isCode, WalletRefusal } from './errors.ts';
import { obstacleOf, signInWay, signInWith } from './wallet-sign-in.ts';
import {
  connect,
  type Connected,
  noteLapse,
  type Offer,
  signTransaction,
  type SolanaWallet,
} from './wallets.ts';

export type Subscription = components['schemas']['OwnSubscription'];
export type Plan = components['schemas']['Plan'];
export type Checkout = components['schemas']['PublicCheckoutSession'];
export type PublicPlan = components['schemas']['PublicPlan'];
export type Payment = components['schemas']['OwnTransaction'];
export type Standing = components['schemas']['Standing'];
export type Role = 'merchant' | 'subscriber';

export interface Session extends Connected {
  readonly address: string;
  readonly client: Client;
}

/**
 * `sent` means that the wallet itself sent the transaction. The page then reads the result from the
 * chain.
 */
export interface Submitted {
  status: 'confirmed' | 'sent' | 'lapsed' | 'failed';
  reason: string | null;
  signature: string;
}

/** A client for requests without sign-in. */
export const anonymous: Client = createClient({ baseUrl: location.origin });

/**
 * Connects a wallet and signs in. `step` is called before each request to the wallet. Throws a
 * WalletRefusal or the service's error.
 */
export async function openSession(
  wallet: SolanaWallet,
  role: Role,
  step: (name: 'connect' | 'signIn') => void,
): Promise<Session> {
  step('connect');
  const connected = await connect(wallet);
  step('signIn');
  return signInAs(connected, role);
}

/** Signs in with a connected account. Throws a WalletRefusal or the service's error. */
async function signInAs(connected: Connected, role: Role): Promise<Session> {
  const { address } = connected.account;
  const way = signInWay(connected.wallet, role);
  if (way === undefined)
    throw new WalletRefusal('signIn', `It ${obstacleOf(connected.wallet, role) ?? 'cannot'}.`);
  const { nonce, ...asked } = await anonymous.post('/auth/nonce', {
    body: { wallet: address, role, ...(way === 'transaction' && { method: way }) },
  });
  const { account, ...signed } = await signInWith(connected, way, asked);
  const { token } = await anonymous.post('/auth/verify', {
    body: { wallet: address, nonce, ...signed },
  });
  const client = createClient({ baseUrl: location.origin, token, retries: 2, maxWaitSeconds: 5 });
  return { ...connected, account, address, client };
}

/**
 * Has the wallet sign a transaction, and sends it through the service unless the wallet sends. The
 * service builds the transaction (`ask`) when the wallet is about to be asked, because its
 * blockhash ages while the user decides. Throws a WalletRefusal, an AlteredTransaction or the
 * service's error.
 */
export async function submit(
  session: Session,
  role: Role,
  ask: () => Promise<Offer>,
  step: (name: 'sign' | 'send') => void,
): Promise<Submitted> {
  const offer = await ask();
  step('sign');
  const result = await signTransaction(session, offer);
  step('send');
  if ('sent' in result) return { status: 'sent', reason: null, signature: result.sent };
  const path = role === 'subscriber' ? '/subscriber/transactions' : '/merchant/transactions';
  for (;;) {
    const body = { transaction: result.signed, offerId: offer.offerId };
    const sent = session.client.post(path, { body });
    const { status, reason, signature } = await sent.catch((error: unknown) => {
      throw isCode(error, 'VALIDATION_ERROR') ? new AlteredTransaction(error) : error;
    });
    if (status === 'lapsed') noteLapse(session.wallet);
    if (status !== 'pending') return { status, reason, signature };
  }
}
