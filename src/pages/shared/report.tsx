import type { ReactElement } from 'react';
import { reportLink } from './installation.ts';
import { words } from './language.ts';

/** A link for reporting abuse to the operator. Renders nothing when REPORT_URL is not set. */
export function Report({ planId }: { planId?: string }): ReactElement {
  const link = reportLink(planId);
  if (link === undefined) return <></>;
  return (
    <a href={link} target="_blank" rel="noreferrer">
      {planId === undefined ? words.reportAbuse : words.reportPlan}
    </a>
  );
}
