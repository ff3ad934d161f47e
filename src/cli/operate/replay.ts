// `billing replay`: sends events again. Delivery ids or filters select the events.
import type { Command } from 'commander';
import { runCommand, unlessInterrupted } from '../../daemon/run.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../db/postgres/notify.ts';
import { planReplay, runReplay } from '../../domain/outbox/replay.ts';
import { Interrupted } from '../../errors.ts';
import { type SetExitCode, withEnv } from '../arguments.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { asksApi, replayOverApi, withApi } from './delivery-api.ts';
import { parseSelection, type ReplayFlags } from './delivery-filters.ts';
import { record, withReason } from './recorded.ts';
import { confirmed, describePlan, selectionInWords } from './replay-plan.ts';

export function addReplay(command: Command, setExitCode: SetExitCode): void {
  withReason(withEnv(command))
    .argument('[deliveryId...]', 'deliveries whose events are queued again')
    .option('--webhook <id>', 'deliveries of this webhook endpoint')
    .option('--app <id>', 'deliveries and unsent events of this app')
    .option(
      '--status <status>',
      'failed, delivered, pending, cancelled, retrying (pending after a failed attempt: the next one is made now) or unsent',
    )
    .option('--type <type>', 'events of this type')
    .option('--since <time>', 'events from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--until <time>', 'events before this time (likewise)')
    .option('--dry-run', 'count only')
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object');
  withApi(command).action(async (ids: string[], flags: ReplayFlags) =>
    setExitCode(await (asksApi(flags) ? replayOverApi(ids, flags) : replay(ids, flags))),
  );
}

/**
 * Counts the matching deliveries, asks for confirmation and queues their events again. Without a
 * terminal, --yes is required. Returns the exit code: 1 when the user did not confirm. Throws
 * Interrupted when a signal stops the counting or the queueing.
 */
function replay(ids: string[], flags: ReplayFlags): Promise<number> {
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
      const say = (text: string) => flags.json !== true && print(text);
      const report = (queued: number, finished: boolean) => {
        if (flags.json !== true) return;
        const { matching, deliverable, interrupted } = plan;
        const resumed =
          interrupted === undefined
            ? null
            : { id: interrupted.id, queued: interrupted.queued, total: interrupted.total };
        printJson({ matching, deliverable, resumed, queued, finished });
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
      await record(sql, 'replay', selectionInWords(selection, todo), flags);
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
