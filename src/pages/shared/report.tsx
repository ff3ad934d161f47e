import type { ReactElement } from 'react';
import { reportLink } from './installation.ts';
import { words } from './language.ts';

/** The link to report abuse to the operator; nothing when the operator gave no address. */
export function Report({ planId }: { planId?: string }): ReactElement {
  const link = reportLink(planId);
  if (link === undefined) return <></>;
  return (
    <a href={link} target="_blank" rel="noreferrer">
      {planId === undefined ? words.reportAbuse : words.reportPlan}
    </a>
  );
}
