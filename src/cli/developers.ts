// Commands for a merchant's developers; they only need an API key.
import type { Command } from 'commander';
import { withEnv, type Finish } from './arguments.ts';
import type { DeveloperFlags } from './develop/api-client.ts';
import type { ListenFlags } from './develop/listen.ts';

export function addDevelopers(program: Command, finish: Finish): void {
  withApi(
    program
      .command('listen')
      .description(
        "forwards an app's events to a local server as they happen, signed like webhooks",
      ),
  )
    .requiredOption('--forward-to <url>', 'the target, such as http://localhost:3000/hook')
    .option('--live', 'accept a live key')
    .option('--json', 'print one line of JSON per event')
    .action(async (flags: ListenFlags) => {
      const { listen } = await import('./develop/listen.ts');
      finish(await listen(flags));
    });
  withApi(
    program
      .command('trigger')
      .description(
        'sends a sample event to the app\'s webhook endpoint and to "billing listen" (development only)',
      ),
  )
    .argument(
      '<type>',
      'subscription_created, payment_success, payment_failed, cancel_requested, cancel_finalized, cancel_forced, delegation_revoked, subscription_resumed, renewal_upcoming, plan_blocked, subscription_paused, subscription_unpaused, refund_recorded or ping',
    )
    .option('--json', 'print one JSON object')
    .action(async (type: string, flags: DeveloperFlags) => {
      const { trigger } = await import('./develop/trigger.ts');
      finish(await trigger(type, flags));
    });
}

function withApi(command: Command): Command {
  return withEnv(command)
    .option('--app <id>', 'the app; not needed if the merchant has only one')
    .option('--api-url <url>', 'the API; default: BILLING_API_URL')
    .option(
      '--api-key-file <path>',
      'file with the API key; default: BILLING_API_KEY, else a prompt on a terminal',
    );
}
