import { type ReactElement, type ReactNode, useCallback, useId } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatSol } from '../../../format.ts';
import { Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useResponse } from '../parts/app-context.ts';
import { blockText } from '../parts/reasons.ts';

type Attention = components['schemas']['Attention'];

/** Polls the app's current failures while the page is visible. */
export function useAttention({ session, app }: AppContext): Attention | undefined {
  const ask = useCallback(
    () => session.client.get('/merchant/apps/{appId}/attention', { path: { appId: app.id } }),
    [session, app.id],
  );
  return useResponse(ask, LIVE_MS).data;
}

/**
 * Returns the number and the kind of the failures that a view lists. Returns undefined if the view
 * lists no failure.
 */
function failuresOf(
  attention: Attention | undefined,
  view: string,
): { count: string; what: string } | undefined {
  const { endpoints = [], blockedPlans = [], pastDue = 0, unregistered = 0 } = attention ?? {};
  const all: Readonly<Record<string, readonly (readonly [count: number, what: string])[]>> = {
    plans: [[blockedPlans.length, 'blocked']],
    subscriptions: [
      [pastDue, 'past due'],
      [unregistered, 'not registered'],
    ],
    webhook: [[endpoints.length, 'failing']],
  };
  const found = (all[view] ?? []).filter(([count]) => count > 0);
  if (found.length === 0) return undefined;
  return {
    count: countText(found.reduce((sum, [count]) => sum + count, 0)),
    what: found.map(([count, what]) => `${countText(count)} ${what}`).join(', '),
  };
}

const countText = (count: number) => (count >= 1000 ? '1,000+' : String(count));

/** A navigation link with a badge that shows how many failures its view lists. */
export function NavLink({
  view,
  isCurrent,
  attention,
  children,
}: {
  view: string;
  isCurrent: boolean;
  attention: Attention | undefined;
  children: ReactNode;
}): ReactElement {
  const id = useId();
  const failures = failuresOf(attention, view);
  return (
    <a
      href={`#/${view}`}
      aria-current={isCurrent ? 'page' : undefined}
      aria-describedby={failures === undefined ? undefined : id}
    >
      {children}
      {failures !== undefined && (
        <span className="count" aria-hidden="true">
          {failures.count}
          <span id={id} className="visually-hidden">
            {failures.what}
          </span>
        </span>
      )}
    </a>
  );
}

/** Shows, in every view, the failures that stop payments or webhooks. */
export function AttentionBanner({ attention }: { attention: Attention | undefined }): ReactElement {
  if (attention === undefined) return <></>;
  const { endpoints, blockedPlans, sponsoring } = attention;
  return (
    <>
      {endpoints.map(({ id, disabledAt, failingSince, lastError }) => (
        <Notice
          key={id}
          kind="warning"
          title={disabledAt === null ? 'Your webhook fails' : 'Your webhook is disabled'}
        >
          {disabledAt !== null ? (
            <>
              Nothing is sent since <Time at={disabledAt} />.
            </>
          ) : (
            failingSince !== null && (
              <>
                Since <Time at={failingSince} />, the last request with {foreign(lastError, 60)}.
              </>
            )
          )}{' '}
          <a href="#/webhook">Look at it</a>
        </Notice>
      ))}
      {blockedPlans.map(({ id, name, collectionBlockedReason }) => (
        <Notice key={id} kind="error" title={`Nothing is collected for ${foreign(name, 60)}`}>
          {blockText(collectionBlockedReason)} <a href="#/plans">See the plans</a>
        </Notice>
      ))}
      {sponsoring !== undefined && (
        <Notice kind="warning" title="Sponsoring is near its limit">
          {formatSol(sponsoring.lamportsOut)} of {formatSol(sponsoring.lamportsLimit)} SOL of rent
          that the service paid for your subscribers are out. At the limit, new subscribers need
          SOL, until rent comes back or your fees have grown. The operator of the service can raise
          it.
        </Notice>
      )}
    </>
  );
}
