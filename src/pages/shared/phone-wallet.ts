// The wallet apps of an Android phone, through the Mobile Wallet Adapter. Each request opens the
// wallet app, which connects to the page over a WebSocket on the phone. Only pages for Chrome on
// Android get the adapter (src/pages/mobile-wallet.ts).
import type {
  SolanaSignAndSendTransactionMethod,
  SolanaSignMessageMethod,
  SolanaSignTransactionMethod,
} from '@solana/wallet-standard-features';
import { getWallets } from '@wallet-standard/app';
import type { Wallet, WalletAccount } from '@wallet-standard/base';
import type { StandardConnectMethod, StandardEventsOnMethod } from '@wallet-standard/features';
import bs58 from 'bs58';
import { declined, WalletObstacle } from './errors.ts';
import { chain, walletAppsUrl } from './installation.ts';
import { words } from './language.ts';
import { askTap } from './tap-dialog.tsx';
import { withStorage } from './token-store.ts';
import type { SolanaWallet } from './wallets.ts';

/** A wallet app's permission for this page to use some of its accounts. */
interface Authorization {
  readonly accounts: readonly WalletAccount[];
}

/** The adapter as a wallet. In addition to the features of a browser wallet, it can disconnect. */
type Adapter = SolanaWallet & {
  readonly features: { readonly 'standard:disconnect': { disconnect(): Promise<void> } };
};

interface AdapterModule {
  readonly LocalSolanaMobileWalletAdapterWallet: new (config: {
    appIdentity: { uri: string; name: string };
    authorizationCache: typeof authorizationCache;
    chains: readonly string[];
    chainSelector: { select(): Promise<string> };
    onWalletNotFound: () => Promise<void>;
  }) => Adapter;
}

const PLACE = 'billing-wallet-app';
const SIGNATURE_BYTES = 64;
/** Error codes of the protocol: the user declined to connect (-1) or to sign (-3). */
const DECLINED: readonly unknown[] = [-1, -3];
/** Error codes of the adapter: no wallet app opened, or the app did not respond. */
const UNANSWERED: readonly unknown[] = [
  'ERROR_WALLET_NOT_FOUND',
  'ERROR_ASSOCIATION_CANCELLED',
  'ERROR_SESSION_TIMEOUT',
];

/** Keeps the authorization in the tab's sessionStorage, like the access token (token-store.ts). */
const authorizationCache = {
  async get(): Promise<Authorization | undefined> {
    const text = withStorage((storage) => storage.getItem(PLACE)) ?? undefined;
    if (text === undefined) return undefined;
    const stored = JSON.parse(text) as Authorization;
    // JSON cannot hold bytes, so the public key is decoded from the address.
    const accounts = stored.accounts.map((one) => ({
      ...one,
      publicKey: bs58.decode(one.address),
    }));
    return { ...stored, accounts };
  },
  async set(authorization: Authorization): Promise<void> {
    withStorage((storage) => storage.setItem(PLACE, JSON.stringify(authorization)));
  },
  async clear(): Promise<void> {
    withStorage((storage) => storage.removeItem(PLACE));
  },
};

let phoneWallet: Wallet | undefined;
/** Whether the user has tapped since the page opened a wallet app. */
let isTapped = false;

export const isPhoneWallet = (wallet: object): boolean => wallet === phoneWallet;

/** Registers the phone's wallet apps as one wallet. Does nothing if the page has no adapter. */
export async function addPhoneWallet(): Promise<void> {
  if (walletAppsUrl === '') return;
  // If the adapter cannot be loaded, the page still has its links to wallet apps.
  const loaded = (import(walletAppsUrl) as Promise<AdapterModule>).catch(() => undefined);
  const adapters = await loaded;
  if (adapters === undefined) return;
  document.addEventListener('click', () => (isTapped = true), true);
  const adapter = new adapters.LocalSolanaMobileWalletAdapterWallet({
    appIdentity: { uri: location.origin, name: location.host },
    authorizationCache,
    chains: [chain],
    chainSelector: { select: async () => chain },
    onWalletNotFound: async () => undefined,
  });
  phoneWallet = walletOf(adapter);
  getWallets().register(phoneWallet);
}

/**
 * Returns the state of Chrome's permission to connect to apps on the device. Returns `granted` in
 * browsers that do not have this permission.
 */
