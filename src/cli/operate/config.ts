// `billing config print`: shows every variable with its effective value and where the value comes
// from. Secrets are not shown.
import type { Command } from 'commander';
import { examineConfig } from '../../config/config.ts';
import { effectiveSettings, type EffectiveSetting } from '../../config/effective.ts';
import { type CommonFlags, type SetExitCode, withEnv } from '../arguments.ts';
import { note, print, printJson } from '../terminal/print.ts';
import { table } from '../terminal/table.ts';

interface PrintFlags extends CommonFlags {
  set?: boolean;
}

export function addConfig(command: Command, setExitCode: SetExitCode): void {
  withEnv(
    command
      .command('print')
      .description('shows each variable, its effective value and where the value comes from'),
  )
    .option('--set', 'only the variables that are set')
    .option('--json', 'print one JSON object')
    .action((flags: PrintFlags) => setExitCode(printConfig(flags)));
}

/**
 * Prints the variables, then the faults to stderr. Returns the exit code: 2 for an invalid
 * variable.
 */
function printConfig({ envFile, set = false, json = false }: PrintFlags): number {
  const environment = { envFile };
  // The role "developer" requires no variable, so a missing variable is no fault here.
  const { config, faults } = examineConfig('developer', environment);
  const all = effectiveSettings(environment, config);
  const shownVariables = set ? all.filter(isSet) : all;
  if (json) printJson({ variables: shownVariables, faults });
  else print(table(['VARIABLE', 'VALUE', 'FROM'], shownVariables.map(row)));
  if (!json) for (const fault of faults) note(fault);
  return faults.length === 0 ? 0 : 2;
}

const isSet = ({ from }: EffectiveSetting) => from !== 'default' && from !== 'unset';

const row = ({ name, value, from, file }: EffectiveSetting) => [
  name,
  value,
  file === null ? from : `${from}: ${name}_FILE=${file}`,
];
