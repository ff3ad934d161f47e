// Describes errors to the subscriber.
import { AlteredTransaction, isCode, reasonOf, WalletRefusal, wordsOf } from '../shared/errors.ts';
import { fill, words } from '../shared/language.ts';
import type { Submitted } from '../shared/session.ts';

/** A screen that explains why something failed: an error, or a lapsed or failed transaction. */
export interface Problem {
  at: 'problem';
  cause: Submitted | { error: unknown };
}

interface ProblemText {
  kind: 'error' | 'warning';
  title: string;
  text: string;
}

/** Returns the texts of a problem in the page's language. */
export function textOf({ cause }: Problem): ProblemText {
  return 'error' in cause ? ofError(cause.error) : ofTransaction(cause);
}

function ofTransaction({ status, reason }: Submitted): ProblemText {
  const { lapsed, lapsedText, failed, refused } = words.problem;
  return status === 'lapsed'
    ? { kind: 'warning', title: lapsed, text: lapsedText }
    : { kind: 'error', title: failed, text: reason === null ? refused : reasonOf(reason) };
}

function ofError(error: unknown): ProblemText {
  const text = wordsOf(error);
  const nothingPaid = fill(words.problem.nothingPaid, { text });
  if (error instanceof WalletRefusal)
    return { kind: 'warning', title: words.problem[error.step], text: nothingPaid };
  if (error instanceof AlteredTransaction)
    return { kind: 'error', title: words.problem.altered, text };
  if (isCode(error, 'FORBIDDEN'))
    return { kind: 'warning', title: words.problem.otherWallet, text: nothingPaid };
  if (isCode(error, 'UNAUTHORIZED'))
    return {
      kind: 'warning',
      title: words.problem.notAccepted,
      text: fill(words.problem.signInAgain, { text }),
    };
  return { kind: 'error', title: words.problem.other, text };
}
