// A wallet's session with the API: `billing wallet` signs in, subscribes, and sends signed
// transactions through the API (POST .../transactions). The API is not trusted. signing-checks.ts
// compares everything that the API wants signed with what the user asked for.
import { setTimeout as pause } from 'node:timers/promises';
import bs58 from 'bs58';
import type { Keypair } from '../../chain/keypair.ts';
import type { Client } from '../../client/client.ts';
import { OperatorError } from '../../errors.ts';
import { formatUsdc } from '../../format.ts';
import { parseId } from '../arguments.ts';
import { apiUrlOf, connect, explained } from '../session.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { note } from '../terminal/print.ts';
import { safeText } from '../terminal/safe-text.ts';
import type { AskedSubscription, Role } from './signing-checks.ts';
import type { NetworkSettings } from './wallet-chain.ts';

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

/**
 * Signs in with the wallet's signature and returns the token. Throws an OperatorError if the API's
 * text is not a sign-in to this API with this role.
 */
async function signIn(client: Client, url: string, wallet: Keypair, role: Role): Promise<string> {
  const { signInFault } = await import('./signing-checks.ts');
  const nonceResponse = await client.post('/auth/nonce', {
    body: { wallet: wallet.address, role },
  });
  const [nonce, message] = [textIn(nonceResponse, 'nonce'), textIn(nonceResponse, 'message')];
  note(`Signing in to ${url} as a ${role}.`);
  const request = { wallet: wallet.address, role, apiUrl: url, nonce, now: new Date() };
  const fault = signInFault(message, request);
  if (fault !== undefined) throw notSignedIn(url, fault);
  const signature = bs58.encode(wallet.sign(Buffer.from(message)));
  const body = { wallet: wallet.address, nonce, signature };
  return textIn(await client.post('/auth/verify', { body }), 'token');
}

const notSignedIn = (url: string, fault: string) =>
  new OperatorError(
    `The sign-in text of ${url} is not signed: ${safeText(fault)}. If the service has another name (PUBLIC_URL), use that one as --api-url.`,
  );

/**
 * Reads a text field of a response. Throws an OperatorError for another type: such a value could
 * pass a check as one text and be signed as another.
 */
function textIn<N extends string>(data: Record<N, string>, name: N): string {
  const value: unknown = data[name];
  if (typeof value === 'string') return value;
  throw new OperatorError(`The response has no "${name}": is this the billing API?`);
}

/** Signs in and calls `work` with a client that has the wallet's token. */
function asWallet<T>(
  { apiUrl, wallet, as }: { apiUrl: string; wallet: Keypair; as: Role },
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const url = apiUrlOf(apiUrl);
  const signed = async () => work(connect(url, await signIn(connect(url), url, wallet, as)));
  return explained(url, signed());
}

/**
 * Sends a signed transaction through the API. Repeats the request while the response is `pending`.
 */
export function relayTransaction(
  request: { apiUrl: string; wallet: Keypair; as: Role; transaction: string },
  signal: AbortSignal,
): Promise<Relayed> {
  return asWallet(request, (client) => relay(client, request, signal));
}

async function relay(
  client: Client,
  { as, transaction, offerId }: { as: Role; transaction: string; offerId?: string },
  signal: AbortSignal,
): Promise<Relayed> {
  const body = { transaction, ...(offerId !== undefined && { offerId }) };
  for (;;) {
    const relayed = await client.post(`/${as}/transactions`, { body, signal });
    if (relayed.status !== 'pending') return relayed;
    await pause(200, undefined, { signal });
  }
}

interface Subscribing {
  apiUrl: string;
  wallet: Keypair;
  planId: string;
  session?: string | undefined;
  /**
   * Maximum price per period in base units (--amount). If undefined, the user confirms the price on
   * the terminal.
   */
  most?: bigint | undefined;
  /**
   * The subscription account that the session may cancel. If undefined, the user confirms the
   * account that the transaction cancels.
   */
  replaces?: string | undefined;
  network: NetworkSettings;
}

