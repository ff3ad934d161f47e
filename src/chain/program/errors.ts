// Classifies the failure of a payment (docs/chain.md, "Errors at a pull"). A subscription becomes
// past due only when the subscriber certainly caused the failure. Therefore a doubtful failure is
// classified as `unknown`.
import { ASSOCIATED_TOKEN_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM } from './addresses.ts';
import type { TokenAccount } from './layouts.ts';
import { PROGRAM_ERRORS } from './program-errors.ts';

/** Indexes of the transfer instructions that belong to one payment. */
export interface PullLayout {
  readonly pulls: readonly number[];
}

/**
 * The reason why the subscriber cannot be charged. The API returns it as the payment's
 * `failureReason`.
 */
export type SubscriberReason =
  | 'insufficient_funds'
  | 'allowance_exhausted'
  | 'account_frozen'
  | 'account_closed'
  | 'account_owner_changed'
  | 'delegate_replaced'
  | 'authority_closed'
  | 'authority_replaced';

/** Reasons for a failed payment that have nothing to do with the subscriber. */
export const OURS_REASONS = [
  'keeper_out_of_sol',
  'not_a_puller',
  'destination_refused',
  'receiver_account_missing',
  'receiver_frozen',
  'wrong_program_or_mint',
  'malformed',
  'clock_behind',
  'version',
  'compute_budget',
  'blockhash_not_found',
  'rejected',
] as const;

export type OursReason = (typeof OURS_REASONS)[number];

export type PullFailure =
  | { readonly kind: 'subscriber'; readonly reason: SubscriberReason }
  /**
   * The program's error 400: the period is already paid, in full or in part. The caller does not
   * treat this error as a failure and reads the chain state again.
   */
  | { readonly kind: 'already_collected' }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'subscription_closed' }
  | { readonly kind: 'plan_ended' }
  | { readonly kind: 'plan_closed' }
  | { readonly kind: 'plan_changed' }
  /** The transaction with this signature is already on chain. The caller reads its status. */
  | { readonly kind: 'already_processed' }
  | { readonly kind: 'ours'; readonly reason: OursReason; readonly detail: string }
  | { readonly kind: 'unknown'; readonly detail: string };

/** Facts about a failed payment that the transaction error does not contain. */
export interface PullContext {
  readonly layout: PullLayout;
  readonly logs: readonly string[] | null;
  /** The gross amount of the attempt in base units. */
  readonly gross: bigint;
  /**
   * The subscriber's token account as read shortly after the failure. Null when the account does
   * not exist. Undefined when the account was not read.
   */
  readonly subscriberAccount: TokenAccount | null | undefined;
}

/**
 * The failure of an instruction as RPC reports it: a custom error code, or the name of a runtime
 * error.
 */
type InstructionFailure =
  | { readonly index: number; readonly code: number }
  | { readonly index: number; readonly name: string };

function instructionFailure(err: unknown): InstructionFailure | null {
  if (
    typeof err !== 'object' ||
    err === null ||
    !('InstructionError' in err) ||
    !Array.isArray(err.InstructionError)
  )
    return null;
  const [index, reason] = err.InstructionError as unknown[];
  if (typeof index !== 'number') return null;
  if (typeof reason === 'string') return { index, name: reason };
  if (typeof reason !== 'object' || reason === null) return null;
  if ('Custom' in reason && typeof reason.Custom === 'number')
    return { index, code: reason.Custom };
  return { index, name: Object.keys(reason)[0] ?? 'unnamed' };
}

/** Returns the index of the failed instruction, or null when the transaction failed as a whole. */
export function failedInstruction(err: unknown): number | null {
  return instructionFailure(err)?.index ?? null;
}

/**
 * Returns the id of the program that failed first. In the logs, the innermost program has the first
 * "failed" line, and the programs that called it have later "failed" lines.
 */
function failedProgram(logs: readonly string[] | null): string | undefined {
  for (const line of logs ?? []) {
    const match = /^Program (\w{32,44}) failed: /.exec(line);
    if (match !== null) return match[1];
  }
  return undefined;
}

/** Returns a short description of a transaction error, for logs and operators. */
export function describeTransactionError(err: unknown): string {
  const failure = instructionFailure(err);
  if (failure === null) return typeof err === 'string' ? err : JSON.stringify(err);
  if ('name' in failure) return `instruction ${failure.index}: ${failure.name}`;
  const name = PROGRAM_ERRORS.get(failure.code);
  return `instruction ${failure.index}: error ${failure.code}${name === undefined ? '' : ` (${name})`}`;
}

/**
 * Classifies the failure of a payment. `err` is the field `err` in a response of
 * getSignatureStatuses, getTransaction or simulateTransaction. Error codes from 100 up come from
 * the Subscriptions program. Lower codes come from a program that the Subscriptions program called;
 * the logs name it.
 */
export function classifyPullError(err: unknown, context: PullContext): PullFailure {
  const detail = describeTransactionError(err);
  const failure = instructionFailure(err);
  if (failure === null) return transactionFailure(err, detail);

  if (
    'name' in failure &&
    /^(ComputationalBudgetExceeded|ProgramFailedToComplete|MaxAccountsDataAllocationsExceeded)$/.test(
      failure.name,
    )
  ) {
    return { kind: 'ours', reason: 'compute_budget', detail };
  }
  if (!context.layout.pulls.includes(failure.index))
    return { kind: 'ours', reason: 'rejected', detail };
  if ('name' in failure) {
    if (failure.name === 'InvalidAccountOwner') return { kind: 'subscription_closed' };
    if (failure.name === 'InsufficientFunds') return { kind: 'unknown', detail };
    return { kind: 'ours', reason: 'malformed', detail };
  }
  if (failure.code >= 100) return programFailure(failure.code, context, detail);

  const failed = failedProgram(context.logs);
  if (failed === undefined || failed === TOKEN_PROGRAM)
    return tokenFailure(failure.code, context, detail);
  if (failed === SYSTEM_PROGRAM || failed === ASSOCIATED_TOKEN_PROGRAM)
    return { kind: 'ours', reason: 'rejected', detail };
  return { kind: 'unknown', detail };
}

