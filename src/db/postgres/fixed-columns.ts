// The columns that hold the identity, the terms and the amounts of each row. Daemons write these
// columns only when they insert a row. roles.ts grants no update of these columns.

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
  'replaces',
  'starts_at',
];
/** Columns of subscription_work that the API does not write. */
export const workOfKeepers = [
  'subscription_id',
  'app_id',
  'paid_through',
  'observed_slot',
  'setbacks',
  'failed_packs',
  'failed_lookups',
];
/** Columns of an invoice that no update changes. */
export const invoiceTerms = [
  ...['id', 'app_id', 'offer_id', 'subscription_pda', 'reason', 'lines'],
  ...['plan_amount', 'usage_amount', 'items_amount', 'discount_amount', 'adjustment_amount'],
  ...['tax_amount', 'discount_id', 'total', 'credit_applied', 'amount_due', 'due_at'],
  ...['drawn_up_at', 'created_at'],
];
/** Columns of an invoice that only keepers update: its settlement and its tries. */
export const invoiceSettlement = [
  ...['customer_id', 'subscription_id', 'period_start', 'period_end', 'covers_from', 'covers_to'],
  ...['failed_tries', 'next_try_at'],
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

/** Every column of payments except amount_refunded, which changes after the insert. */
export const notRefunded = [
  'id',
  'invoice_id',
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

/** Columns of a refund that a keeper writes when it records the transfer. */
export const transferColumns = ['tx_signature', 'occurred_at', 'recorded_at', 'excess'];

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
  'offer_id',
  'repeats',
];

/** Columns of an offer that no update changes. */
export const offerTerms = [
  'id',
  'wallet',
  'sponsor',
  'purpose',
  'plan_id',
  'subscription_pda',
  'checkout_session_id',
  'blockhash',
  'last_valid_block_height',
  'blockhash_slot',
  'resumes',
  'replaces',
  'change_when',
  'cancels',
  'credit_at',
  'trial_hours',
  'withdraws',
  'address',
  'origin',
  'secret_hash',
  'compute_units',
  'unit_price',
  'loaded_data_bytes',
  'created_at',
];
/**
 * Columns of an offer that are set when the service accepts the transaction that the wallet signed.
 */
export const signedColumns = [
  'signed',
  'signed_at',
  'signature',
  'signed_blockhash',
  'signed_last_valid_block_height',
  'signed_blockhash_slot',
  'reserved_height',
];
/** Every column of an unregistered subscription except look_at. */
export const unregisteredTerms = [
  'id',
  'app_id',
  'plan_id',
  'subscription_pda',
  'subscriber_wallet',
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
  'replaces',
  'change_when',
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
  'replaces',
  'credit_at',
  'transaction_id',
  'reserved',
  'merchant_is_new',
  'created_at',
];