/**
 * Subscribes the wallet to a plan: gets the transaction from the API, shows and checks it, asks on
 * the terminal for what no option states, and signs it. The API then sends the transaction and
 * registers the subscription. Throws an OperatorError if the transaction does not belong to this
 * plan, or if the user does not confirm it.
 */
export function subscribeTo(
  { apiUrl, wallet, planId, session, most, replaces, network }: Subscribing,
  signal: AbortSignal,
): Promise<Relayed> {
  const id = parseId(planId);
  const body = session === undefined ? undefined : { checkoutSessionId: parseId(session) };
  return asWallet({ apiUrl, wallet, as: 'subscriber' }, async (client) => {
    const plan = await readPlan(client, id, signal);
    if (most !== undefined && plan.amount > most)
      throw new OperatorError(
        `The plan costs ${formatUsdc(plan.amount)} USDC a period, more than --amount ${formatUsdc(most)}.`,
      );
    const data = await client.post('/subscriber/plans/{planId}/subscribe', {
      path: { planId: id },
      ...(body !== undefined && { body }),
      signal,
    });
    const { readingOf, signedBy } = await import('./wallet-chain.ts');
    const reading = readingOf(wallet.address, network);
    const request = { ...reading, plan, replaces };
    const asks = { price: most === undefined, replaced: session !== undefined && canAsk(), signal };
    const transaction = await signedBy(wallet, textIn(data, 'transaction'), reading, (message) =>
      unwanted(message, request, asks),
    );
    const relayed = await relay(
      client,
      { as: 'subscriber', transaction, offerId: textIn(data, 'offerId') },
      signal,
    );
    if (relayed.status === 'confirmed' && !relayed.subscription)
      throw new OperatorError(
        `The transaction ${relayed.signature} is confirmed, and the subscription is not registered yet: GET /subscriber/subscriptions shows it shortly.`,
      );
    return relayed;
  });
}

/**
 * Compares a transaction with the subscription that the user asked for. If `asks` says so and no
 * option states them, asks on the terminal about the price and about a cancelled subscription.
 */
async function unwanted(
  message: Buffer,
  request: AskedSubscription,
  asks: { price: boolean; replaced: boolean; signal: AbortSignal },
): Promise<string | undefined> {
  const { cancelledIn, subscribeFault } = await import('./signing-checks.ts');
  const unnamed =
    asks.replaced && !request.replaces ? cancelledIn(message, request.programId) : undefined;
  const replaces = request.replaces ?? unnamed;
  const fault = subscribeFault(message, { ...request, replaces });
  if (fault !== undefined || !(asks.price || unnamed !== undefined)) return fault;
  const isConfirmed = await confirm('Sign this transaction?', asks.signal);
  return isConfirmed ? undefined : 'it was not confirmed';
}

/** Reads the address and the terms of a plan, and shows its name. */
async function readPlan(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<AskedSubscription['plan']> {
  const { isAddress } = await import('../../chain/program/addresses.ts');
  const data = await client.get('/subscriber/plans/{planId}', { path: { planId: id }, signal });
  const [address, mint] = [textIn(data, 'planPda'), textIn(data, 'mint')];
  const [amount, { periodHours }] = [textIn(data, 'amount'), data];
  if (
    data.id !== id ||
    !isAddress(address) ||
    !isAddress(mint) ||
    !/^\d{1,19}$/.test(amount) ||
    !/^\d{1,9}$/.test(String(periodHours))
  )
    throw new OperatorError(
      `The response does not describe the plan ${id}: is this the billing API?`,
    );
  note(`Subscribing to the plan "${safeText(textIn(data, 'name'))}" (${id}).`);
  return { address, mint, amount: BigInt(amount), periodHours: BigInt(String(periodHours)) };
}
