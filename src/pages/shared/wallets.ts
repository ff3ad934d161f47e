// The wallets of the browser, found through the Wallet Standard.
import type {
  SolanaSignAndSendTransactionFeature,
  SolanaSignInFeature,
  SolanaSignMessageFeature,
  SolanaSignTransactionFeature,
} from '@solana/wallet-standard-features';
import { getWallets } from '@wallet-standard/app';
import type { Wallet, WalletAccount } from '@wallet-standard/base';
import type { StandardConnectFeature, StandardEventsFeature } from '@wallet-standard/features';
import bs58 from 'bs58';
import { useSyncExternalStore } from 'react';
import { WalletRefusal } from './errors.ts';
import { chain } from './installation.ts';

export type SolanaWallet = Omit<Wallet, 'features'> & {
  readonly features: StandardConnectFeature &
    Partial<
      StandardEventsFeature &
        SolanaSignInFeature &
        SolanaSignMessageFeature &
        SolanaSignTransactionFeature &
        SolanaSignAndSendTransactionFeature
    >;
};

/** A wallet and the account that the page may use. */
export interface Connected {
  readonly wallet: SolanaWallet;
  readonly account: WalletAccount;
}

const registry = getWallets();
let known = usable();

function usable(): readonly SolanaWallet[] {
  return registry
    .get()
    .filter(
      ({ features }) =>
        'standard:connect' in features &&
        ('solana:signIn' in features || 'solana:signMessage' in features) &&
        ('solana:signTransaction' in features || 'solana:signAndSendTransaction' in features),
    ) as unknown as SolanaWallet[];
}

/**
 * Returns the browser's wallets that can sign in and sign transactions. A wallet may register after
 * the page has loaded.
 */
export function useWallets(): readonly SolanaWallet[] {
  return useSyncExternalStore(
    (changed) => {
      const refresh = () => {
        known = usable();
        changed();
      };
      const offs = [registry.on('register', refresh), registry.on('unregister', refresh)];
      return () => offs.forEach((off) => off());
    },
    () => known,
  );
}

/** Returns whether a wallet or an account supports this installation's network. */
export function knowsNetwork({ chains }: { chains: readonly string[] }): boolean {
  return chains.includes(chain);
}

/**
 * Asks the wallet for an account. Throws a WalletRefusal when the user refuses or the wallet fails.
 */
export async function connect(wallet: SolanaWallet): Promise<Connected> {
  try {
    const { accounts } = await wallet.features['standard:connect'].connect();
    const account = accounts.find(knowsNetwork) ?? accounts[0];
    if (account === undefined) throw new Error('It shared no account.');
    return { wallet, account };
  } catch (error) {
    throw new WalletRefusal('connect', error);
  }
}

/**
 * Calls `switched` when the wallet no longer offers this account to the page. Returns a function
 * that stops the calls.
 */
export function onSwitch({ wallet, account }: Connected, switched: () => void): () => void {
  return (
    wallet.features['standard:events']?.on('change', ({ accounts }) => {
      if (accounts !== undefined && !accounts.some(({ address }) => address === account.address))
        switched();
    }) ?? (() => undefined)
  );
}

/** Parses the fields of a Sign-In With Solana message that the service issued. */
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

/**
 * Asks the wallet to sign the service's sign-in message. `signedMessage` is set when the wallet
 * composed a different text from the same fields. Throws a WalletRefusal.
 */
export async function signText(
  { wallet: { features }, account }: Connected,
  message: string,
): Promise<{ signature: string; signedMessage?: string }> {
  const bytes = new TextEncoder().encode(message);
  try {
    const signIn = features['solana:signIn'];
    const [output] =
      signIn === undefined
        ? ((await features['solana:signMessage']?.signMessage({ account, message: bytes })) ?? [])
        : await signIn.signIn(fieldsOf(message));
    if (output === undefined) throw new Error('It returned no signature.');
    const same = toBase64(output.signedMessage) === toBase64(bytes);
    return {
      signature: toBase58(output.signature),
      ...(!same && { signedMessage: toBase64(output.signedMessage) }),
    };
  } catch (error) {
    throw new WalletRefusal('signIn', error);
  }
}

/**
 * Asks the wallet to sign a transaction (Base64). A wallet that can only sign and send sends the
 * transaction itself. Throws a WalletRefusal.
 */
export async function signTransaction(
  { wallet: { features }, account }: Connected,
  transaction: string,
): Promise<{ signed: string } | { sent: string }> {
  const input = { account, chain, transaction: fromBase64(transaction) };
  try {
    const [signed] = (await features['solana:signTransaction']?.signTransaction(input)) ?? [];
    if (signed !== undefined) return { signed: toBase64(signed.signedTransaction) };
    const [sent] =
      (await features['solana:signAndSendTransaction']?.signAndSendTransaction(input)) ?? [];
    if (sent === undefined) throw new Error('It returned no signature.');
    return { sent: toBase58(sent.signature) };
  } catch (error) {
    throw new WalletRefusal('sign', error);
  }
}

const toBase58 = (bytes: Uint8Array): string => bs58.encode(bytes);

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
