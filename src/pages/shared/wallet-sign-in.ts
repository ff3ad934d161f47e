// Signs a wallet in: selects the wallet's feature, or tells why the wallet cannot sign in.
import type { WalletAccount } from '@wallet-standard/base';
import { WalletRefusal } from './errors.ts';
import { chain } from './installation.ts';
import { fill, words } from './language.ts';
import type { Role } from './token-store.ts';
import { type Connected, fromBase64, type SolanaWallet, toBase58, toBase64 } from './wallets.ts';

/**
 * The ways to sign in, best first. With `transaction` the wallet signs a transaction that is never
 * sent.
 */
export type SignInWay = 'signIn' | 'signMessage' | 'signOffchainMessage' | 'transaction';

/** The service's sign-in text. `transaction` is set when the wallet signs in with a transaction. */
export interface Asked {
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

/**
 * Returns how a wallet with these features signs in for the role. Returns undefined when the wallet
 * cannot sign in.
 */
export function signInWay(features: readonly string[], role: Role): SignInWay | undefined {
  if (features.includes('solana:signIn')) return 'signIn';
  if (features.includes('solana:signMessage')) return 'signMessage';
  if (features.includes('solana:signOffchainMessage')) return 'signOffchainMessage';
  // A merchant cannot sign in by signing a transaction.
  return role === 'subscriber' && features.includes('solana:signTransaction')
    ? 'transaction'
    : undefined;
}

/** The reason why a page cannot use a wallet, as the key of the text that explains the reason. */
export type Obstacle = keyof typeof words.obstacle;

/**
 * Returns why the page cannot use the wallet. Returns undefined when the page can use the wallet.
 */
export function obstacleOf(wallet: SolanaWallet, role: Role): Obstacle | undefined {
  return obstacleIn(Object.keys(wallet.features), role);
}

/**
 * Returns why a page cannot use a wallet with these features. Returns undefined when the page can
 * use the wallet.
 */
export function obstacleIn(features: readonly string[], role: Role): Obstacle | undefined {
  if (!features.includes('standard:connect')) return 'connect';
  const signs = features.includes('solana:signTransaction');
  if (!signs && !features.includes('solana:signAndSendTransaction')) return 'transactions';
  if (signInWay(features, role) !== undefined) return undefined;
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
 * Byte offsets in a transaction with one signer: a count byte, the signature (64 bytes), the
 * message.
 */
const SIGNATURE_PLACE = 1;
const MESSAGE_PLACE = 65;

async function sign(
  { wallet: { features }, account }: Connected,
  way: SignInWay,
  { message, transaction = '' }: Asked,
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
 * Asks the wallet to sign in. Returns the account with which the wallet signed; the page then uses
 * this account. Throws a WalletRefusal. If the wallet signed with another account, the refusal
 * names both accounts.
 */
export async function signInWith(
  connected: Connected,
  way: SignInWay,
  asked: Asked,
): Promise<SignedIn> {
  try {
    const signed = await sign(connected, way, asked);
    if (signed === undefined) throw new Error(words.error.noSignature);
    const { account, bytes, signature } = signed;
    if (account.address !== connected.account.address)
      throw new Error(
        fill(words.error.otherAccount, {
          signed: account.address,
          shared: connected.account.address,
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
