// The flags of `billing reconcile`. Loading the Solana libraries takes 200 ms, so this file imports
// reconcile/run.ts only when the command runs.
import type { Command } from 'commander';
import { type SetExitCode, withEnv } from '../arguments.ts';
import type { ReconcileFlags } from './reconcile/run.ts';
import { withReason } from './recorded.ts';

export function addReconcile(command: Command, setExitCode: SetExitCode): void {
  withReason(withEnv(command))
    .option(
      '--since <time>',
      'from this time on (ISO 8601, or 30m, 6h, 7d ago; default: the last 30 days)',
    )
    .option('--until <time>', 'before this time (default: now)')
    .option(
      '--repair',
      'record payments, and register subscriptions, that the chain has and the database lacks; nothing is deleted',
    )
    .option('--json', 'print one JSON object')
    .action(async (flags: ReconcileFlags) => {
      const { reconcileBooks } = await import('./reconcile/run.ts');
      setExitCode(await reconcileBooks(flags));
    });
}
