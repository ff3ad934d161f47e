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
import { askAccount } from './account-dialog.tsx';
import { WalletObstacle, WalletRefusal } from './errors.ts';
import { chain } from './installation.ts';
import { words } from './language.ts';

/**
 * A feature of wallet-standard-features 1.5, which is newer than the version in this project. The
 * wallet puts the text into the envelope of a Solana off-chain message (version 1), and signs the
 * envelope.
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
 * Returns the wallet features that the page can use with the account: (1) the features that the
 * account lists (a watch-only account lists none), (2) the features whose names begin with
 * `standard:`, (3) `solana:signIn`.
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
let wallets = solanaWallets();
// A wallet may register before any component listens, so `wallets` is updated from the start.
for (const event of ['register', 'unregister'] as const)
  registry.on(event, () => (wallets = solanaWallets()));

function solanaWallets(): readonly SolanaWallet[] {
  return registry.get().filter(({ chains }) => chains.some((one) => one.startsWith('solana:')));
}

/** Returns the browser's Solana wallets. A wallet may register after the page has loaded. */
export function useWallets(): readonly SolanaWallet[] {
  return useSyncExternalStore(
    (changed) => {
      const offs = [registry.on('register', changed), registry.on('unregister', changed)];
      return () => offs.forEach((off) => off());
    },
    () => wallets,
  );
}

/** Returns whether a wallet or an account supports this installation's network. */
export function knowsNetwork({ chains }: { chains: readonly string[] }): boolean {
  return chains.includes(chain);
}

/**
 * Asks the wallet for its accounts. Returns an account that can sign transactions, and prefers an
 * account that supports this network. If the wallet shares several such accounts, asks the user
 * which one to use. Throws a WalletRefusal when the user refuses, the wallet fails or no account
 * can sign.
 */
export async function connect(wallet: SolanaWallet): Promise<Connected> {
  try {
    const { accounts = [] } = (await wallet.features['standard:connect']?.connect()) ?? {};
    if (accounts.length === 0) throw new WalletObstacle(words.error.noAccount);
    const signing = accounts.filter((account) => signs({ wallet, account }));
    const usable = signing.filter(knowsNetwork);
    const account =
      usable.length > 1 ? await askAccount(wallet.name, usable) : (usable[0] ?? signing[0]);
    if (account === undefined) throw new WalletObstacle(words.error.watched);
    return { wallet, account };
  } catch (error) {
    throw new WalletRefusal('connect', error);
  }
}

/**
 * Asks the wallet for its accounts without a prompt to the user. Returns an empty list if the
 * wallet shares no account without a prompt.
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
 * Calls `switched` when the wallet no longer offers this account to the page, but offers other
 * accounts. A locked wallet offers no accounts, and then `switched` is not called. Returns a
 * function that stops the calls.
 */
export function onSwitch({ wallet, account }: Connected, switched: () => void): () => void {
  return (
    wallet.features['standard:events']?.on('change', ({ accounts }) => {
      if (accounts === undefined || accounts.length === 0) return;
      if (!accounts.some(({ address }) => address === account.address)) switched();
    }) ?? (() => undefined)
  );
}

/** Wallets that were too slow: their signed transaction lapsed before the service could send it. */
const lapsed = new WeakSet<SolanaWallet>();

/**
 * Records that a transaction of the wallet lapsed. If the wallet can send transactions, it sends
 * the next one itself.
 */
export function noteLapse(wallet: SolanaWallet): void {
  lapsed.add(wallet);
}

/**
 * Forgets that a transaction of the wallet lapsed, so that the wallet does not send the next one
 * itself. Used for a wallet that cannot send it, for example because it has no SOL.
 */
export function forgetLapse(wallet: SolanaWallet): void {
  lapsed.delete(wallet);
}

/**
 * Returns whether the wallet sends the account's transactions itself because the wallet was too
 * slow before.
 */
export const sendsAfterLapse = (connected: Connected): boolean =>
  lapsed.has(connected.wallet) && featuresOf(connected).includes('solana:signAndSendTransaction');

