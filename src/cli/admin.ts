// Commands that operators run by hand or from a monitor, against the database.
import type { Command } from 'commander';
import { listOf, oneOf, sol, withEnv, wholeNumber, type Finish } from './arguments.ts';
import { addCollection } from './collection.ts';
import type { DeveloperFlags } from './develop/api-client.ts';
import type { DeliveriesFlags } from './operate/deliveries.ts';
import type { EraseFlags } from './operate/erase-merchant.ts';
import type { KeyFlags } from './operate/keys.ts';
import type { MerchantFlags } from './operate/merchants.ts';
import type { ReconcileFlags } from './operate/reconcile.ts';
import type { ReplayFlags } from './operate/replay.ts';
import type { ResealFlags } from './operate/reseal.ts';
import type { StatusFlags } from './operate/status.ts';

/** For merchants, who have no access to the database. */
const apiUrl = [
  '--api-url <url>',
  'use the API instead of the database, as merchants do; default: BILLING_API_URL',
] as const;
const apiKeyFile = [
  '--api-key-file <path>',
  'file with the API key; default: BILLING_API_KEY, which alone selects the API when DATABASE_URL is not set',
] as const;

export function addAdmin(program: Command, finish: Finish): void {
  addKeys(program, finish);
  addMerchants(program, finish);
  addStatus(program, finish);
  addDeliveries(program, finish);
  addReplay(program, finish);
  addReconcile(program, finish);
  addCollection(program, finish);
}

function addStatus(program: Command, finish: Finish): void {
  withEnv(
    program
      .command('status')
      .description(
        'health of payments and webhooks: queues, lag, SOL, last errors; exit code 1 past a limit',
      ),
  )
    .option('--max-payment-delay <seconds>', 'limit for a due payment', wholeNumber(0), 900)
    .option('--max-delivery-delay <seconds>', 'limit for a due delivery', wholeNumber(0), 300)
    .option('--min-sol <sol>', 'minimum balance of the keeper', sol, 0.1)
    .option(
      '--require <parts>',
      'parts that must have been checked, comma-separated: chain, keeper, secrets',
      listOf('chain', 'keeper', 'secrets'),
    )
    .option('--json', 'print one JSON object')
    .action(async (flags: StatusFlags) => {
      const { status } = await import('./operate/status.ts');
      finish(await status(flags));
    });
}

function addDeliveries(program: Command, finish: Finish): void {
  withEnv(
    program
      .command('deliveries')
      .description(
        'webhook deliveries, newest first: a live list on a terminal, a table elsewhere',
      ),
  )
    .option('--status <status>', 'pending, delivered, failed or cancelled')
    .option('--app <id>', 'of this app')
    .option('--webhook <id>', 'to this webhook endpoint')
    .option('--type <type>', 'of events of this type')
    .option('--since <time>', 'queued from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--until <time>', 'queued before this time (likewise)')
    .option(
      '--limit <n>',
      'print the newest n as a table and exit (default without a terminal: 50)',
      wholeNumber(1, 1_000_000),
    )
    .option('--json', 'print one line of JSON per delivery')
    .option(...apiUrl)
    .option(...apiKeyFile)
    .action(async (flags: DeliveriesFlags & DeveloperFlags) => {
      const { asksApi, deliveriesOverApi } = await import('./operate/delivery-api.ts');
      if (asksApi(flags)) {
        finish(await deliveriesOverApi(flags));
        return;
      }
      const { deliveries } = await import('./operate/deliveries.ts');
      finish(await deliveries(flags));
    });
}

function addReplay(program: Command, finish: Finish): void {
  withEnv(
    program
      .command('replay')
      .description(
        'sends events again: those of the given deliveries, or all that match the filters',
      ),
  )
    .argument('[deliveryId...]', 'deliveries whose events are queued again')
    .option('--webhook <id>', 'deliveries of this webhook endpoint')
    .option('--app <id>', 'deliveries and unsent events of this app')
    .option('--status <status>', 'failed, delivered, pending, cancelled or unsent')
    .option('--type <type>', 'events of this type')
    .option('--since <time>', 'events from this time on (ISO 8601, or 30m, 6h, 7d ago)')
    .option('--until <time>', 'events before this time (likewise)')
    .option('--dry-run', 'count only')
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .option(...apiUrl)
    .option(...apiKeyFile)
    .action(async (ids: string[], flags: ReplayFlags & DeveloperFlags) => {
      const { asksApi, replayOverApi } = await import('./operate/delivery-api.ts');
      if (asksApi(flags)) {
        finish(await replayOverApi(ids, flags));
        return;
      }
      const { replay } = await import('./operate/replay.ts');
      finish(await replay(ids, flags));
    });
}

