// The session of a signed-in wallet. Only the session's client sends the access token.
import type { WalletAccount } from '@wallet-standard/base';
import { type Client, createClient } from '../../client/client.ts';
import type { components } from '../../client/openapi.ts';
import { fill } from '../../words/fill.ts';
import { AlteredTransaction, isCode, WalletObstacle, WalletRefusal } from './errors.ts';
import { words } from './language.ts';
import { persistently } from './persistently.ts';
import { askRenewal } from './renewal.tsx';
import {
  follow,
  handingOver,
  orUnanswered,
  type ProgressQuery,
  type Submitted,
  submittedOf,
} from './sponsored.ts';
import { dropToken, keepToken, keepWay, keptToken, keptWay, type Role } from './token-store.ts';
import {
  isOtherWayOpen,
  obstacleIn,
  type SignInWay,
  signInWays,
  signInWith,
} from './wallet-sign-in.ts';
import {
  asksSponsor,
  connect,
  type Connected,
  featuresOf,
  noteLapse,
  type Offer,
  sendsItself,
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
 * Time limit (ms) for the response headers when a request is repeated. For the first try, the
 * client in src/client has the same limit.
 */
const TIMEOUT_MS = 30_000;

/**
 * Value in the header WWW-Authenticate for a valid token whose sign-in is too old for the request.
 */
const STEP_UP = 'insufficient_user_authentication';

/** A client for requests without sign-in. */
export const anonymous: Client = createClient({ baseUrl: location.origin });

/**
 * Connects a wallet and opens a session. `step` is called before each request to the wallet. Throws
 * a WalletRefusal or the service's error.
 */
export async function openSession(
  wallet: SolanaWallet,
  role: Role,
  step: (name: 'connect' | 'signIn') => void,
): Promise<Session> {
  step('connect');
  return sessionFor(await connect(wallet), role, step);
}

/**
 * Opens a session for a connected wallet. Signs in, unless the tab has a token for the account.
 * Throws a WalletRefusal or the service's error.
 */
export async function sessionFor(
  connected: Connected,
  role: Role,
  step: (name: 'signIn') => void,
): Promise<Session> {
  const storedSession = keptSession(connected, role);
  if (storedSession !== undefined) return storedSession;
  dropToken(role);
  step('signIn');
  const { account, token } = await signInAs(connected, role);
  return sessionOf({ wallet: connected.wallet, account }, role, token);
}

/**
 * Opens a session with the tab's token. Returns undefined if the tab has no token of this account.
 */
export function keptSession(connected: Connected, role: Role): Session | undefined {
  const storedToken = keptToken(role);
  return storedToken?.address === connected.account.address
    ? sessionOf(connected, role, storedToken.token)
    : undefined;
}

/** Opens a session with a token that the service issued for a sponsored transaction. */
export function sessionWith(
  connected: Connected,
  { token, expiresAt }: { token: string; expiresAt: string },
): Session {
  const { wallet, account } = connected;
  keepToken('subscriber', { token, expiresAt, address: account.address, wallet: wallet.name });
  return sessionOf(connected, 'subscriber', token);
}

/**
 * Asks the wallet, without a prompt to the user, for the accounts that it shares. If the tab has a
 * token for one of these accounts, opens a session with the token. Otherwise returns undefined, and
 * the user must choose a wallet.
 */
export async function resumeSession(
  wallet: SolanaWallet,
  role: Role,
): Promise<Session | undefined> {
  const accounts = await sharedAccounts(wallet);
  const storedToken = keptToken(role);
  if (storedToken === undefined) return undefined;
  const account = accounts.find(({ address }) => address === storedToken.address);
  if (account !== undefined) return sessionOf({ wallet, account }, role, storedToken.token);
  // The wallet now shares only other accounts, so the token can no longer be used.
  if (accounts.length > 0) dropToken(role);
  return undefined;
}

/**
 * Signs in with a connected account, in the first way that works, and stores the token in the tab.
 * Throws a WalletRefusal or the service's error.
 */
async function signInAs(connected: Connected, role: Role): Promise<SignedIn> {
  const { wallet, account } = connected;
  const features = featuresOf(connected);
  const ways = signInWays(features, role);
  const lastWays = ways.filter((way) => way === keptWay(wallet.name, account.address));
  let failure: Error | undefined;
  for (const way of new Set([...lastWays, ...ways]))
    try {
      const signedIn = await signInBy(connected, role, way);
      if (way !== ways[0] || lastWays.length > 0) keepWay(wallet.name, account.address, way);
      return signedIn;
    } catch (error) {
      if (!isOtherWayOpen(error)) throw error;
      // If no way works, the error of the first way is thrown: the way that worked before, or
      // otherwise the best way. This error helps the user most.
      failure ??= error as Error;
    }
  const obstacle = words.obstacle[obstacleIn(features, role) ?? 'messages'];
  throw (
    failure ??
    new WalletRefusal('signIn', new WalletObstacle(fill(obstacle, { wallet: wallet.name })))
  );
}

interface SignedIn {
  account: WalletAccount;
  token: string;
}

async function signInBy(connected: Connected, role: Role, way: SignInWay): Promise<SignedIn> {
  const { wallet } = connected;
  const { address } = connected.account;
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
     * Sends a request. If the service refuses the token, or asks for a newer sign-in, signs in
     * again and repeats the request.
     */
    async fetch(url, init) {
      const used = token;
      const response = await fetch(url, init);
      if (response.status !== 401 || ending.signal.aborted) return response;
      const renew = async () => {
        ({ token } = await signInAs(connected, role));
      };
      const isTooOld = response.headers.get('www-authenticate')?.includes(STEP_UP) === true;
      if (token === used && !(await askRenewal(session, renew, isTooOld))) return response;
      const headers = { ...(init?.headers as object), authorization: `Bearer ${token}` };
      // The sign-in may outlast the first time limit, so the repeated request gets a new time
      // limit.
      return fetch(url, { ...init, headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    },
  });
  return { ...session, client };
}

/**
 * Asks the wallet to sign in again before a key is created or a secret is replaced, so that a
 * stranger at an open dashboard cannot do this. Returns a client with the new token.
 */
export async function signAgain(session: Session): Promise<Client> {
  const { token } = await signInAs(session, session.role);
  return createClient({ baseUrl: location.origin, token });
}

/**
 * The sessions in which a transaction may have been sent. The set has the signal `ended` of each
 * such session.
 */
const senders = new WeakSet<AbortSignal>();

/** Returns whether a transaction may have been sent in the session. */
export const hasSent = ({ ended }: Session): boolean => senders.has(ended);

/**
 * Asks the wallet to sign the transaction that `ask` returns. The service sends the transaction,
 * unless the wallet has sent it. If the service declines to sponsor a transaction that the wallet
 * has already signed, the wallet signs a second transaction and pays the network fee itself. Throws
 * a WalletRefusal, an AlteredTransaction or the service's error.
 */
export async function submit(
  session: Session,
  ask: (sponsored: boolean) => Promise<Offer>,
  step: (name: 'sign' | 'send') => void,
): Promise<Submitted> {
  const submitted = await submitOnce(session, await ask(asksSponsor(session)), step);
  if (submitted.status !== 'unsponsored') return submitted;
  return submitOnce(session, await ask(false), step);
}

async function submitOnce(
  session: Session,
  offer: Offer,
  step: (name: 'sign' | 'send') => void,
): Promise<Submitted> {
  if (offer.cancelled === true) return { status: 'confirmed', reason: null, signature: '' };
  step('sign');
  if (sendsItself(session)) senders.add(session.ended);
  const result = await signTransaction(session, offer);
  step('send');
  senders.add(session.ended);
  if ('sent' in result)
    return { status: 'sent', reason: null, signature: result.sent, doubt: result.doubt };
  return orUnanswered(
    offer.sponsored === true
      ? submitSponsored(session, offer.offerId, result.signed)
      : relay(session, offer.offerId, result.signed),
  );
}

/**
 * Passes a signed transaction to the service, which sends it. The wallet pays the network fee.
 * Waits until the network has confirmed the transaction.
 */
async function relay(session: Session, offerId: string, transaction: string): Promise<Submitted> {
  const path =
    session.role === 'subscriber' ? '/subscriber/transactions' : '/merchant/transactions';
  for (;;) {
    const body = { transaction, offerId };
    const sent = persistently(() => session.client.post(path, { body }));
    const { status, reason, signature } = await sent.catch((error: unknown) => {
      throw isCode(error, 'VALIDATION_ERROR') ? new AlteredTransaction(error) : error;
    });
    if (status === 'lapsed') noteLapse(session.wallet);
    if (status !== 'pending') return { status, reason, signature };
  }
}

/**
 * Passes a signed sponsored transaction to the service, and waits until the network has confirmed
 * the transaction.
 */
async function submitSponsored(
  { client, wallet }: Session,
  offerId: string,
  transaction: string,
): Promise<Submitted> {
  const path = { offerId };
  const first = await handingOver(wallet, () =>
    client.post('/subscriber/offers/{offerId}/transaction', { path, body: { transaction } }),
  );
  const read = (query: ProgressQuery) =>
    client.get('/subscriber/offers/{offerId}', { path, query });
  return submittedOf(wallet, await follow(first, read, ({ state }) => state === 'confirmed'));
}
