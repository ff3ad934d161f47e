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
import { words } from './language.ts';

/**
 * A feature of wallet-standard-features 1.5. This project still uses an older version. The wallet
 * puts the text into a version 1 envelope and signs the envelope.
 */
interface SignOffchainMessageFeature {
  readonly 'solana:signOffchainMessage': {
    signOffchainMessage(
      ...inputs: readonly {
        account: WalletAccount;
        message: string;
        messageVersion: 1;
        requiredSigners: readonly WalletAccount['publicKey'][];
      }[]
    ): Promise<
      readonly {
        signature: Uint8Array;
        signedOffchainMessage: Uint8Array;
      }[]
    >;
  };
}

export type SolanaWallet = Omit<Wallet, 'features'> & {
  readonly features: Partial<
    StandardConnectFeature &
      StandardEventsFeature &
      SolanaSignInFeature &
      SolanaSignMessageFeature &
      SignOffchainMessageFeature &
      SolanaSignTransactionFeature &
      SolanaSignAndSendTransactionFeature
  >;
};

/** A wallet and the account that the page may use. */
export interface Connected {
  readonly wallet: SolanaWallet;
  readonly account: WalletAccount;
}

/**
 * Returns the wallet features that the page can use with the account. An account lists the features
 * that it supports. An account that the wallet only watches lists no features. The features for
 * connecting and for `solana:signIn` need no support by the account.
 */
export function featuresOf({ wallet, account }: Connected): readonly string[] {
  return Object.keys(wallet.features).filter(
    (name) =>
      name.startsWith('standard:') ||
      name === 'solana:signIn' ||
      (account.features as readonly string[]).includes(name),
  );
}

/** Whether the account can sign transactions. */
const signs = (connected: Connected): boolean =>
  featuresOf(connected).some((name) =>
    ['solana:signTransaction', 'solana:signAndSendTransaction'].includes(name),
  );

const registry = getWallets();
let known = solanaWallets();

function solanaWallets(): readonly SolanaWallet[] {
  return registry.get().filter(({ chains }) => chains.some((one) => one.startsWith('solana:')));
}

/** Returns the browser's Solana wallets. A wallet may register after the page has loaded. */
export function useWallets(): readonly SolanaWallet[] {
  return useSyncExternalStore(
    (changed) => {
      const refresh = () => {
        known = solanaWallets();
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
 * Asks the wallet for its accounts. Returns an account that can sign transactions, and prefers an
 * account that supports this network. Throws a WalletRefusal when the user refuses, the wallet
 * fails or no account can sign.
 */
export async function connect(wallet: SolanaWallet): Promise<Connected> {
  try {
    const { accounts = [] } = (await wallet.features['standard:connect']?.connect()) ?? {};
    if (accounts.length === 0) throw new Error(words.error.noAccount);
    const signing = accounts.filter((account) => signs({ wallet, account }));
    const account = signing.find(knowsNetwork) ?? signing[0];
    if (account === undefined) throw new Error(words.error.watched);
    return { wallet, account };
  } catch (error) {
    throw new WalletRefusal('connect', error);
  }
}

/**
 * Returns the accounts that the wallet shares with the page without asking the user. Returns an
 * empty list when the wallet would have to ask.
 */
export async function sharedAccounts({
  features,
}: SolanaWallet): Promise<readonly WalletAccount[]> {
  try {
    return (await features['standard:connect']?.connect({ silent: true }))?.accounts ?? [];
  } catch {
    return [];
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

/** Wallets that were too slow: their signed transaction lapsed before the service could send it. */
const lapsed = new WeakSet<SolanaWallet>();

/**
 * Records that a transaction of the wallet lapsed. The wallet then sends its next transaction
 * itself.
 */
export function noteLapse(wallet: SolanaWallet): void {
  lapsed.add(wallet);
}

/**
 * Returns whether the wallet should send the transactions of this account itself: (1) the account
 * cannot sign without sending, (2) the wallet lists sending before signing, or (3) the wallet was
 * too slow before. A wallet that sends can use a newer blockhash.
 */
function sendsItself(connected: Connected): boolean {
  const names = featuresOf(connected);
  const send = names.indexOf('solana:signAndSendTransaction');
  const sign = names.indexOf('solana:signTransaction');
  return send !== -1 && (sign === -1 || send < sign || lapsed.has(connected.wallet));
}

/** A transaction that the service offers to the wallet. */
export interface Offer {
  readonly transaction: string;
  readonly offerId: string;
  readonly minContextSlot: number;
}

/**
 * Asks the wallet to sign a transaction, or to sign and send it. Throws a WalletRefusal.
 */
export async function signTransaction(
  connected: Connected,
  { transaction, minContextSlot }: Offer,
): Promise<{ signed: string } | { sent: string }> {
  const { account } = connected;
  const { features } = connected.wallet;
  const options = { preflightCommitment: 'confirmed', minContextSlot } as const;
  const input = { account, chain, transaction: fromBase64(transaction), options };
  try {
    if (!sendsItself(connected)) {
      const [signed] = (await features['solana:signTransaction']?.signTransaction(input)) ?? [];
      if (signed === undefined) throw new Error(words.error.noTransaction);
      return { signed: toBase64(signed.signedTransaction) };
    }
    const [sent] =
      (await features['solana:signAndSendTransaction']?.signAndSendTransaction(input)) ?? [];
    if (sent === undefined) throw new Error(words.error.noSignature);
    return { sent: toBase58(sent.signature) };
  } catch (error) {
    throw new WalletRefusal('sign', error);
  }
}

/** Encodes bytes as Base58. */
export const toBase58 = (bytes: Uint8Array): string => bs58.encode(bytes);

/** Decodes Base64. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Encodes bytes as Base64. */
export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
