// `billing merchants`: lists merchants, erases personal data, and sets a merchant's tier, platform
// fee and sponsored rent. Only the operator can set these.
import type { Command } from 'commander';
import { runCommand } from '../../daemon/run.ts';
import {
  listMerchantsAdmin,
  type MerchantAdminRow,
  type MerchantTotals,
  readMerchantTotals,
  type Tier,
  updateFee,
  updateTier,
} from '../../db/accounts/merchants.ts';
import { readMerchantOut } from '../../db/offers/sponsor-budgets.ts';
import { countLiveSubscriptions, eraseMerchant } from '../../db/operating/erasure.ts';
import { OperatorError } from '../../errors.ts';
import { formatUsdcExact } from '../../format.ts';
import { requestsPerMinute } from '../../http/door/limits.ts';
import { type CommonFlags, type SetExitCode, oneOf, wholeNumber, withEnv } from '../arguments.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { print, printJson, painter } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table, type Cell } from '../terminal/table.ts';
import { merchantOf } from './named-merchant.ts';
import { printList } from './print-list.ts';
import { type ReasonFlag, record, recorded, withReason } from './recorded.ts';
import { addSetSponsoring, sponsoringInWords } from './set-sponsoring.ts';
import { addApprove, addSuspending } from './suspend.ts';

interface ListFlags extends CommonFlags {
  tier?: Tier;
}

interface EraseFlags extends ReasonFlag {
  yes?: boolean;
}

export function addMerchants(merchants: Command, setExitCode: SetExitCode): void {
  addReading(merchants, setExitCode);
  addChanges(merchants, setExitCode);
  addSetSponsoring(merchants, setExitCode);
  addSuspending(merchants, setExitCode, 'merchant');
  addApprove(merchants, setExitCode);
}

function addReading(merchants: Command, setExitCode: SetExitCode): void {
  withEnv(merchants.command('list').description('merchants, newest first'))
    .option('--tier <tier>', 'only this tier: free or pro', oneOf('free', 'pro'))
    .option('--json', 'print one line of JSON per merchant')
    .action(async (flags: ListFlags) => setExitCode(await listMerchants(flags)));
  withEnv(
    merchants
      .command('show')
      .description('one merchant: apps, keys, subscriptions and collected amounts'),
  )
    .argument('<merchant>', 'id or wallet')
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, flags: CommonFlags) =>
      setExitCode(await showMerchant(merchant, flags)),
    );
}

function addChanges(merchants: Command, setExitCode: SetExitCode): void {
  const changing = (name: string, description: string) =>
    withReason(withEnv(merchants.command(name).description(description)))
      .argument('<merchant>', 'id or wallet')
      .option('--json', 'print one JSON object');
  changing('set-tier', 'free or pro: rate limit and CSV export; effective from the next request')
    .argument('<tier>', 'free or pro', oneOf('free', 'pro'))
    .action(async (merchant: string, tier: Tier, flags: ReasonFlag) =>
      setExitCode(await setTier(merchant, tier, flags)),
    );
  changing(
    'erase',
    "erases a merchant's personal data: names, e-mail, URLs, keys, secrets, event bodies; payments stay",
  )
    .option('--yes', 'do not ask')
    .action(async (merchant: string, flags: EraseFlags) =>
      setExitCode(await erase(merchant, flags)),
    );
  const bps = wholeNumber(0, 10_000);
  changing('set-fee', "the merchant's platform fee; effective for payments signed from now on")
    .argument(
      '<bps>',
      'hundredths of a percent, 0 to 10000, or "default" for PLATFORM_FEE_BPS',
      (value) => (value === 'default' ? null : bps(value)),
    )
    .action(async (merchant: string, feeBps: number | null, flags: ReasonFlag) =>
      setExitCode(await setFee(merchant, feeBps, flags)),
    );
}

function listMerchants({ envFile, tier, json = false }: ListFlags): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    await printList({
      noun: 'merchants',
      json,
      page: (after, limit) => listMerchantsAdmin(sql, { tier: tier ?? null, after, limit }),
      head: ['ID', 'WALLET', 'NAME', 'TIER', 'FEE', 'STATE', 'CREATED'],
      row: ({ id, wallet, name, tier: its, feeBps, suspension, createdAt }) => [
        id,
        wallet,
        name,
        its,
        feeInWords(feeBps, config.feeBps),
        stateInWords(suspension),
        createdAt,
      ],
      none: 'There are no merchants.',
    });
    return 0;
  });
}

function showMerchant(text: string, { envFile, json = false }: CommonFlags): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    const merchant = await merchantOf(sql, text);
    const totals = await withProgress('adding up payments', () =>
      readMerchantTotals(sql, merchant.id),
    );
    const sponsoring = await readMerchantOut(sql, merchant.id);
    if (sponsoring === undefined) throw new Error(`there is no merchant ${merchant.id}`);
    const effectiveFeeBps = merchant.feeBps ?? config.feeBps;
    if (json) printJson({ ...merchant, effectiveFeeBps, ...totals, sponsoring });
    else print(describe(merchant, totals, sponsoringInWords(config, sponsoring), config.feeBps));
    return 0;
  });
}

