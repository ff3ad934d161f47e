// Stopping and continuing the collection of payments.
import type { Command } from 'commander';
import { withEnv, type Finish } from './arguments.ts';
import type { CollectionFlags } from './operate/collection.ts';

export function addCollection(program: Command, finish: Finish): void {
  const collection = program
    .command('collection')
    .description('stops and continues the signing of payments');
  const scoped = (name: string, description: string) =>
    withEnv(collection.command(name).description(description))
      .option('--merchant <wallet>', 'only of this merchant (wallet or id)')
      .option('--plan <id>', 'only of this plan')
      .requiredOption('--reason <text>', 'why, for the record and for billing status')
      .option('--json', 'print one JSON object');
  scoped(
    'hold',
    'signs no new payment from now on; what is signed already is settled, and everything else goes on',
  ).action(async (flags: CollectionFlags) => {
    const { holdCommand } = await import('./operate/collection.ts');
    finish(await holdCommand(flags));
  });
  scoped('resume', 'ends a hold of the same scope').action(async (flags: CollectionFlags) => {
    const { resumeCommand } = await import('./operate/collection.ts');
    finish(await resumeCommand(flags));
  });
}
