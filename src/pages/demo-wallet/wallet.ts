// A wallet inside the page, for trying billing on a local chain. Its secret key is in the URL's
// fragment, which browsers do not send to a server.
import type {
  SolanaSignTransactionFeature,
  SolanaSignMessageFeature,
} from '@solana/wallet-standard-features';
import type { Wallet, WalletAccount } from '@wallet-standard/base';
import type { StandardConnectFeature } from '@wallet-standard/features';
import { registerWallet } from '@wallet-standard/wallet';
import bs58 from 'bs58';
import nacl from 'tweetnacl';
import { chain } from '../shared/installation.ts';

const ICON =
  'data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAzMiAzMiI+PHJlY3Qgd2lkdGg9IjMyIiBoZWlnaHQ9IjMyIiByeD0iOCIgZmlsbD0iI2I0NTMwOSIvPjx0ZXh0IHg9IjE2IiB5PSIyMiIgZm9udC1zaXplPSIxOCIgZm9udC1mYW1pbHk9InNhbnMtc2VyaWYiIGZpbGw9IiNmZmYiIHRleHQtYW5jaG9yPSJtaWRkbGUiPkQ8L3RleHQ+PC9zdmc+';

/**
 * Registers a demo wallet with this secret key (Base58 of 64 bytes). Does nothing when the key is
 * malformed.
 */
export function registerDemoWallet(secret: string): void {
  const key = bs58.decodeUnsafe(secret);
  if (key?.length !== 64) return;
  const publicKey = key.slice(32);
  const account: WalletAccount = {
    address: bs58.encode(publicKey),
    publicKey,
    chains: [chain],
    features: ['solana:signMessage', 'solana:signTransaction'],
    label: 'Demo',
  };
  const ask = (question: string) => {
    if (!confirm(question)) throw new Error('The request was rejected.');
  };
  const features: StandardConnectFeature & SolanaSignMessageFeature & SolanaSignTransactionFeature =
    {
      'standard:connect': { version: '1.0.0', connect: async () => ({ accounts: [account] }) },
      'solana:signMessage': {
        version: '1.1.0',
        signMessage: async (...inputs) =>
          inputs.map(({ message }) => {
            ask(`Demo wallet: sign this message?\n\n${new TextDecoder().decode(message)}`);
            return { signedMessage: message, signature: nacl.sign.detached(message, key) };
          }),
      },
      'solana:signTransaction': {
        version: '1.0.0',
        supportedTransactionVersions: ['legacy'],
        signTransaction: async (...inputs) =>
          inputs.map(({ transaction }) => {
            ask('Demo wallet: sign this transaction?');
            return { signedTransaction: signed(transaction, key) };
          }),
      },
    };
  const wallet: Wallet = {
    version: '1.0.0',
    name: 'Demo wallet',
    icon: ICON,
    chains: [chain],
    accounts: [account],
    features,
  };
  registerWallet(wallet);
}

/**
 * Returns the transaction with the wallet's signature. Signature n belongs to account n of the
 * message. The accounts follow a header of three bytes and the number of accounts (one byte).
 */
function signed(transaction: Uint8Array, key: Uint8Array): Uint8Array {
  const [signers = 1] = transaction;
  const message = transaction.slice(1 + 64 * signers);
  const owner = bs58.encode(key.slice(32));
  const accountAt = (index: number) => message.slice(4 + 32 * index, 36 + 32 * index);
  const places = Array.from({ length: signers }, (_, index) => index);
  const signerIndex = places.find((index) => bs58.encode(accountAt(index)) === owner) ?? 0;
  const signedTransaction = transaction.slice();
  signedTransaction.set(nacl.sign.detached(message, key), 1 + 64 * signerIndex);
  return signedTransaction;
}
