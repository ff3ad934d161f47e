// `billing merchants`: lists merchants, and sets the tier and platform fee, which only the operator
// can.
import { runCommand } from '../../daemon/run.ts';
import {
  listMerchantsAdmin,
  type MerchantAdminRow,
  type MerchantTotals,
  readMerchantTotals,
  type Tier,
  updateFee,
  updateTier,
} from '../../db/merchants.ts';
import { formatUsdcExact } from '../../format.ts';
import { requestsPerMinute } from '../../http/limits.ts';
import { merchantOf } from '../lookups.ts';
import { painter } from '../terminal/colour.ts';
import { answer, answerJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table, type Cell } from '../terminal/table.ts';
import { printList } from './print-list.ts';

export interface MerchantFlags {
  envFile?: string;
  tier?: Tier;
  json?: boolean;
}

/** Lists merchants. Returns the exit code. */
export function listMerchants({ envFile, tier, json = false }: MerchantFlags): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    await printList({
      what: 'merchants',
      json,
      page: (after, limit) => listMerchantsAdmin(sql, { tier: tier ?? null, after, limit }),
      head: ['ID', 'WALLET', 'NAME', 'TIER', 'FEE', 'CREATED'],
      row: ({ id, wallet, name, tier: its, feeBps, createdAt }) => [
        id,
        wallet,
        name,
        its,
        feeInWords(feeBps, config.feeBps),
        createdAt,
      ],
      none: 'There are no merchants.',
    });
    return 0;
  });
}

/** Shows one merchant. Returns the exit code. */
export function showMerchant(
  text: string,
  { envFile, json = false }: MerchantFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    const merchant = await merchantOf(sql, text);
    const totals = await withProgress('adding up payments', () =>
      readMerchantTotals(sql, merchant.id),
    );
    if (json)
      answerJson({ ...merchant, effectiveFeeBps: merchant.feeBps ?? config.feeBps, ...totals });
    else answer(describe(merchant, totals, config.feeBps));
    return 0;
  });
}

/** Sets the tier. Returns the exit code. */
export function setTier(
  text: string,
  tier: Tier,
  { envFile, json = false }: MerchantFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const before = await updateTier(sql, id, tier);
    if (json) answerJson({ id, wallet, tier, before });
    else if (before === tier) answer(`${wallet} is ${tier} already.`);
    else
      answer(
        `${wallet} is ${tier} now (${requestsPerMinute[tier]} requests per minute); it was ${before ?? 'unknown'}.`,
      );
    return 0;
  });
}

/** Sets the platform fee; null: the operator's default. Returns the exit code. */
export function setFee(
  text: string,
  feeBps: number | null,
  { envFile, json = false }: MerchantFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const before = (await updateFee(sql, id, feeBps))?.before ?? null;
    const words = (bps: number | null) => feeInWords(bps, config.feeBps);
    if (json) answerJson({ id, wallet, feeBps, before });
    else if (before === feeBps) answer(`The fee of ${wallet} is ${words(feeBps)} already.`);
    else
      answer(
        `The fee of ${wallet} is ${words(feeBps)} now, for payments that are signed from here on; it was ${words(before)}.`,
      );
    return 0;
  });
}

function feeInWords(bps: number | null, fallback: number): string {
  return bps === null ? `${percent(fallback)} (default)` : percent(bps);
}

function percent(bps: number): string {
  return `${bps / 100}%`;
}

function describe(merchant: MerchantAdminRow, totals: MerchantTotals, fallback: number): string {
  const { active, pastDue, cancelled, expired } = totals.subscriptions;
  const facts: [string, Cell][] = [
    ['Id', merchant.id],
    ['Wallet', merchant.wallet],
    ['Name', merchant.name],
    ['E-mail', merchant.email],
    ['Tier', `${merchant.tier}, ${requestsPerMinute[merchant.tier]} requests per minute`],
    ['Fee', feeInWords(merchant.feeBps, fallback)],
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
