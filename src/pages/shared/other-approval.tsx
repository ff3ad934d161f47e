import type { ReactElement } from 'react';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Address } from './parts.tsx';
import type { Standing } from './session.ts';

/**
 * The wallet's approval for another program. A USDC account has at most one approval, so a new
 * approval replaces it.
 */
export type Approval = NonNullable<Standing['replaces']>;

/**
 * Shows which approval a transaction would replace. `text` is the sentence around the placeholder
 * {address}.
 */
export function OtherApproval({
  approval,
  text = words.panel.elsewhere,
}: {
  approval: Approval;
  text?: string;
}): ReactElement {
  return (
    <Fill
      text={text}
      address={<Address of={approval.delegate} label={words.panel.otherApprovalAddress} />}
    />
  );
}

/**
 * Returns whether a new approval would replace an approval that the page does not show. `now` is
 * the current state of the wallet, and `named` is the state that the page shows.
 */
export const isUnnamed = (now: Standing, named: Standing | undefined): boolean =>
  now.replaces !== null && now.replaces.delegate !== named?.replaces?.delegate;
