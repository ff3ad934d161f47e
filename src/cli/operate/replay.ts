// `billing replay`: sends events again, selected by delivery ids or filters.
import { runCommand, unlessInterrupted } from '../../daemon/run.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../db/postgres/notify.ts';
import {
  planReplay,
  runReplay,
  type ReplayPlan,
  type Selection,
} from '../../domain/outbox/replay.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import { parseId, parseTime } from '../lookups.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { answer, answerJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { deliveryStatuses, parseType } from './delivery-filters.ts';

export interface ReplayFlags {
  envFile?: string;
  webhook?: string;
  app?: string;
  status?: string;
  type?: string;
  since?: string;
  until?: string;
  dryRun?: boolean;
  yes?: boolean;
  json?: boolean;
}

const statuses: readonly string[] = [...deliveryStatuses, 'unsent'];

/**
 * Counts, then asks for confirmation, or requires --yes without a terminal. Returns the exit code:
 * 1 when it was not confirmed. Throws Interrupted.
 */
export function replay(ids: string[], flags: ReplayFlags): Promise<number> {
  const selection = parseSelection(ids, flags);
  return runCommand(
    flags.envFile,
    async ({ sql, signal }) => {
      const counting = withProgress('counting', () => planReplay(sql, selection));
      const plan = await unlessInterrupted(signal, 'Interrupted: nothing was queued.', counting);
      const todo =
        plan.interrupted === undefined
          ? plan.deliverable
          : Math.max(0, plan.interrupted.total - plan.interrupted.queued);
      const say = (text: string) => flags.json !== true && answer(text);
      const report = (queued: number, finished: boolean) => {
        if (flags.json !== true) return;
        const { matching, deliverable, interrupted } = plan;
        const resumed =
          interrupted === undefined
            ? null
            : { id: interrupted.id, queued: interrupted.queued, total: interrupted.total };
        answerJson({ matching, deliverable, resumed, queued, finished });
      };

      say(describePlan(plan));
      if (flags.dryRun === true || (plan.interrupted === undefined && plan.deliverable === 0)) {
        report(0, flags.dryRun !== true);
        return 0;
      }
      if (flags.yes !== true && !(await confirmed(todo, signal))) {
        note('Nothing was queued.');
        return 1;
      }
      const notifier = createNotifier(sql, DELIVERIES_QUEUED);
      const { queued, finished } = await withProgress('queueing', (progress) =>
        runReplay(sql, selection, plan, {
          signal,
          onProgress(done, total) {
            notifier.notify();
            progress.update(`${done} of ${total}`);
          },
        }),
      );
      await notifier.flush();
      report(queued, finished);
      if (!finished)
        throw Interrupted.by(
          signal,
          `Interrupted after ${queued}. Run the same command again to continue; nothing is queued twice.`,
        );
      say(`Queued ${queued}.`);
      return 0;
    },
    { drains: true },
  );
}

/**
 * Parses the command line. Over the API a selection is always of one app, which need not be named
 * if it is the merchant's only one. Throws an OperatorError (exit code 2) that states the expected
 * form.
 */
export function parseSelection(
  ids: string[],
  { webhook, app, status, type, since, until }: ReplayFlags,
  overApi = false,
): Selection {
  const filtered = [webhook, overApi ? undefined : app, status, type, since, until].some(
    (filter) => filter !== undefined,
  );
  if (ids.length > 0 && filtered)
    throw new OperatorError('Give delivery ids or filters, not both.', 2);
  if (overApi && webhook !== undefined)
    throw new OperatorError(
      'Over the API a replay selects by app: use --app instead of --webhook.',
      2,
    );
  if (!overApi && ids.length === 0 && (webhook === undefined) === (app === undefined)) {
    throw new OperatorError(
      'Say what to replay: delivery ids, or --webhook <id>, or --app <id>.',
      2,
    );
  }
  if (status !== undefined && !statuses.includes(status))
    throw new OperatorError(`--status must be one of ${statuses.join(', ')}.`, 2);
  if (status === 'unsent' && app === undefined && !overApi)
    throw new OperatorError(
      '--status unsent needs --app: an event that was never sent has no webhook.',
      2,
    );
  return {
    ids: ids.length === 0 ? null : [...new Set(ids.map(parseId))],
    endpointId: webhook === undefined ? null : parseId(webhook),
    appId: app === undefined ? null : parseId(app),
    status: status ?? null,
    type: type === undefined ? null : parseType(type),
    since: parseTime('--since', since),
    until: parseTime('--until', until),
  };
}

/** The plan as text. */
export function describePlan({ matching, deliverable, interrupted }: ReplayPlan): string {
  if (interrupted !== undefined) {
    return `The run of ${interrupted.createdAt.toISOString()} was interrupted after ${interrupted.queued} of ${interrupted.total}: it continues from there.`;
  }
  return matchingInWords(matching, deliverable);
}

/** The number of matches by status, and how many cannot be sent. */
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
 * Asks whether to queue `count` events. Throws an OperatorError (exit code 2) without a terminal.
 */
export async function confirmed(count: number, signal: AbortSignal): Promise<boolean> {
  if (!canAsk())
    throw new OperatorError('There is no terminal to ask on: add --yes to queue them.', 2);
  return confirm(`Queue ${count} again?`, signal);
}
