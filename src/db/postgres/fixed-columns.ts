// Columns that daemons must not update after the insert: identity, terms and amounts. roles.ts
// grants updates without these columns.

export const planTerms = [
  'id',
  'app_id',
  'plan_pda',
  'chain_plan_id',
  'owner',
  'mint',
  'treasury',
  'puller',
  'amount',
  'period_hours',
];
export const subscriptionTerms = [
  'id',
  'app_id',
  'plan_id',
  'subscription_pda',
  'subscriber_wallet',
  'amount',
  'period_hours',
  'charged_from',
];
export const amounts = ['amount_gross', 'platform_fee', 'amount_net'];

/** Columns of `installation` that only an operator's commands may write. */
export const installationTerms = [
  'single',
  'cluster',
  'mint',
  'program_id',
  'keepers',
  'treasuries',
  'fee_bps',
  'window_seconds',
  'updated_at',
  'history_accepted_until',
];

/** Every column of payments except amount_refunded, the only column that may be updated. */
export const notRefunded = [
  'id',
  'app_id',
  'plan_id',
  'subscription_id',
  'subscription_pda',
  'subscriber_wallet',
  'status',
  'source',
  'period_start',
  'period_end',
  'further',
  'amount_gross',
  'platform_fee',
  'fee_owed',
  'amount_net',
  'tx_signature',
  'failure_reason',
  'attempt',
  'occurred_at',
  'created_at',
];

export const refundTerms = [
  'id',
  'app_id',
  'payment_id',
  'subscription_id',
  'amount',
  'reference',
  'blockhash',
  'last_valid_block_height',
  'blockhash_slot',
];

/**
 * Every column of an offer except message, which is cleared later, and registered_at, which is set
 * when the offer is used.
 */
export const offerTerms = [
  'id',
  'wallet',
  'blockhash',
  'last_valid_block_height',
  'purpose',
  'plan_id',
  'subscription_pda',
  'checkout_session_id',
  'resumes',
  'created_at',
];
export const sessionTerms = [
  'id',
  'app_id',
  'plan_id',
  'success_url',
  'cancel_url',
  'for_wallet',
  'allow_second',
  'expires_at',
];

/** Columns of a sponsored offer that are set when the wallet's signed transaction is stored. */
export const signedColumns = ['signed', 'signed_at'];
/** All other columns of a sponsored offer. */
export const sponsoredOfferTerms = [
  'id',
  'purpose',
  'wallet',
  'sponsor',
  'plan_id',
  'subscription_pda',
  'checkout_session_id',
  'address',
  'origin',
  'secret_hash',
  'message',
  'blockhash',
  'last_valid_block_height',
  'blockhash_slot',
  'compute_units',
  'unit_price',
  'loaded_data_bytes',
  'withdraws',
  'created_at',
];
/** Columns of a sponsorship that never change after the insert. */
export const sponsorshipTerms = [
  'offer_id',
  'purpose',
  'wallet',
  'sponsor',
  'merchant_id',
  'plan_id',
  'subscription_pda',
  'checkout_session_id',
  'transaction_id',
  'reserved',
  'created_at',
];
