// The session of a signed-in wallet. Only the session's client sends the access token.
import type { WalletAccount } from '@wallet-standard/base';
import { type Client, createClient } from '../../client/client.ts';
import type { components } from '../../client/openapi.ts';
import { AlteredTransaction, isCode, WalletRefusal } from './errors.ts';
import { fill, words } from './language.ts';
import { askRenewal } from './renewal.tsx';
import { dropToken, keepToken, keptToken, type Role } from './token-store.ts';
import { obstacleIn, signInWay, signInWith } from './wallet-sign-in.ts';
import {
  connect,
  type Connected,
  featuresOf,
  noteLapse,
  type Offer,
  sharedAccounts,
  signTransaction,
  type SolanaWallet,
} from './wallets.ts';

export type Subscription = components['schemas']['OwnSubscription'];
export type Plan = components['schemas']['Plan'];
export type Checkout = components['schemas']['PublicCheckoutSession'];
export type PublicPlan = components['schemas']['PublicPlan'];
export type Payment = components['schemas']['OwnTransaction'];
export type Standing = components['schemas']['Standing'];

export interface Session extends Connected {
  readonly role: Role;
  readonly address: string;
  readonly client: Client;
  /** Aborted when the session ends. */
  readonly ended: AbortSignal;
  /** Ends the session and removes its token from the tab. */
  readonly end: () => void;
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

/**
 * Time limit (ms) for the response headers of a repeated request. A first request has the same
 * limit in the client.
 */
const TIMEOUT_MS = 30_000;

/** A client for requests without sign-in. */
export const anonymous: Client = createClient({ baseUrl: location.origin });

/**
 * Connects a wallet. Signs in unless the tab has a token for the connected account. `step` is
 * called before each request to the wallet. Throws a WalletRefusal or the service's error.
 */
export async function openSession(
  wallet: SolanaWallet,
  role: Role,
  step: (name: 'connect' | 'signIn') => void,
): Promise<Session> {
  step('connect');
  const connected = await connect(wallet);
  const kept = keptToken(role);
  if (kept?.address === connected.account.address) return sessionOf(connected, role, kept.token);
  dropToken(role);
  step('signIn');
  const { account, token } = await signInAs(connected, role);
  return sessionOf({ wallet, account }, role, token);
}

/**
 * Opens a session with the tab's token if the wallet still shares the token's account. The wallet
 * does not ask the user. Returns undefined when the user must choose a wallet.
 */
export async function resumeSession(
  wallet: SolanaWallet,
  role: Role,
): Promise<Session | undefined> {
  const accounts = await sharedAccounts(wallet);
  const kept = keptToken(role);
  if (kept === undefined) return undefined;
  const account = accounts.find(({ address }) => address === kept.address);
  if (account !== undefined) return sessionOf({ wallet, account }, role, kept.token);
  // The wallet now shares only other accounts, so the token can no longer be used.
  if (accounts.length > 0) dropToken(role);
  return undefined;
}

/**
 * Signs in with a connected account and keeps the token in the tab. Throws a WalletRefusal or the
 * service's error.
 */
async function signInAs(
  connected: Connected,
  role: Role,
): Promise<{ account: WalletAccount; token: string }> {
  const { wallet } = connected;
  const { address } = connected.account;
  const features = featuresOf(connected);
  const way = signInWay(features, role);
  if (way === undefined)
    throw new WalletRefusal(
      'signIn',
      fill(words.obstacle[obstacleIn(features, role) ?? 'messages'], { wallet: wallet.name }),
    );
  const { nonce, ...asked } = await anonymous.post('/auth/nonce', {
    body: { wallet: address, role, ...(way === 'transaction' && { method: way }) },
  });
  const { account, ...signed } = await signInWith(connected, way, asked);
  const { token, expiresAt } = await anonymous.post('/auth/verify', {
    body: { wallet: address, nonce, ...signed },
  });
  keepToken(role, { token, expiresAt, address, wallet: wallet.name });
  return { account, token };
}

function sessionOf(connected: Connected, role: Role, first: string): Session {
  const ending = new AbortController();
  const session = {
    ...connected,
    role,
    address: connected.account.address,
    ended: ending.signal,
    end() {
      dropToken(role);
      ending.abort();
    },
  };
  let token = first;
  const client = createClient({
    baseUrl: location.origin,
    token: () => token,
    retries: 2,
    maxWaitSeconds: 5,
    /**
     * Sends a request. If the service refuses the token, signs in again and repeats the request.
     */
    async fetch(url, init) {
      const used = token;
      const response = await fetch(url, init);
      if (response.status !== 401 || ending.signal.aborted) return response;
      const renew = async () => {
        ({ token } = await signInAs(connected, role));
      };
      if (token === used && !(await askRenewal(session, renew))) return response;
      const headers = { ...(init?.headers as object), authorization: `Bearer ${token}` };
      // The sign-in may outlast the first time limit, so the repeated request gets a new time
      // limit.
      return fetch(url, { ...init, headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    },
  });
  return { ...session, client };
}

/**
 * Asks the wallet to sign in once more, before a key is created or a secret is replaced. A stranger
 * who uses an open dashboard cannot sign in. Returns a client with the new token.
 */
export async function signAgain(session: Session): Promise<Client> {
  const { token } = await signInAs(session, session.role);
  return createClient({ baseUrl: location.origin, token });
}

/**
 * Asks the wallet to sign a transaction. The service then sends the transaction, unless the wallet
 * sends it. `ask` is called right before the wallet is asked and lets the service build the
 * transaction, because a blockhash ages while the user decides. Throws a WalletRefusal, an
 * AlteredTransaction or the service's error.
 */
export async function submit(
  session: Session,
  ask: () => Promise<Offer>,
  step: (name: 'sign' | 'send') => void,
): Promise<Submitted> {
  const offer = await ask();
  step('sign');
  const result = await signTransaction(session, offer);
  step('send');
  if ('sent' in result) return { status: 'sent', reason: null, signature: result.sent };
  const path =
    session.role === 'subscriber' ? '/subscriber/transactions' : '/merchant/transactions';
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
