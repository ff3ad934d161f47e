// `billing deliveries cancel`: cancels pending deliveries that match filters.
import type { Command } from 'commander';
import { runCommand } from '../../daemon/run.ts';
import { cancelMatching, countPending } from '../../db/delivering/delivery-queue.ts';
import { OperatorError } from '../../errors.ts';
import { type SetExitCode, parseReason, withEnv } from '../arguments.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { note, print, printJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { type DeliveriesFlags, parseQuery } from './delivery-filters.ts';
import { record } from './recorded.ts';
import { selectionInWords } from './replay-plan.ts';

interface CancelFlags extends DeliveriesFlags {
  reason: string;
  dryRun?: boolean;
  yes?: boolean;
}

export function addCancel(deliveries: Command, setExitCode: SetExitCode): void {
  withEnv(
    deliveries
      .command('cancel')
      .description('cancels pending deliveries that match all filters; a replay can send them'),
  )
    .option('--app <id>', 'of this app')
    .option('--webhook <id>', 'to this webhook endpoint')
    .option('--type <type>', 'of events of this type')
    .option('--since <time>', 'queued from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--until <time>', 'queued before this time (likewise; default: now)')
    .requiredOption('--reason <text>', 'why, for the record', parseReason)
    .option('--dry-run', 'count only')
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .action(async (flags: CancelFlags) => setExitCode(await cancel(flags)));
}

/**
 * Counts the matching deliveries, asks for confirmation and cancels the deliveries. A delivery that
 * is being sent is not cancelled. Returns the exit code: 1 when the user did not confirm.
 */
function cancel(flags: CancelFlags): Promise<number> {
  const { envFile, json = false, dryRun = false, yes = false } = flags;
  const filters = { ...parseQuery(flags), until: parseQuery(flags).until ?? new Date() };
  const { appId, endpointId, type, since } = filters;
  if ([appId, endpointId, type, since].every((filter) => filter === null) && !flags.until)
    throw new OperatorError(
      'Say which deliveries: at least one of --app, --webhook, --type, --since and --until.',
      2,
    );
  return runCommand(envFile, async ({ sql, signal }) => {
    const matching = await withProgress('counting', () => countPending(sql, filters));
    const report = (cancelled: number, left: number) => {
      if (json) printJson({ matching, cancelled, left });
      return 0;
    };
    if (!json) print(`${matching} pending deliveries match.`);
    if (dryRun || matching === 0) return report(0, matching);
    if (!yes) {
      if (!canAsk())
        throw new OperatorError('Nothing was cancelled: without a terminal, add --yes.', 2);
      if (!(await confirm(`Cancel ${matching} deliveries?`, signal))) {
        note('Nothing was cancelled.');
        return 1;
      }
    }
    const selection = selectionInWords(
      { ...filters, until: flags.until ? filters.until : null },
      matching,
    );
    await record(sql, 'deliveries cancel', selection, flags);
    const cancelled = await withProgress('cancelling', ({ update }) =>
      cancelMatching(sql, filters, (count) => update(`${count} of ${matching}`)),
    );
    const left = await countPending(sql, filters);
    if (!json)
      print(
        `Cancelled ${cancelled}.${left === 0 ? '' : ` ${left} are being sent at the moment and were left.`}`,
      );
    return report(cancelled, left);
  });
}
