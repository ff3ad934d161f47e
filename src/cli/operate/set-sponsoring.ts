// `billing merchants set-sponsoring`: an operator guarantees rent for a merchant, which raises the
// merchant's limit of sponsored rent above the value of its fees.
import type { Command } from 'commander';
import type { Config } from '../../config/config.ts';
import { runCommand } from '../../daemon/run.ts';
import type { MerchantOut } from '../../db/offers/sponsor-budgets.ts';
import { updateSponsoring } from '../../db/offers/sponsored-merchants.ts';
import { mayBeOut, sponsorLimits } from '../../domain/offers/limits.ts';
import { formatSol, formatUsdc } from '../../format.ts';
import {
  type CommonFlags,
  type SetExitCode,
  parseReason,
  wholeNumber,
  withEnv,
} from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { merchantOf } from './named-merchant.ts';
import { recorded } from './recorded.ts';

interface Flags extends CommonFlags {
  reason: string;
}

export function addSetSponsoring(merchants: Command, setExitCode: SetExitCode): void {
  const lamports = wholeNumber(0);
  withEnv(
    merchants
      .command('set-sponsoring')
      .description(
        'vouches for a merchant: sponsored rent of its subscribers that may be out at a time; effective at once',
      ),
  )
    .argument('<merchant>', 'id or wallet')
    .argument(
      '<lamports>',
      'at most SPONSOR_MERCHANT_LAMPORTS_OUT has an effect; "default": what its approval or its fees are worth',
      (value) => (value === 'default' ? null : BigInt(lamports(value))),
    )
    .requiredOption('--reason <text>', 'why, for the record (billing actions)', parseReason)
    .option('--json', 'print one JSON object')
    .action(async (merchant: string, given: bigint | null, flags: Flags) =>
      setExitCode(await setSponsoring(merchant, given, flags)),
    );
}

/**
 * Sets how many lamports of sponsored rent the operator guarantees for the merchant. Null removes
 * the guarantee. Returns the exit code.
 */
function setSponsoring(text: string, lamports: bigint | null, flags: Flags): Promise<number> {
  const { envFile, json = false } = flags;
  return runCommand(envFile, async ({ sql, config }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const before = await recorded(
      sql,
      'merchants set-sponsoring',
      flags,
      async (tx) => (await updateSponsoring(tx, id, lamports))?.before ?? null,
      (old) =>
        old === lamports
          ? undefined
          : `merchant ${wallet}: ${vouchedInWords(old)} to ${vouchedInWords(lamports)}`,
    );
    if (json) printJson({ id, wallet, lamports, before });
    else if (before === lamports)
      print(`Sponsored rent out of ${wallet}: ${vouchedInWords(lamports)} already.`);
    else
      print(
        `Sponsored rent out of ${wallet}: ${vouchedInWords(lamports)} now; it was ${vouchedInWords(before)}.${bounded(config, lamports)}`,
      );
    return 0;
  });
}

const vouchedInWords = (lamports: bigint | null) =>
  lamports === null ? 'default' : `${formatSol(lamports)} SOL`;

function bounded(config: Config, lamports: bigint | null): string {
  const limits = sponsorLimits(config);
  if (limits === undefined || lamports === null || lamports <= limits.merchantOut) return '';
  return ` SPONSOR_MERCHANT_LAMPORTS_OUT allows ${formatSol(limits.merchantOut)} SOL of it.`;
}

/**
 * Describes how much sponsored rent of a merchant is out, its limit, and the reason for the limit.
 */
export function sponsoringInWords(config: Config, merchant: MerchantOut): string {
  const { out, vouched, isApproved, fees } = merchant;
  const limits = sponsorLimits(config);
  const of = limits === undefined ? '' : ` of ${formatSol(mayBeOut(limits, merchant))}`;
  const why =
    vouched !== null
      ? `vouched for: ${formatSol(vouched)} SOL`
      : isApproved
        ? 'approved'
        : `by its fees, ${formatUsdc(fees)} USDC`;
  return `${formatSol(out)}${of} SOL of sponsored rent out; ${why}`;
}
