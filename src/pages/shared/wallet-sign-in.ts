// Selects the feature with which a wallet signs in, or explains why the wallet cannot sign in.
import type { WalletAccount } from '@wallet-standard/base';
import { fill } from '../../words/fill.ts';
import { isCode, WalletObstacle, WalletRefusal } from './errors.ts';
import { chain } from './installation.ts';
import { words } from './language.ts';
import { shortAddress } from './text.ts';
import type { Role } from './token-store.ts';
import {
  type Connected,
  fromBase64,
  type SolanaWallet,
  toBase58,
  toBase64,
  unlock,
} from './wallets.ts';

/**
 * The ways to sign in, best first. With `transaction` the wallet signs a transaction that is never
 * sent.
 */
export type SignInWay = 'signIn' | 'signMessage' | 'signOffchainMessage' | 'transaction';

/** The service's sign-in text. `transaction` is set when the wallet signs in with a transaction. */
export interface SignInRequest {
  message: string;
  transaction?: string;
}

/**
 * The account and its signature (Base58). If the wallet signed other bytes than the sign-in text,
 * `signedMessage` has those bytes (Base64).
 */
export interface SignedIn {
  account: WalletAccount;
  signature: string;
  signedMessage?: string;
}

/** The wallet feature for each way to sign in, best way first. */
const FEATURES: readonly (readonly [SignInWay, feature: string])[] = [
  ['signIn', 'solana:signIn'],
  ['signMessage', 'solana:signMessage'],
  ['signOffchainMessage', 'solana:signOffchainMessage'],
  ['transaction', 'solana:signTransaction'],
];

/**
 * Returns the ways in which a wallet with these features may sign in for the role, best first. A
 * listed way may still fail: a wallet with a hardware device also lists features that the device
 * lacks.
 */
export function signInWays(features: readonly string[], role: Role): SignInWay[] {
  return (
    FEATURES.filter(([, feature]) => features.includes(feature))
      .map(([way]) => way)
      // A merchant cannot sign in by signing a transaction.
      .filter((way) => role === 'subscriber' || way !== 'transaction')
  );
}

/**
 * Returns whether another way to sign in may work after this error. Returns false if the user
 * refused, because another way would ask the user again.
 */
export function isOtherWayOpen(error: unknown): boolean {
  if (error instanceof WalletRefusal)
    return !error.byPerson && !(error.cause instanceof WalletObstacle);
  return isCode(error, 'UNAUTHORIZED') || isCode(error, 'VALIDATION_ERROR');
}

/** The reason why a page cannot use a wallet, as the key of the text that explains the reason. */
export type Obstacle = keyof typeof words.obstacle;

/** Returns why the page cannot use the wallet, or undefined if it can. */
export function obstacleOf(wallet: SolanaWallet, role: Role): Obstacle | undefined {
  return obstacleIn(Object.keys(wallet.features), role);
}

/** Returns why a page cannot use a wallet with these features, or undefined if it can. */
export function obstacleIn(features: readonly string[], role: Role): Obstacle | undefined {
  if (!features.includes('standard:connect')) return 'connect';
  const signs = features.includes('solana:signTransaction');
  if (!signs && !features.includes('solana:signAndSendTransaction')) return 'transactions';
  if (signInWays(features, role).length > 0) return undefined;
  return signs ? 'merchant' : 'messages';
}

/** Returns the fields of a Sign-In With Solana text that the service issued. */
function fieldsOf(message: string) {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(message)?.[1] ?? '';
  const [first = '', address = '', , statement = ''] = message.split('\n');
  return {
    domain: first.split(' ', 1)[0] ?? '',
    address,
    statement,
    uri: field('URI'),
    version: field('Version'),
    chainId: field('Chain ID'),
    nonce: field('Nonce'),
    issuedAt: field('Issued At'),
    expirationTime: field('Expiration Time'),
  };
}

interface Signed {
  account: WalletAccount;
  bytes: Uint8Array;
  signature: Uint8Array;
}

/**
 * Byte offsets in a transaction with one signer. The transaction consists of the number of
 * signatures (1 byte), the signature (64 bytes) and the message.
 */
const SIGNATURE_PLACE = 1;
const MESSAGE_PLACE = 65;

async function sign(
  { wallet: { features }, account }: Connected,
  way: SignInWay,
  { message, transaction = '' }: SignInRequest,
): Promise<Signed | undefined> {
  if (way === 'signIn') {
    const [output] = (await features['solana:signIn']?.signIn(fieldsOf(message))) ?? [];
    return output && { ...output, bytes: output.signedMessage };
  }
  if (way === 'signMessage') {
    const bytes = new TextEncoder().encode(message);
    const input = { account, message: bytes };
    const [output] = (await features['solana:signMessage']?.signMessage(input)) ?? [];
    return output && { account, bytes: output.signedMessage, signature: output.signature };
  }
  if (way === 'signOffchainMessage') {
    const input = {
      account,
      message,
      messageVersion: 1,
      requiredSigners: [account.publicKey],
    } as const;
    const feature = features['solana:signOffchainMessage'];
    const [output] = (await feature?.signOffchainMessage(input)) ?? [];
    return output && { account, bytes: output.signedOffchainMessage, signature: output.signature };
  }
  const input = { account, chain, transaction: fromBase64(transaction) };
  const [output] = (await features['solana:signTransaction']?.signTransaction(input)) ?? [];
  return (
    output && {
      account,
      bytes: output.signedTransaction.slice(MESSAGE_PLACE),
      signature: output.signedTransaction.slice(SIGNATURE_PLACE, MESSAGE_PLACE),
    }
  );
}

/**
 * Asks the wallet to sign in with the connected account. Throws a WalletRefusal, also if the wallet
 * signed with another account.
 */
export async function signInWith(
  connected: Connected,
  way: SignInWay,
  asked: SignInRequest,
): Promise<SignedIn> {
  try {
    await unlock(connected);
    const signed = await sign(connected, way, asked);
    if (signed === undefined) throw new WalletObstacle(words.error.noSignature);
    const { account, bytes, signature } = signed;
    if (account.address !== connected.account.address)
      throw new WalletObstacle(
        fill(words.error.otherAccount, {
          signed: shortAddress(account.address),
          shared: shortAddress(connected.account.address),
        }),
      );
    const same = toBase64(bytes) === toBase64(new TextEncoder().encode(asked.message));
    return {
      account,
      signature: toBase58(signature),
      ...(!same && { signedMessage: toBase64(bytes) }),
    };
  } catch (error) {
    throw new WalletRefusal('signIn', error);
  }
}
