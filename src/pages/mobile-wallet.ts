// The Mobile Wallet Adapter. It is a separate file, which only pages for Chrome on Android load
// (shared/phone-wallet.ts). scripts/mobile-wallet.ts removes parts of it.
export { LocalSolanaMobileWalletAdapterWallet } from '@solana-mobile/wallet-standard-mobile';