/**
 * Returns whether the wallet should send the transactions of this account itself. This requires the
 * feature for sending and one of three reasons: (1) the account cannot sign without sending, (2)
 * the wallet lists sending before signing, (3) the wallet was too slow before. When a slow wallet
 * sends a transaction itself, it can use a newer blockhash.
 */
export function sendsItself(connected: Connected): boolean {
  const names = featuresOf(connected);
  const send = names.indexOf('solana:signAndSendTransaction');
  const sign = names.indexOf('solana:signTransaction');
  return send !== -1 && (sign === -1 || send < sign || lapsed.has(connected.wallet));
}

/**
 * Wallets that must pay the network fee themselves, because they change or send the transactions
 * that they sign.
 */
const paying = new WeakSet<SolanaWallet>();

/** Records that the service cannot sponsor the wallet. */
export function notePays(wallet: SolanaWallet): void {
  paying.add(wallet);
}

/**
 * Returns whether the service may sponsor the wallet. False for a wallet that changes or sends the
 * transactions it signs. Also false for a wallet that was too slow before and can send transactions
 * itself.
 */
export const maySponsor = (connected: Connected): boolean =>
  !paying.has(connected.wallet) && !sendsAfterLapse(connected);

/**
 * Returns whether the account can sign a transaction without sending it. Sponsoring requires this.
 */
export const signsOnly = (connected: Connected): boolean =>
  featuresOf(connected).includes('solana:signTransaction');

/**
 * Returns whether the page asks the service to sponsor a transaction of this account: the wallet
 * may be sponsored, and the account can sign without sending.
 */
export const asksSponsor = (connected: Connected): boolean =>
  maySponsor(connected) && signsOnly(connected);

/** A transaction that the service offers to the wallet. */
export interface Offer {
  readonly transaction: string;
  readonly offerId: string;
  readonly minContextSlot: number;
  /** If true, the service pays for the transaction and sends it, so the wallet must not send it. */
  readonly sponsored?: boolean;
  /** If true, the service has already cancelled the subscription, so there is nothing to sign. */
  readonly cancelled?: boolean;
}

/** Asks a wallet that was locked or disconnected to share its accounts again. */
export async function unlock({
  wallet: { accounts, features },
  account,
}: Connected): Promise<void> {
  if (!accounts.some(({ address }) => address === account.address))
    await features['standard:connect']?.connect();
}

/**
 * Asks the wallet to sign a transaction, or to sign and send it. If the wallet fails but may have
 * sent the transaction, `doubt` is the wallet's error. Throws a WalletRefusal when nothing was
 * sent.
 */
export async function signTransaction(
  connected: Connected,
  { transaction, minContextSlot, sponsored = false }: Offer,
): Promise<{ signed: string } | { sent: string; doubt?: WalletRefusal }> {
  const { account } = connected;
  const { features } = connected.wallet;
  const options = { preflightCommitment: 'confirmed', minContextSlot } as const;
  const input = { account, chain, transaction: fromBase64(transaction), options };
  const isSending = !sponsored && sendsItself(connected);
  try {
    await unlock(connected);
    if (!isSending) {
      const [signed] = (await features['solana:signTransaction']?.signTransaction(input)) ?? [];
      if (signed === undefined) throw new WalletObstacle(words.error.noTransaction);
      return { signed: toBase64(signed.signedTransaction) };
    }
    const [sent] =
      (await features['solana:signAndSendTransaction']?.signAndSendTransaction(input)) ?? [];
    if (sent === undefined) throw new WalletObstacle(words.error.noSignature);
    return { sent: toBase58(sent.signature) };
  } catch (error) {
    const refusal = new WalletRefusal('sign', error);
    const isCertain = refusal.byPerson || error instanceof WalletObstacle;
    if (isSending && !refusal.byPerson) forgetLapse(connected.wallet);
    if (!isSending || isCertain) throw refusal;
    return { sent: '', doubt: refusal };
  }
}

export const toBase58 = (bytes: Uint8Array): string => bs58.encode(bytes);

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
