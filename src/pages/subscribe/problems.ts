// Describes errors to the subscriber.
import { AlteredTransaction, isCode, WalletRefusal, wordsOf } from '../shared/errors.ts';
import type { Submitted } from '../shared/session.ts';

export interface Problem {
  at: 'problem';
  title: string;
  text: string;
  kind: 'error' | 'warning';
}

const problem = (kind: Problem['kind'], title: string, text: string): Problem => ({
  at: 'problem',
  kind,
  title,
  text,
});

/** Returns the screen for a transaction that lapsed or failed. */
export function unsuccessful({ status, reason }: Submitted): Problem {
  return status === 'lapsed'
    ? problem(
        'warning',
        'The transaction lapsed',
        'A transaction is good for about half a minute. Nothing was paid. Try again and confirm in your wallet sooner.',
      )
    : problem(
        'error',
        'The transaction failed',
        reason ?? 'The network refused it. Nothing was paid.',
      );
}

const refusals = {
  connect: 'Your wallet is not connected',
  signIn: 'You are not signed in',
  sign: 'You have not subscribed',
};

/** Returns the screen for an error. */
export function problemOf(error: unknown): Problem {
  const words = wordsOf(error);
  if (error instanceof WalletRefusal)
    return problem('warning', refusals[error.step], `${words} Nothing was paid.`);
  if (error instanceof AlteredTransaction)
    return problem('error', 'Your wallet changed the transaction', words);
  if (isCode(error, 'FORBIDDEN'))
    return problem('warning', 'This wallet cannot use this checkout', `${words} Nothing was paid.`);
  if (isCode(error, 'UNAUTHORIZED'))
    return problem('warning', 'Your sign-in was not accepted', `${words} Sign in again.`);
  return problem('error', 'That did not work', words);
}
