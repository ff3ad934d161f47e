// `billing actions`: the audit log. The audit log has one row for each command that changed
// something.
import type { Command } from 'commander';
import { runCommand } from '../../daemon/run.ts';
import { listActions } from '../../db/operating/admin-actions.ts';
import { type CommonFlags, type SetExitCode, parseTime, withEnv } from '../arguments.ts';
import { printList } from './print-list.ts';

interface ActionsFlags extends CommonFlags {
  who?: string;
  command?: string;
  what?: string;
  since?: string;
}

export function addActions(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option('--who <user>', 'only of this user of the operating system')
    .option('--command <words>', 'only of commands that begin so, such as "merchants"')
    .option('--what <text>', 'only changes of an object that contains this, such as a wallet')
    .option('--since <time>', 'from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--json', 'print one line of JSON per action')
    .action(async (flags: ActionsFlags) => setExitCode(await listAll(flags)));
}

function listAll({ envFile, json = false, ...flags }: ActionsFlags): Promise<number> {
  const filters = {
    who: flags.who ?? null,
    command: flags.command ?? null,
    what: flags.what ?? null,
    since: parseTime('--since', flags.since),
  };
  return runCommand(envFile, async ({ sql }) => {
    await printList({
      noun: 'actions',
      json,
      page: (after, limit) => listActions(sql, { ...filters, after, limit }),
      head: ['AT', 'WHO', 'HOST', 'COMMAND', 'WHAT', 'REASON'],
      row: ({ at, who, host, command, what, reason }) => [at, who, host, command, what, reason],
      none: 'No action matches.',
    });
    return 0;
  });
}
