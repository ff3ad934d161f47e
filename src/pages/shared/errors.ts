import { BillingConnectionError, BillingError } from '../../client/error.ts';
import { counted, fill, words } from './language.ts';
import { foreign } from './text.ts';

/** The wallet refused a request, by itself or because its owner refused. */
export class WalletRefusal extends Error {
  readonly step: 'connect' | 'signIn' | 'sign';
  /** True when the wallet reports that its owner refused. */
  readonly byPerson: boolean;

  constructor(step: WalletRefusal['step'], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.step = step;
    this.byPerson = isRejection(cause);
  }
}

/**
 * The wallet signed a different transaction from the one that it was given. The service names the
 * change and did not send the transaction.
 */
export class AlteredTransaction extends Error {
  /** What the wallet changed, as the end of a sentence; undefined when the service cannot say. */
  readonly change: string | undefined;

  constructor(cause: BillingError) {
    super('the wallet changed the transaction', { cause });
    const [detail] = cause.details;
    if (detail?.path === 'transaction') this.change = detail.message;
  }
}

function isRejection(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    code === 4001 || (typeof message === 'string' && /reject|denied|declin|cancel/i.test(message))
  );
}

/** Messages that say no more than that the owner declined. */
const USUAL = /^(the )?(user|request)\b[\w ]*\b(reject|den(y|ied)|declin|cancel)[\w ]*\.?$/i;

/** Describes an error for the user. */
export function wordsOf(error: unknown): string {
  if (error instanceof BillingError) {
    if (error.code === 'RATE_LIMITED') return counted(words.error.tooMany, error.retryAfter ?? 60);
    return reasonOf(error.reason);
  }
  if (error instanceof WalletRefusal) {
    const reason = foreign(error.message).replace(/[^.!?]$/, '$&.');
    if (!error.byPerson) return fill(words.error.walletSays, { reason });
    // A device declines for reasons of its own, such as a setting, which its owner has to read.
    return USUAL.test(reason) ? words.error.declined : fill(words.error.declinedWhy, { reason });
  }
  if (error instanceof AlteredTransaction) {
    const { change } = error;
    const how = change === undefined ? '' : ` ${fill(words.error.alteredHow, { change })}`;
    return `${words.error.altered}${how}`;
  }
  if (error instanceof BillingConnectionError) return words.error.unreachable;
  return error instanceof Error ? error.message : String(error);
}

/** A reason that the service gave, which is in English. */
export const reasonOf = (reason: string): string => fill(words.error.service, { reason });

export function isCode(error: unknown, code: BillingError['code']): error is BillingError {
  return error instanceof BillingError && error.code === code;
}
