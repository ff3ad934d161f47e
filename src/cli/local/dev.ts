// The flags of `billing dev`. dev-run.ts may need optional packages, so this file imports
// dev-run.ts only when the command runs.
import type { Command } from 'commander';
import type { SetExitCode } from '../arguments.ts';
import { withApp } from '../session.ts';
import type { DevFlags } from './dev-run.ts';
import { withOptional } from './optional.ts';

export function addDev(command: Command, setExitCode: SetExitCode): void {
  withApp(command)
    .option(
      '--forward-to <url>',
      'your server: a URL, or a port of this machine; default: a free port (PORT)',
    )
    .option('--dir <dir>', 'directory for env and wallet.json', 'dev')
    .option('--no-bodies', 'print events without their bodies')
    .action(async (flags: DevFlags) => {
      const { dev } = await withOptional(() => import('./dev-run.ts'));
      setExitCode(await dev(flags));
    });
}
