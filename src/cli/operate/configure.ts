// `billing configure`: records the installation in Postgres: the settings that all daemons must
// share. The command also reports how a change affects plans.
import type { Command } from 'commander';
import { required } from '../../config/config.ts';
import { describeDatabase } from '../../config/postgres-url.ts';
import { runCommand } from '../../daemon/run.ts';
import {
  countOtherPlans,
  findInstallation,
  replaceInstallation,
} from '../../db/operating/installation.ts';
import { differences, installationOf } from '../../domain/accounts/installation.ts';
import { OperatorError } from '../../errors.ts';
import { type SetExitCode, withEnv } from '../arguments.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { print, printJson } from '../terminal/print.ts';
import { type ReasonFlag, recorded, withReason } from './recorded.ts';

interface ConfigureFlags extends ReasonFlag {
  yes?: boolean;
}

export function addConfigure(command: Command, setExitCode: SetExitCode): void {
  withReason(withEnv(command))
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .action(async (flags: ConfigureFlags) => setExitCode(await configure(flags)));
}

const OTHER_FEE =
  'Payments signed from now on carry the new fee, except those of merchants with a fee of their own (merchants set-fee).';

/**
 * Shows the changes, asks for confirmation and records the installation. Returns the exit code: 1
 * when the user did not confirm.
 */
function configure(flags: ConfigureFlags): Promise<number> {
  const { envFile, yes = false, json = false } = flags;
  return runCommand(envFile, async ({ sql, config, signal }) => {
    const next = await installationOf(config);
    const before = await findInstallation(sql);
    const changes = before === undefined ? [] : differences(before, next);
    const consequences =
      before === undefined
        ? []
        : [
            ...meaning(await countOtherPlans(sql, next)),
            ...(before.feeBps === next.feeBps ? [] : [OTHER_FEE]),
          ];
    if (before !== undefined && changes.length === 0) {
      if (json) printJson({ changed: false, installation: next });
      else print('The database already has this configuration.');
      return 0;
    }
    if (!json) for (const line of [...changes, ...consequences]) print(line);
    if (before !== undefined && !yes) {
      if (!canAsk())
        throw new OperatorError('Nothing was changed: without a terminal, add --yes.', 2);
      if (!(await confirm('Record this configuration?', signal))) return 1;
    }
    await recorded(
      sql,
      'configure',
      flags,
      (tx) => replaceInstallation(tx, next),
      () => (before === undefined ? 'first configuration' : changes.join('; ')),
    );
    const { databaseUrl } = required(config, 'databaseUrl');
    if (json) printJson({ changed: true, changes, consequences, installation: next });
    else
      print(
        `Recorded (${describeDatabase(databaseUrl)}). Restart serve and keeper with this configuration.`,
      );
    return 0;
  });
}

function meaning(other: {
  plans: number;
  mint: number;
  keeper: number;
  treasury: number;
}): string[] {
  const of = (count: number) => `${count} of ${other.plans} plans`;
  return [
    ...(other.mint > 0
      ? [`${of(other.mint)} use another token and will not be collected any more.`]
      : []),
    ...(other.keeper > 0
      ? [
          `${of(other.keeper)} name none of these keepers: they will not be collected until their merchant signs an update of the plan.`,
        ]
      : []),
    ...(other.treasury > 0
      ? [
          `${of(other.treasury)} pay their fee to a treasury that is not listed: the destinations of a plan cannot be changed.`,
        ]
      : []),
  ];
}