function addReconcile(program: Command, finish: Finish): void {
  withEnv(
    program
      .command('reconcile')
      .description(
        'compares recorded payments with the chain in both directions and lists each difference',
      ),
  )
    .option(
      '--since <time>',
      'from this time on (ISO 8601, or 30m, 6h, 7d ago; default: the last 30 days)',
    )
    .option('--until <time>', 'before this time (default: now)')
    .option(
      '--repair',
      'record payments that the chain has and the database lacks; nothing is deleted',
    )
    .option('--json', 'print one JSON object')
    .action(async (flags: ReconcileFlags) => {
      const { reconcileCommand } = await import('./operate/reconcile.ts');
      finish(await reconcileCommand(flags));
    });
}

function addKeys(program: Command, finish: Finish): void {
  const keys = program.command('keys').description("merchants' API keys");
  withEnv(
    keys
      .command('list')
      .description('lists keys, newest first, including revoked ones; never the secrets'),
  )
    .argument('[merchant]', 'id or wallet; default: every merchant')
    .option('--json', 'print one line of JSON per key')
    .action(async (merchant: string | undefined, flags: KeyFlags) => {
      const { listKeys } = await import('./operate/keys.ts');
      finish(await listKeys(merchant, flags));
    });
  withEnv(
    keys
      .command('create')
      .description('creates a key and prints it once, on stdout; only its hash is stored'),
  )
    .argument('<merchant>', 'id or wallet')
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, flags: KeyFlags) => {
      const { createKey } = await import('./operate/keys.ts');
      finish(await createKey(merchant, flags));
    });
  withEnv(keys.command('revoke').description('revokes a key immediately and permanently'))
    .argument('<keyId>', 'the id that "keys list" shows')
    .option('--json', 'print one JSON object')
    .action(async (keyId: string, flags: KeyFlags) => {
      const { revokeKey } = await import('./operate/keys.ts');
      finish(await revokeKey(keyId, flags));
    });
  withEnv(
    keys
      .command('reseal')
      .description(
        'encrypts webhook secrets with the newest ENCRYPTION_KEY, so that older ones can be dropped',
      ),
  )
    .option('--json', 'print one JSON object')
    .action(async (flags: ResealFlags) => {
      const { reseal } = await import('./operate/reseal.ts');
      finish(await reseal(flags));
    });
}

function addMerchants(program: Command, finish: Finish): void {
  const merchants = program
    .command('merchants')
    .description('merchants: tier, platform fee, apps and subscriptions');
  withEnv(merchants.command('list').description('merchants, newest first'))
    .option('--tier <tier>', 'only this tier: free or pro', oneOf('free', 'pro'))
    .option('--json', 'print one line of JSON per merchant')
    .action(async (flags: MerchantFlags) => {
      const { listMerchants } = await import('./operate/merchants.ts');
      finish(await listMerchants(flags));
    });
  withEnv(
    merchants
      .command('show')
      .description('one merchant: apps, keys, subscriptions and collected amounts'),
  )
    .argument('<merchant>', 'id or wallet')
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, flags: MerchantFlags) => {
      const { showMerchant } = await import('./operate/merchants.ts');
      finish(await showMerchant(merchant, flags));
    });
  withEnv(
    merchants
      .command('set-tier')
      .description('free or pro: rate limit and CSV export; effective from the next request'),
  )
    .argument('<merchant>', 'id or wallet')
    .argument('<tier>', 'free or pro', oneOf('free', 'pro'))
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, tier: 'free' | 'pro', flags: MerchantFlags) => {
      const { setTier } = await import('./operate/merchants.ts');
      finish(await setTier(merchant, tier, flags));
    });
  withEnv(
    merchants
      .command('erase')
      .description(
        "erases a merchant's personal data: names, e-mail, URLs, keys, secrets, event bodies; payments stay",
      ),
  )
    .argument('<merchant>', 'id or wallet')
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, flags: EraseFlags) => {
      const { erase } = await import('./operate/erase-merchant.ts');
      finish(await erase(merchant, flags));
    });
  const bps = wholeNumber(0, 10_000);
  withEnv(
    merchants
      .command('set-fee')
      .description("the merchant's platform fee; effective for payments signed from now on"),
  )
    .argument('<merchant>', 'id or wallet')
    .argument(
      '<bps>',
      'hundredths of a percent, 0 to 10000, or "default" for PLATFORM_FEE_BPS',
      (value) => (value === 'default' ? null : bps(value)),
    )
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, feeBps: number | null, flags: MerchantFlags) => {
      const { setFee } = await import('./operate/merchants.ts');
      finish(await setFee(merchant, feeBps, flags));
    });
}
