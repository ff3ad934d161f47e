// `billing merchants suspend|resume|approve` and `billing wallets suspend|resume|list`. A suspended
// merchant or subscriber can only read, cancel and close.
import bs58 from 'bs58';
import type { Command } from 'commander';
import { operator } from '../../config/operator.ts';
import { runCommand } from '../../daemon/run.ts';
import {
  approveMerchant,
  endSuspension,
  listSuspensions,
  suspend,
  type SuspendedRole,
} from '../../db/accounts/suspensions.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { OperatorError } from '../../errors.ts';
import { type CommonFlags, type SetExitCode, parseReason, withEnv } from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { merchantOf } from './named-merchant.ts';
import { printList } from './print-list.ts';

interface SuspendFlags extends CommonFlags {
  reason: string;
}

interface ApproveFlags extends CommonFlags {
  reason?: string;
}

/** Adds the commands `suspend` and `resume` for merchants, or for wallets of subscribers. */
export function addSuspending(
  parent: Command,
  setExitCode: SetExitCode,
  role: SuspendedRole,
): void {
  const argument = role === 'merchant' ? ['<merchant>', 'id or wallet'] : ['<wallet>', 'address'];
  const about = {
    suspend: `stops one ${role}: it can only read, cancel and close, its payments are not collected, and nothing new is registered`,
    resume: 'ends a suspension; what is due is collected',
  };
  for (const verb of ['suspend', 'resume'] as const)
    withEnv(parent.command(verb).description(about[verb]))
      .argument(argument[0] ?? '', argument[1])
      .requiredOption('--reason <text>', 'why, for the record; "suspend" shows it to the account')
      .option('--json', 'print one JSON object')
      .action(async (text: string, flags: SuspendFlags) =>
        setExitCode(await change(verb, role, text, flags)),
      );
}

export function addApprove(merchants: Command, setExitCode: SetExitCode): void {
  withEnv(
    merchants
      .command('approve')
      .description('lets a merchant in where MERCHANTS is approval, also before its first sign-in'),
  )
    .argument('<wallet>', 'the wallet with which the merchant signs in')
    .option('--reason <text>', 'for the record')
    .option('--json', 'print one JSON object')
    .action(async (wallet: string, flags: ApproveFlags) =>
      setExitCode(await approve(wallet, flags)),
    );
}

/** Adds the commands of `billing wallets`, for suspended wallets of subscribers. */
export function addWallets(wallets: Command, setExitCode: SetExitCode): void {
  addSuspending(wallets, setExitCode, 'subscriber');
  withEnv(wallets.command('list').description('suspended wallets of subscribers, newest first'))
    .option('--json', 'print one line of JSON per wallet')
    .action(async (flags: CommonFlags) => setExitCode(await listWallets(flags)));
}

/** Suspends a merchant or a subscriber, or ends the suspension. Returns the exit code. */
function change(
  verb: 'suspend' | 'resume',
  role: SuspendedRole,
  text: string,
  { envFile, json = false, reason: given }: SuspendFlags,
): Promise<number> {
  const reason = parseReason(given);
  return runCommand(envFile, async ({ sql }) => {
    const wallet = await walletOf(sql, role, text);
    const act = verb === 'suspend' ? suspend : endSuspension;
    const changed = await act(sql, { role, wallet, reason, by: operator() });
    if (json) printJson({ role, wallet, changed });
    else print(words(verb, changed, `${role === 'merchant' ? 'Merchant' : 'Wallet'} ${wallet}`));
    return 0;
  });
}

function words(verb: 'suspend' | 'resume', changed: boolean, who: string): string {
  if (verb === 'suspend')
    return changed
      ? `${who} is suspended: it can only read, cancel and close, and no new payment is signed. Payments that were signed before are sent and settled.`
      : `${who} was suspended already; it has the new reason now.`;
  return changed
    ? `${who} is no longer suspended: what is due is collected within a minute or two.`
    : `${who} was not suspended.`;
}

function approve(
  wallet: string,
  { envFile, json = false, reason: given }: ApproveFlags,
): Promise<number> {
  assertWallet(wallet);
  const reason = given === undefined ? null : parseReason(given);
  return runCommand(envFile, async ({ sql }) => {
    const outcome = await approveMerchant(sql, { wallet, reason, by: operator() });
    if (outcome === 'suspended')
      throw new OperatorError(
        `${wallet} is suspended: "billing merchants resume" ends that. Nothing was changed.`,
      );
    if (json) printJson({ wallet, changed: outcome !== 'already' });
    else
      print(
        {
          created: `Merchant ${wallet} is approved, and was created: it has never signed in.`,
          approved: `Merchant ${wallet} is approved.`,
          already: `Merchant ${wallet} does not wait for approval.`,
        }[outcome],
      );
    return 0;
  });
}

function listWallets({ envFile, json = false }: CommonFlags): Promise<number> {
  return runCommand(envFile, async ({ sql }) => {
    await printList({
      noun: 'wallets',
      json,
      page: (after, limit) => listSuspensions(sql, { role: 'subscriber', after, limit }),
      head: ['WALLET', 'SINCE', 'REASON'],
      row: ({ wallet, since, reason }) => [wallet, since, reason],
      none: 'No wallet is suspended.',
    });
    return 0;
  });
}

async function walletOf(sql: Queryable, role: SuspendedRole, text: string): Promise<string> {
  if (role === 'merchant') return (await merchantOf(sql, text)).wallet;
  assertWallet(text);
  return text;
}

function assertWallet(text: string): void {
  if (bs58.decodeUnsafe(text)?.length === 32) return;
  throw new OperatorError(`"${text}" is not a wallet: it should be a Solana address in Base58.`, 2);
}
