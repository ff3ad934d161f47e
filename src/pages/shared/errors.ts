import { BillingConnectionError, BillingError } from '../../client/error.ts';
import { fill } from '../../words/fill.ts';
import { counted, words } from './language.ts';
import { foreign } from './text.ts';

/**
 * Returns the message of what a wallet threw: an Error, another object or a text. Returns an empty
 * text if there is no message.
 */
function messageOf(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown.trim();
  if (typeof thrown !== 'object' || thrown === null) return '';
  const { message, error } = thrown as { message?: unknown; error?: unknown };
  return typeof message === 'string' && message.trim() !== '' ? message.trim() : messageOf(error);
}

/** Thrown when the wallet or its owner refused a request. */
export class WalletRefusal extends Error {
  readonly step: 'connect' | 'signIn' | 'sign';
  /** Whether the wallet reports that the owner refused the request. */
  readonly byPerson: boolean;

  constructor(step: WalletRefusal['step'], cause: unknown) {
    super(messageOf(cause), { cause });
    this.step = step;
    this.byPerson = isRejection(cause);
  }
}

/** Thrown when the page finds that it cannot use a wallet. The message is for the user. */
export class WalletObstacle extends Error {}

/**
 * Thrown when the wallet changed the transaction before signing it. The service did not send the
 * transaction, and reports what the wallet changed.
 */
export class AlteredTransaction extends Error {
  /**
   * What the wallet changed, as the end of a sentence. Undefined when the service does not know.
   */
  readonly change: string | undefined;
  /** Whether the service would have paid the network fee of the transaction. */
  readonly sponsored: boolean;

  constructor(cause: BillingError, { sponsored = false } = {}) {
    super('the wallet changed the transaction', { cause });
    this.sponsored = sponsored;
    const [detail] = cause.details;
    if (detail?.path === 'transaction') this.change = detail.message;
  }
}

/** Returns the error that a wallet throws when the user declines a request. */
export const declined = (cause?: unknown): Error =>
  Object.assign(new Error('The user declined.', { cause }), { code: 4001 });

/** The error code of EIP-1193 for a request that the user refused. */
const REFUSED = 4001;
/** Matches a wallet's message that says only that the user declined, without a reason. */
const USUAL = /^(the )?user\b[\w ]*\b(reject|den(y|ied)|declin|cancel)[\w ]*\.?$/i;

/**
 * Whether the error means that the user refused. The whole message must match USUAL. The word
 * "reject" alone is not enough, because a network also rejects transactions that a wallet has sent.
 */
function isRejection(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === REFUSED || (typeof message === 'string' && USUAL.test(message));
}

/** A text for the user in the page's language. `details` has the service's own words in English. */
export interface Explanation {
  readonly text: string;
  readonly details?: string | undefined;
}

/**
 * Describes an error to a buyer. For an error of the service, the text depends on the error's code
 * and says what the buyer can do. The service refuses a `wallet` only if no key can sign for it.
 */
export function explain(error: unknown): Explanation {
  if (error instanceof BillingError && error.code !== 'RATE_LIMITED') {
    const isKeyless = error.details.some(({ path }) => path === 'wallet');
    if (isKeyless) return { text: words.error.noKey, details: error.reason };
    const texts: Readonly<Record<string, string>> = words.refused;
    const text = texts[error.code ?? ''] ?? words.refused.INTERNAL_ERROR;
    return { text, details: error.reason };
  }
  if (error instanceof AlteredTransaction) {
    const { altered, alteredNext, paysItself } = words.error;
    return {
      text: `${altered} ${error.sponsored ? paysItself : alteredNext}`,
      details: error.change === undefined ? undefined : `The transaction ${error.change}.`,
    };
  }
  return { text: wordsOf(error) };
}

/**
 * Describes an error in one text. For an error of the service, the text is the service's reason in
 * English, which merchants read.
 */
export function wordsOf(error: unknown): string {
  if (error instanceof BillingError) {
    if (error.code === 'RATE_LIMITED') return counted(words.error.tooMany, error.retryAfter ?? 60);
    return error.reason;
  }
  if (error instanceof WalletRefusal) {
    if (error.cause instanceof WalletObstacle) return error.message;
    if (error.message === '') return error.byPerson ? words.error.declined : words.error.noReason;
    const reason = foreign(error.message).replace(/[^.!?]$/, '$&.');
    if (!error.byPerson) return fill(words.error.walletSays, { reason });
    // A hardware wallet can decline because of one of its settings. The message then names this
    // setting, so the message is shown.
    return USUAL.test(reason) ? words.error.declined : fill(words.error.declinedWhy, { reason });
  }
  if (error instanceof AlteredTransaction) {
    const { text, details = '' } = explain(error);
    return `${text} ${details}`.trim();
  }
  if (error instanceof BillingConnectionError) return words.error.unreachable;
  return messageOf(error) || words.stopped;
}

export function isCode(error: unknown, code: BillingError['code']): error is BillingError {
  return error instanceof BillingError && error.code === code;
}
