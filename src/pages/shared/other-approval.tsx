import type { ReactElement } from 'react';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Address, Notice } from './parts.tsx';
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
 * Explains why a subscription's payments are not approved: the wallet approved another program,
 * closed its USDC account, or withdrew the approval.
 */
export function NotApproved({ standing }: { standing: Standing }): ReactElement {
  const { replaces, hasUsdcAccount } = standing;
  const withdrawn = hasUsdcAccount ? words.panel.notApprovedText : words.unpaid.account_closed;
  return (
    <Notice kind="warning" title={words.panel.notApproved}>
      {replaces === null ? withdrawn : <OtherApproval approval={replaces} />}
    </Notice>
  );
}

/**
 * Returns whether a new approval would replace an approval that the page does not show. `now` is
 * the current state of the wallet, and `named` is the state that the page shows.
 */
export const isUnnamed = (now: Standing, named: Standing | undefined): boolean =>
  now.replaces !== null && now.replaces.delegate !== named?.replaces?.delegate;
