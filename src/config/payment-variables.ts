// Environment variables about payments and about sponsored transactions (docs/sponsoring.md).
import { integer } from './parse.ts';

const lamports = integer(0, Number.MAX_SAFE_INTEGER);

export const paymentVariables = {
  planMinimumAmount: {
    name: 'PLAN_MINIMUM_AMOUNT',
    about:
      'minimum amount of a plan per period in base units (6 decimals of USDC), because each payment costs the operator lamports; keepers do not collect less for a part of a period (after a trial or pause, before the end of a plan)',
    fallback: '100000',
    parse: integer(1, Number.MAX_SAFE_INTEGER),
  },
  pastDueDays: {
    name: 'PAST_DUE_DAYS',
    about: 'days past due after which a subscription expires',
    fallback: '7',
    parse: integer(1, 365),
  },
  sponsorPerDay: {
    name: 'SPONSOR_LAMPORTS_PER_DAY',
    about:
      'lamports (fees and rent) that keepers may spend in 24 hours on transactions of subscribers without SOL; 0: nothing is sponsored',
    fallback: '0',
    parse: lamports,
  },
  sponsorPerMerchant: {
    name: 'SPONSOR_MERCHANT_LAMPORTS_PER_DAY',
    about: 'the part of it that subscribers of one merchant may use',
    fallback: '1000000000',
    parse: lamports,
  },
  sponsorPerWallet: {
    name: 'SPONSOR_WALLET_LAMPORTS_PER_DAY',
    about: 'the part of it that one wallet may use',
    fallback: '10000000',
    parse: lamports,
  },
  sponsorPerAddress: {
    name: 'SPONSOR_ADDRESS_LAMPORTS_PER_DAY',
    about:
      'the part of it that wallets at one network address may use (IPv6: one /56; the addresses of one /48 together may use four times as much)',
    fallback: '30000000',
    parse: lamports,
  },
  sponsorLeaving: {
    name: 'SPONSOR_LEAVING_LAMPORTS_PER_DAY',
    about:
      'lamports in 24 hours, beside SPONSOR_LAMPORTS_PER_DAY, for cancelling, closing and revoking; one wallet may use a twentieth of them, one network address a fifth, one IPv6 /48 four fifths; keepers’ closings count until their rent is back',
    fallback: '20000000',
    parse: lamports,
  },
  sponsorMerchantOut: {
    name: 'SPONSOR_MERCHANT_LAMPORTS_OUT',
    about:
      "rent of one merchant's subscribers that may be out at a time: of a merchant that an operator approved, and the upper limit for all others",
    fallback: '10000000000',
    parse: lamports,
  },
  sponsorMerchantStart: {
    name: 'SPONSOR_MERCHANT_LAMPORTS_START',
    about:
      'the part of it for a merchant that no operator approved or vouches for ("billing merchants set-sponsoring"), beside what its platform fees are worth; as long as they are worth less than this, it shares a fifth of SPONSOR_LAMPORTS_PER_DAY with other new merchants',
    fallback: '50000000',
    parse: lamports,
  },
  lamportsPerUsdc: {
    name: 'LAMPORTS_PER_USDC',
    about:
      "worth of one USDC of a merchant's platform fees in lamports: so much more rent of its subscribers may be out",
    fallback: '5000000',
    parse: lamports,
  },
  sponsorMinimumAmount: {
    name: 'SPONSOR_MINIMUM_AMOUNT',
    about:
      'smallest first payment in base units (6 decimals of USDC) with which a subscription is sponsored',
    fallback: '1000000',
    parse: integer(1, Number.MAX_SAFE_INTEGER),
  },
  sponsorFloor: {
    name: 'SPONSOR_FLOOR_LAMPORTS',
    about:
      "balance of a keeper's key below which it sponsors nothing, so that checkouts never spend what renewals need; default: what the transactions of the last week cost, 5,000,000 at least",
    parse: lamports,
  },
};
