// The dashboard's words for the API's reason codes.
import type { components } from '../../../client/openapi.ts';

type FailureReason = NonNullable<components['schemas']['Transaction']['failureReason']>;
type BlockReason = NonNullable<components['schemas']['Plan']['collectionBlockedReason']>;
type EndReason = NonNullable<components['schemas']['Subscription']['endReason']>;

const failures: Readonly<Record<FailureReason, string>> = {
  insufficient_funds: 'Not enough USDC in the wallet',
  allowance_exhausted: 'The wallet’s approval is too small',
  account_frozen: 'The issuer of USDC froze the wallet’s account',
  account_closed: 'The wallet has no USDC account any more',
  account_owner_changed: 'The USDC account belongs to another wallet now',
  delegate_replaced: 'The wallet withdrew its approval, or gave it to another program',
  authority_closed: 'The wallet closed the account that authorizes payments',
  authority_replaced: 'The wallet replaced the account that authorizes payments',
};

const ends: Readonly<Record<EndReason, string>> = {
  past_due: 'It stayed unpaid until the plan’s limit',
  forced: 'You ended it at once',
  plan_ended: 'The plan has reached its end time',
  plan_closed: 'The plan was closed on chain',
  plan_recreated: 'The plan was closed on chain and created again with other terms',
  replaced: 'A subscription to another plan replaced it',
  resubscribed: 'The wallet closed it and subscribed again',
};

const blocks: Readonly<Record<BlockReason, string>> = {
  not_a_puller: 'The plan no longer allows the service to collect.',
  destination_refused:
    'The plan does not name your wallet as a destination, or your USDC account belongs to another wallet now.',
  receiver_account_missing: 'Your wallet has no USDC account any more. Send it any amount of USDC.',
  receiver_frozen: 'The issuer of USDC froze your account.',
  wrong_program_or_mint: 'The plan collects another token.',
};

/**
 * Returns the text for a reason code. For an unknown code, returns the code with spaces instead of
 * underscores.
 */
const textIn = (texts: Readonly<Record<string, string>>) => (reason: string) =>
  texts[reason] ?? reason.replaceAll('_', ' ');

/** Describes why a plan’s payments cannot be collected. */
export const blockText = textIn(blocks);

/** Describes why a payment failed. */
export const failureText = textIn(failures);

/** Describes why a subscription ended. */
export const endText = textIn(ends);