function setTier(text: string, tier: Tier, flags: ReasonFlag): Promise<number> {
  const { envFile, json = false } = flags;
  return runCommand(envFile, async ({ sql }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const before = await recorded(
      sql,
      'merchants set-tier',
      flags,
      (tx) => updateTier(tx, id, tier),
      (old) => (old === tier ? undefined : `merchant ${wallet}: ${old ?? 'unknown'} to ${tier}`),
    );
    if (json) printJson({ id, wallet, tier, before });
    else if (before === tier) print(`${wallet} is ${tier} already.`);
    else
      print(
        `${wallet} is ${tier} now (${requestsPerMinute[tier]} requests per minute); it was ${before ?? 'unknown'}.`,
      );
    return 0;
  });
}

/**
 * Sets a merchant's platform fee. If `feeBps` is null, the merchant gets the operator's default
 * fee. Returns the exit code.
 */
function setFee(text: string, feeBps: number | null, flags: ReasonFlag): Promise<number> {
  const { envFile, json = false } = flags;
  return runCommand(envFile, async ({ sql, config }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const words = (bps: number | null) => feeInWords(bps, config.feeBps);
    const before = await recorded(
      sql,
      'merchants set-fee',
      flags,
      async (tx) => (await updateFee(tx, id, feeBps))?.before ?? null,
      (old) =>
        old === feeBps ? undefined : `merchant ${wallet}: ${words(old)} to ${words(feeBps)}`,
    );
    if (json) printJson({ id, wallet, feeBps, before });
    else if (before === feeBps) print(`The fee of ${wallet} is ${words(feeBps)} already.`);
    else
      print(
        `The fee of ${wallet} is ${words(feeBps)} now, for payments that are signed from here on; it was ${words(before)}.`,
      );
    return 0;
  });
}

/**
 * Asks for confirmation and erases a merchant's personal data. Payments stay, because they are
 * financial records. Returns the exit code: 1 when the user did not confirm. Throws an
 * OperatorError while the merchant has live subscriptions.
 */
function erase(text: string, flags: EraseFlags): Promise<number> {
  const { envFile, yes = false, json = false } = flags;
  return runCommand(envFile, async ({ sql, signal, log }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const live = await countLiveSubscriptions(sql, id);
    if (live > 0)
      throw new OperatorError(
        `${wallet} has ${live} active or past due subscriptions. Their merchant cancels them first, at the desk or over the API (POST .../subscriptions/{subscriptionId}/cancel with mode "force"): nothing was erased.`,
      );
    if (!yes) {
      if (!canAsk())
        throw new OperatorError('Nothing was erased: without a terminal, add --yes.', 2);
      const question = `Erase names, e-mail, URLs, API keys, webhooks and the texts of events of ${wallet}? This cannot be undone.`;
      if (!(await confirm(question, signal))) return 1;
    }
    // The action is recorded before the erasure starts, because an interrupted erasure may have
    // erased a part of the data.
    await record(sql, 'merchants erase', `merchant ${wallet}`, flags);
    const erased = await withProgress('erasing', () => eraseMerchant(sql, { id, wallet }));
    log.info({ merchantId: id, ...erased }, 'merchant erased');
    if (json) printJson({ id, wallet, ...erased });
    else
      print(
        `Erased of ${wallet}: ${erased.apps} apps, ${erased.plans} plans, ${erased.keys} API keys, ${erased.endpoints} webhook endpoints, ` +
          `${erased.subscriptions} subscriptions' own ids, ${erased.customers} customers, ${erased.checkouts} checkout sessions, ${erased.buyers} buyers' details on receipts, ${erased.events} events, ${erased.deliveries} deliveries. Payments stay: they are the books.`,
      );
    return 0;
  });
}

function feeInWords(bps: number | null, fallback: number): string {
  return bps === null ? `${percent(fallback)} (default)` : percent(bps);
}

function stateInWords(suspension: MerchantAdminRow['suspension']): string {
  if (suspension === null) return 'active';
  return suspension.waiting ? 'waiting' : 'suspended';
}

function percent(bps: number): string {
  return `${bps / 100}%`;
}

function describe(
  merchant: MerchantAdminRow,
  totals: MerchantTotals,
  sponsoring: string,
  fallback: number,
): string {
  const { active, pastDue, cancelled, expired } = totals.subscriptions;
  const facts: [string, Cell][] = [
    ['Id', merchant.id],
    ['Wallet', merchant.wallet],
    ['Name', merchant.name],
    ['E-mail', merchant.email],
    ['Tier', `${merchant.tier}, ${requestsPerMinute[merchant.tier]} requests per minute`],
    ['Fee', feeInWords(merchant.feeBps, fallback)],
    ['Sponsoring', sponsoring],
    [
      'State',
      `${stateInWords(merchant.suspension)}${merchant.suspension === null ? '' : `: ${merchant.suspension.reason}`}`,
    ],
    ['Since', merchant.createdAt],
    ['Live keys', totals.keys],
    ['Plans', totals.plans],
    [
      'Subscriptions',
      `${active} active, ${pastDue} past due, ${cancelled} cancelled, ${expired} expired`,
    ],
    [
      'Collected',
      `${formatUsdcExact(totals.gross)} USDC in ${totals.payments} payments, ${formatUsdcExact(totals.fees)} of it fees`,
    ],
  ];
  const paint = painter(process.stdout);
  const apps = totals.apps.map(({ id, name, webhookUrl }) => [id, name, webhookUrl]);
  return `${table([], facts, paint)}${apps.length === 0 ? '' : `\n${table(['APP', 'NAME', 'WEBHOOK'], apps, paint)}`}`;
}