async function loopbackState(): Promise<PermissionState> {
  const name = 'loopback-network' as PermissionName;
  return navigator.permissions.query({ name }).then(
    ({ state }) => state,
    () => 'granted',
  );
}

/**
 * Waits until a request may open the wallet app. If Chrome needs a permission or a tap, a dialog
 * asks the user for a tap. Throws an Error when the user closes this dialog or the browser forbids
 * the connection.
 */
async function untilReady(): Promise<void> {
  if ((await loopbackState()) === 'prompt') {
    await askTap('allow');
    // This request only makes Chrome ask for the permission. Its response does not matter.
    await fetch('http://localhost', { mode: 'no-cors' }).catch(() => undefined);
  }
  if ((await loopbackState()) !== 'granted') throw new WalletObstacle(words.phone.blocked);
  if (!isTapped || !navigator.userActivation.isActive) await askTap('open');
  isTapped = false;
}

/** Converts an error of the adapter to the error that a browser wallet would throw. */
function describe(error: unknown): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as { code?: unknown };
    if (DECLINED.includes(code)) return declined(error);
    if (UNANSWERED.includes(code)) return new WalletObstacle(words.phone.unanswered);
  }
  return error;
}

async function ask<T>(request: () => Promise<T> | undefined): Promise<T> {
  await untilReady();
  try {
    const answer = await request();
    if (answer === undefined) throw new Error(words.error.noSignature);
    return answer;
  } catch (error) {
    throw describe(error);
  }
}

/**
 * Returns the adapter's features for transactions and messages. `solana:signIn` is left out,
 * because the adapter answers a sign-in from its cache without a signature. The page prefers the
 * feature that is listed first, so `signTransaction` is listed before `signAndSendTransaction`.
 */
function signingOf({ features }: Adapter) {
  const {
    'solana:signMessage': messages,
    'solana:signTransaction': signing,
    'solana:signAndSendTransaction': sending,
  } = features;
  const signMessage: SolanaSignMessageMethod = async (...inputs) => {
    const answers = await ask(() => messages?.signMessage(...inputs));
    return answers.map(({ signature, signedMessage }, index) => {
      // `signedMessage` is the message with the signature after it, or only the signature. If it is
      // only the signature, the message is taken from the input.
      const signed = signedMessage.slice(0, -SIGNATURE_BYTES);
      const message = inputs[index]?.message ?? signed;
      return { signature, signedMessage: signed.length === 0 ? message : signed };
    });
  };
  const signTransaction: SolanaSignTransactionMethod = (...inputs) =>
    ask(() => signing?.signTransaction(...inputs));
  const signAndSendTransaction: SolanaSignAndSendTransactionMethod = (...inputs) =>
    ask(() => sending?.signAndSendTransaction(...inputs));
  return {
    'solana:signMessage': { version: '1.1.0', signMessage },
    ...(signing !== undefined && { 'solana:signTransaction': { ...signing, signTransaction } }),
    ...(sending !== undefined && {
      'solana:signAndSendTransaction': { ...sending, signAndSendTransaction },
    }),
  } as const;
}

/** Returns the adapter's accounts. Each account gets the features of the wallet app. */
function accountsOf(adapter: Adapter): WalletAccount[] {
  const features = Object.keys(signingOf(adapter)) as `solana:${string}`[];
  return adapter.accounts.map((account) => ({ ...account, features }));
}

function walletOf(adapter: Adapter): Wallet {
  const connect: StandardConnectMethod = async (input) => {
    const { 'standard:connect': inner, 'standard:disconnect': outer } = adapter.features;
    if (input?.silent === true) await inner?.connect(input);
    else {
      // Disconnecting drops the permission that the wallet app gave before. The user may therefore
      // choose another account now.
      await outer.disconnect();
      await ask(() => inner?.connect());
    }
    return { accounts: accountsOf(adapter) };
  };
  const on: StandardEventsOnMethod = (event, listener) =>
    adapter.features['standard:events']?.on(event, ({ accounts }) =>
      listener(accounts === undefined ? {} : { accounts: accountsOf(adapter) }),
    ) ?? (() => undefined);
  return {
    version: '1.0.0',
    get name() {
      return words.phone.wallet;
    },
    icon: adapter.icon,
    chains: adapter.chains,
    get accounts() {
      return accountsOf(adapter);
    },
    get features() {
      return {
        'standard:connect': { version: '1.0.0', connect },
        'standard:events': { version: '1.0.0', on },
        ...signingOf(adapter),
      };
    },
  };
}
