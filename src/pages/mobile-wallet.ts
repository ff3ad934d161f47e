// The Mobile Wallet Adapter, a file of its own, which only pages for Chrome on Android load
// (shared/phone-wallet.ts). scripts/mobile-wallet.ts leaves parts of it out.
export { LocalSolanaMobileWalletAdapterWallet } from '@solana-mobile/wallet-standard-mobile';
