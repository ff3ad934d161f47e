// Describes the plan of a replay and asks for confirmation.
import type { ReplayPlan, Selection } from '../../domain/outbox/replay.ts';
import { OperatorError } from '../../errors.ts';
import { canAsk, confirm } from '../terminal/ask.ts';

export function describePlan({ matching, deliverable, interrupted }: ReplayPlan): string {
  if (interrupted !== undefined) {
    return `The run of ${interrupted.createdAt.toISOString()} was interrupted after ${interrupted.queued} of ${interrupted.total}: it continues from there.`;
  }
  return matchingInWords(matching, deliverable);
}

/** States the number of matching deliveries by status, and how many of them cannot be sent. */
export function matchingInWords(
  matching: readonly { status: string; count: number }[],
  deliverable: number,
): string {
  if (matching.length === 0) return 'Nothing matches.';
  const total = matching.reduce((sum, { count }) => sum + count, 0);
  const parts = matching.map(({ status, count }) => `${count} ${status}`).join(', ');
  const left = total - deliverable;
  return `${total} match (${parts})${left === 0 ? '' : `; ${left} of them have no live endpoint and are skipped`}.`;
}

/**
 * Describes the selected deliveries for the audit log. `count` is the number of events to queue.
 */
export function selectionInWords(selection: Partial<Selection>, count: number): string {
  const { ids = null, endpointId = null, appId = null, status, type } = selection;
  const { since = null, until = null } = selection;
  const filters = [
    ids === null ? '' : `${ids.length} deliveries: ${ids.slice(0, 5).join(', ')}`,
    endpointId === null ? '' : `webhook ${endpointId}`,
    appId === null ? '' : `app ${appId}`,
    status ?? '',
    type ?? '',
    since === null ? '' : `since ${since.toISOString()}`,
    until === null ? '' : `until ${until.toISOString()}`,
  ].filter((words) => words !== '');
  return `${count} events of ${filters.length === 0 ? 'all deliveries' : filters.join(', ')}`;
}

/**
 * Asks whether to queue `count` events. Throws an OperatorError (exit code 2) when there is no
 * terminal.
 */
export async function confirmed(count: number, signal: AbortSignal): Promise<boolean> {
  if (!canAsk())
    throw new OperatorError('There is no terminal to ask on: add --yes to queue them.', 2);
  return confirm(`Queue ${count} again?`, signal);
}
