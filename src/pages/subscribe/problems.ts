// Describes errors to the subscriber.
import { fill } from '../../words/fill.ts';
import {
  AlteredTransaction,
  explain,
  type Explanation,
  isCode,
  WalletRefusal,
} from '../shared/errors.ts';
import { words } from '../shared/language.ts';
import type { Submitted } from '../shared/sponsored.ts';

/**
 * A screen that explains a failure. `sends`: the wallet sends its transactions itself, so the
 * service cannot sponsor it.
 */
export interface Problem {
  at: 'problem';
  cause: Submitted | { error: unknown } | { sends: true };
  /** Whether a transaction may be on chain although the page has not seen it there. */
  isUnsure?: boolean;
  /** Whether the wallet is already subscribed and was asked to approve again or to resume. */
  isSubscribed?: boolean;
}

/**
 * Whether the error means that the customer of the checkout session already has a subscription to a
 * plan of the app.
 */
export const isSecond = (error: unknown): boolean =>
  isCode(error, 'CONFLICT') && error.details.some(({ path }) => path === 'externalId');

interface ProblemText extends Explanation {
  kind: 'error' | 'warning';
  title: string;
}

/** Returns the texts of a problem in the page's language. */
export function textOf({ cause, isUnsure = false, isSubscribed = false }: Problem): ProblemText {
  const claim = isUnsure ? words.problem.unsure : words.problem.nothingPaid;
  if ('error' in cause) {
    const text = ofError(cause.error, claim);
    // The title for a refused signature says that the user has not subscribed.
    return isSubscribed && text.title === words.problem.sign
      ? { ...text, title: words.problem.other }
      : text;
  }
  if ('status' in cause) return ofTransaction(cause, isUnsure, claim);
  return { kind: 'warning', title: words.problem.sends, text: words.problem.sendsText };
}

function ofTransaction(
  { status, reason }: Submitted,
  isUnsure: boolean,
  claim: string,
): ProblemText {
  const { lapsed, lapsedText, slow, slowText, unsigned, unsignedText } = words.problem;
  const { failed, refused } = words.problem;
  const details = reason ?? undefined;
  if (status === 'lapsed' && !isUnsure) return { kind: 'warning', title: lapsed, text: lapsedText };
  if (status === 'slow' || status === 'lapsed')
    return { kind: 'warning', title: slow, text: slowText };
  if (status === 'refused') {
    const text = fill(claim, { text: unsignedText });
    return { kind: 'warning', title: unsigned, text, details };
  }
  return { kind: 'error', title: failed, text: refused, details };
}

function ofError(error: unknown, claim: string): ProblemText {
  const { text, details } = explain(error);
  const claimed = fill(claim, { text });
  if (error instanceof WalletRefusal)
    return { kind: 'warning', title: words.problem[error.step], text: claimed };
  if (error instanceof AlteredTransaction)
    return { kind: 'error', title: words.problem.altered, text, details };
  if (isCode(error, 'FORBIDDEN'))
    return { kind: 'warning', title: words.problem.otherWallet, text: claimed, details };
  if (isCode(error, 'UNAUTHORIZED'))
    return {
      kind: 'warning',
      title: words.problem.notAccepted,
      text: fill(words.problem.signInAgain, { text }),
      details,
    };
  return { kind: 'error', title: words.problem.other, text, details };
}