/**
 * Classifies the error code with which the SPL Token program (spl-token `error.rs`) failed a
 * transfer.
 */
function tokenFailure(
  code: number,
  { gross, subscriberAccount }: PullContext,
  detail: string,
): PullFailure {
  switch (code) {
    case 1: {
      // SPL Token has one code for insufficient balance and insufficient allowance. The
      // subscriber's token account shows which of the two applies.
      const account = subscriberAccount ?? null;
      const allowance =
        account !== null && account.amount >= gross && account.delegatedAmount < gross;
      return {
        kind: 'subscriber',
        reason: allowance ? 'allowance_exhausted' : 'insufficient_funds',
      };
    }
    case 4:
      return { kind: 'subscriber', reason: 'delegate_replaced' };
    case 17:
      // The error does not show whether the subscriber's or the receiver's token account is frozen.
      if (subscriberAccount === undefined) return { kind: 'unknown', detail };
      if (subscriberAccount?.state === 'frozen')
        return { kind: 'subscriber', reason: 'account_frozen' };
      return { kind: 'ours', reason: 'receiver_frozen', detail };
    default:
      return { kind: 'unknown', detail };
  }
}

/** Classifies the error code with which the Subscriptions program failed a transfer. */
function programFailure(
  code: number,
  { subscriberAccount }: PullContext,
  detail: string,
): PullFailure {
  const oursFor = (reason: OursReason): PullFailure => ({ kind: 'ours', reason, detail });
  switch (code) {
    case 400:
      return { kind: 'already_collected' };
    case 508:
      return { kind: 'cancelled' };
    case 128:
    case 501:
      return { kind: 'plan_ended' };
    case 516:
      return { kind: 'plan_closed' };
    case 519:
      return { kind: 'plan_changed' };
    case 103:
      return { kind: 'subscriber', reason: 'authority_closed' };
    case 136:
      return { kind: 'subscriber', reason: 'authority_replaced' };
    case 132:
      return { kind: 'subscriber', reason: 'account_owner_changed' };
    case 110:
      // The program checks the token accounts of subscriber and receiver in one call, so error 110
      // does not show which of the two accounts is missing.
      if (subscriberAccount === undefined) return { kind: 'unknown', detail };
      return subscriberAccount === null
        ? { kind: 'subscriber', reason: 'account_closed' }
        : oursFor('receiver_account_missing');
    case 130:
      return oursFor('not_a_puller');
    case 506:
      return oursFor('destination_refused');
    case 105:
    case 109:
    case 125:
    case 505:
      return oursFor('wrong_program_or_mint');
    case 407:
      return oursFor('clock_behind');
    case 133:
    case 134:
      return oursFor('version');
    default:
      return PROGRAM_ERRORS.has(code) ? oursFor('malformed') : { kind: 'unknown', detail };
  }
}

/** Classifies an error of the transaction as a whole (Solana's `TransactionError`). */
function transactionFailure(err: unknown, detail: string): PullFailure {
  const name = typeof err === 'object' && err !== null ? Object.keys(err)[0] : err;
  switch (name) {
    case 'AlreadyProcessed':
      return { kind: 'already_processed' };
    case 'MaxLoadedAccountsDataSizeExceeded':
      return { kind: 'ours', reason: 'compute_budget', detail };
    case 'BlockhashNotFound':
      return { kind: 'ours', reason: 'blockhash_not_found', detail };
    // The fee payer has too little SOL for the fee or for its own rent, or does not exist.
    case 'InsufficientFundsForFee':
    case 'InsufficientFundsForRent':
    case 'AccountNotFound':
      return { kind: 'ours', reason: 'keeper_out_of_sol', detail };
    default:
      return typeof name === 'string' && TRANSACTION_ERRORS.has(name)
        ? { kind: 'ours', reason: 'rejected', detail }
        : { kind: 'unknown', detail };
  }
}

// Errors of the crate solana-transaction-error that `transactionFailure` does not handle
// separately. A transaction with such an error did not change the chain.
const TRANSACTION_ERRORS = new Set([
  'AccountInUse',
  'AccountLoadedTwice',
  'AddressLookupTableNotFound',
  'CallChainTooDeep',
  'ClusterMaintenance',
  'DuplicateInstruction',
  'InvalidAccountForFee',
  'InvalidAccountIndex',
  'InvalidLoadedAccountsDataSizeLimit',
  'InvalidProgramForExecution',
  'InvalidRentPayingAccount',
  'InvalidWritableAccount',
  'MissingSignatureForFee',
  'ProgramAccountNotFound',
  'ProgramCacheHitMaxLimit',
  'ProgramExecutionTemporarilyRestricted',
  'ResanitizationNeeded',
  'SanitizeFailure',
  'SignatureFailure',
  'TooManyAccountLocks',
  'UnbalancedTransaction',
  'UnsupportedVersion',
  'WouldExceedAccountDataBlockLimit',
  'WouldExceedAccountDataTotalLimit',
  'WouldExceedMaxAccountCostLimit',
  'WouldExceedMaxBlockCostLimit',
  'WouldExceedMaxVoteCostLimit',
]);
