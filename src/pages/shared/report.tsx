import type { ReactElement } from 'react';
import { reportLink } from './installation.ts';

/** The link to report abuse to the operator; nothing when the operator gave no address. */
export function Report({ planId }: { planId?: string }): ReactElement {
  const link = reportLink(planId);
  if (link === undefined) return <></>;
  return (
    <a href={link} target="_blank" rel="noreferrer">
      Report {planId === undefined ? 'abuse' : 'this plan'}
    </a>
  );
}
