// A signed-in wallet. Only this object holds the access token.
import { type Client, createClient } from '../../client/client.ts';
import type { components } from '../../client/openapi.ts';
import { AlteredTransaction, isCode } from './errors.ts';
import {
  connect,
  type Connected,
  signText,
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
  const { nonce, message } = await anonymous.post('/auth/nonce', {
    body: { wallet: address, role },
  });
  const signed = await signText(connected, message);
  const { token } = await anonymous.post('/auth/verify', {
    body: { wallet: address, nonce, ...signed },
  });
  const client = createClient({ baseUrl: location.origin, token, retries: 2, maxWaitSeconds: 5 });
  return { ...connected, address, client };
}

/**
 * Asks the wallet to sign in once more, before a key is created or a secret replaced: whoever finds
 * an open dashboard cannot do that. Returns a client with the new token.
 */
export async function signAgain(session: Session): Promise<Client> {
  const { client } = await signInAs(session, 'merchant');
  return client;
}

/**
 * Asks the wallet to sign a transaction that the service built, and sends the transaction through
 * the service. Throws a WalletRefusal, an AlteredTransaction or the service's error.
 */
export async function submit(
  session: Session,
  role: Role,
  transaction: string,
  step: (name: 'sign' | 'send') => void,
): Promise<Submitted> {
  step('sign');
  const result = await signTransaction(session, transaction);
  step('send');
  if ('sent' in result) return { status: 'sent', reason: null, signature: result.sent };
  const path = role === 'subscriber' ? '/subscriber/transactions' : '/merchant/transactions';
  for (;;) {
    const sent = session.client.post(path, { body: { transaction: result.signed } });
    const { status, reason, signature } = await sent.catch((error: unknown) => {
      throw isCode(error, 'VALIDATION_ERROR') ? new AlteredTransaction(error) : error;
    });
    if (status !== 'pending') return { status, reason, signature };
  }
}
