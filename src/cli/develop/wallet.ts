// `billing wallet` signs and sends transactions with keypair files of the Solana CLI. The command
// never prints a secret key and never takes a secret key as an argument.
import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { createKeypairFile, type Keypair, readKeypair } from '../../chain/keypair.ts';
import { loadConfig } from '../../config/config.ts';
import { interruptible } from '../../daemon/run.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { type CommonFlags, decimal, type SetExitCode, oneOf, withEnv } from '../arguments.ts';
import { apiUrlOf } from '../session.ts';
import { canAsk } from '../terminal/ask.ts';
import { note, print, printJson } from '../terminal/print.ts';
import { safeText } from '../terminal/safe-text.ts';
import type { Role } from './signing-checks.ts';
import { type Relayed, relayTransaction, subscribeTo } from './wallet-session.ts';

interface ChainFlags extends CommonFlags {
  rpcUrl?: string;
}

interface BalanceFlags extends ChainFlags {
  mint?: string;
}

interface ApiFlags extends CommonFlags {
  apiUrl?: string;
}

interface SubscribeFlags extends ApiFlags {
  session?: string;
  /** Base units. */
  amount?: bigint;
  replaces?: string;
}

/** The transfers that a transaction may make, and the programs that it may call. */
interface TransferFlags {
  to?: string[];
  sol?: bigint;
  usdc?: bigint;
  allowProgram?: string[];
}

interface SignFlags extends ApiFlags, TransferFlags {
  as: Role;
}

interface SendFlags extends ChainFlags, SignFlags {}

const FILE = 'the keypair file (Solana CLI format, mode 600)';
const RPC = 'the chain; default: SOLANA_RPC_URL';

export function addWallet(command: Command, setExitCode: SetExitCode): void {
  const add = (name: string, description: string) =>
    command.command(name).description(description).option('--json', 'print one JSON object');
  add('new', 'makes a wallet in a new file that only you can read, and prints its address')
    .argument('<file>', FILE)
    .action(async (file: string, { json }: CommonFlags) =>
      setExitCode(showAddress(await refusing(createKeypairFile(file)), json)),
    );
  add('address', 'prints the address')
    .argument('<file>', FILE)
    .action(async (file: string, { json }: CommonFlags) =>
      setExitCode(showAddress(await load(file), json)),
    );
  withEnv(add('balance', 'prints SOL and USDC'))
    .argument('<file-or-address>', `${FILE}, or any address`)
    .option('--rpc-url <url>', RPC)
    .option('--mint <address>', "USDC's mint; default: the one of the cluster")
    .action(async (wallet: string, flags: BalanceFlags) =>
      setExitCode(await balance(wallet, flags)),
    );
  withTransfers(
    add('sign', 'signs a sign-in text (prints Base58) or a transaction of the API (prints Base64)'),
  )
    .argument('<file>', FILE)
    .argument('[text]', 'the text or the transaction in Base64; default: stdin')
    .option('--api-url <url>', 'the API that the sign-in is for; default: BILLING_API_URL')
    .addOption(asRole('the role of the sign-in'))
    .action(async (file: string, argument: string | undefined, flags: SignFlags) =>
      setExitCode(await sign(file, argument, flags)),
    );
  withTransfers(
    add('send', 'signs a transaction of the API, sends it and waits until it is confirmed'),
  )
    .argument('<file>', FILE)
    .argument('[transaction]', 'in Base64; default: stdin')
    .option('--rpc-url <url>', RPC)
    .option('--api-url <url>', 'send it through this API, which also registers or activates')
    .addOption(asRole('with --api-url: subscriber or merchant'))
    .action(async (file: string, argument: string | undefined, flags: SendFlags) =>
      setExitCode(await send(file, argument, flags)),
    );
  withEnv(add('subscribe', 'subscribes the wallet to a plan through the API'))
    .argument('<file>', FILE)
    .argument('<planId>', 'the plan')
    .option('--api-url <url>', 'the API; default: BILLING_API_URL')
    .option('--session <id>', 'in this checkout session')
    .option('--amount <usdc>', 'the most that the plan may cost a period; else asks', decimal(6))
    .option('--replaces <address>', 'the subscription that it may cancel; else asks')
    .action(async (file: string, planId: string, flags: SubscribeFlags) =>
      setExitCode(await subscribe(file, planId, flags)),
    );
}

function asRole(about: string): Option {
  return new Option('--as <role>', about)
    .argParser(oneOf('subscriber', 'merchant'))
    .default('subscriber');
}

/** Adds the flags that ask for transfers and for programs that the command cannot read. */
function withTransfers(command: Command): Command {
  const each = (value: string, all: string[] = []) => [...all, value];
  return withEnv(command)
    .option('--to <address>', 'a wallet that the transaction may pay; may be repeated', each)
    .option('--usdc <amount>', 'the USDC that it transfers in all', decimal(6))
    .option('--sol <amount>', 'the SOL that it transfers in all', decimal(9))
    .option('--allow-program <address>', 'a further program that it may call', each);
}

/** Converts an error of reading or writing a keypair file into an OperatorError. */
function refusing<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw new OperatorError(`${messageOf(error)}.`, 1, { cause: error });
  });
}

const load = (file: string): Promise<Keypair> => refusing(readKeypair(file));

function showAddress({ address }: Keypair, json = false): number {
  if (json) printJson({ address });
  else print(address);
  return 0;
}

async function balance(wallet: string, flags: BalanceFlags): Promise<number> {
  const { isAddress } = await import('../../chain/program/addresses.ts');
  const address = isAddress(wallet) ? wallet : (await load(wallet)).address;
  const { balancesOf } = await import('./wallet-chain.ts');
  return interruptible(false, async () => {
    const { lamports, usdc, mint } = await balancesOf(rpcUrlOf(flags), address, flags.mint);
    if (flags.json === true) printJson({ address, lamports, usdc, mint });
    else {
      const { formatSol, formatUsdcExact } = await import('../../format.ts');
      print(`${address} has ${formatUsdcExact(usdc)} USDC and ${formatSol(lamports)} SOL.`);
    }
    return 0;
  });
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

async function sign(file: string, argument: string | undefined, flags: SignFlags): Promise<number> {
  const wallet = await load(file);
  const input = argument ?? (await text(process.stdin));
  if (BASE64.test(input.trim())) {
    const transaction = await signAsked(wallet, input.trim(), flags);
    if (flags.json === true) printJson({ transaction });
    else print(transaction);
    return 0;
  }
  // The wallet must sign exactly the bytes of the API's text. Only the newline at the end of stdin
  // is removed.
  const message = argument ?? input.replace(/\n$/, '');
  const apiUrl = flags.apiUrl ?? loadConfig('developer', { envFile: flags.envFile }).givenApiUrl;
  if (apiUrl === undefined)
    throw new OperatorError(
      'Name the API that the sign-in is for: --api-url, or the variable BILLING_API_URL.',
      2,
    );
  const { signInFault } = await import('./signing-checks.ts');
  const { as: role } = flags;
  const request = { wallet: wallet.address, role, apiUrl: apiUrlOf(apiUrl), now: new Date() };
  const fault = signInFault(message, request);
  if (fault !== undefined)
    throw new OperatorError(
      `This is neither a transaction in Base64 nor a sign-in text to sign: ${safeText(fault)}.`,
      2,
    );
  note(`Signing in to ${request.apiUrl} as a ${role}.`);
  const { default: bs58 } = await import('bs58');
  const signature = bs58.encode(wallet.sign(Buffer.from(message)));
  if (flags.json === true) printJson({ signature });
  else print(signature);
  return 0;
}

/** Throws an OperatorError for a text that is not an address. */
async function refuseOther(addresses: string[]): Promise<void> {
  const { isAddress } = await import('../../chain/program/addresses.ts');
  const wrong = addresses.find((address) => !isAddress(address));
  if (wrong !== undefined)
    throw new OperatorError(`"${wrong}" is not an address: it should be Base58 of 32 bytes.`, 2);
}

/** Signs the user's transaction if it makes only the transfers that the flags ask for. */
async function signAsked(
  wallet: Keypair,
  transaction: string,
  { envFile, to = [], sol, usdc, allowProgram: programs = [] }: TransferFlags & CommonFlags,
): Promise<string> {
  await refuseOther([...to, ...programs]);
  const { readingOf, signedBy } = await import('./wallet-chain.ts');
  const { transactionFault } = await import('./signing-checks.ts');
  const reading = readingOf(wallet.address, loadConfig('developer', { envFile }));
  return signedBy(wallet, transaction, reading, (message) =>
    transactionFault(message, { ...reading, to, sol, usdc, programs }),
  );
}

async function send(file: string, argument: string | undefined, flags: SendFlags): Promise<number> {
  const wallet = await load(file);
  const unsigned = (argument ?? (await text(process.stdin))).trim();
  const transaction = await signAsked(wallet, unsigned, flags);
  return interruptible(false, async (signal) => {
    if (flags.apiUrl === undefined) {
      const { sendAndConfirm } = await import('./wallet-chain.ts');
      const signature = await sendAndConfirm(rpcUrlOf(flags), transaction, signal);
      return report({ signature, status: 'confirmed', reason: null }, wallet, flags.json);
    }
    const { apiUrl, as } = flags;
    const relayed = await relayTransaction({ apiUrl, wallet, as, transaction }, signal);
    return report(relayed, wallet, flags.json);
  });
}

async function subscribe(file: string, planId: string, flags: SubscribeFlags): Promise<number> {
  const wallet = await load(file);
  const { session, amount: most, replaces } = flags;
  if (most === undefined && !canAsk())
    throw new OperatorError(
      'Without a terminal, name the most that the plan may cost a period: --amount <usdc>.',
      2,
    );
  if (replaces !== undefined) await refuseOther([replaces]);
  const network = loadConfig('developer', { envFile: flags.envFile });
  const { apiUrl = network.apiUrl } = flags;
  return interruptible(false, async (signal) => {
    const request = { apiUrl, wallet, planId, session, most, replaces, network };
    const relayed = await subscribeTo(request, signal);
    return report(relayed, wallet, flags.json);
  });
}

function report(relayed: Relayed, wallet: Keypair, json = false): number {
  const { signature, status, subscription, plan } = relayed;
  if (json) printJson(relayed);
  else if (status === 'confirmed') {
    print(safeText(signature));
    if (subscription) print(safeText(`subscription ${subscription.id}`));
    if (plan) print(safeText(`plan ${plan.id} is ${plan.status}`));
  } else throw new OperatorError(failureText(relayed, wallet));
  return status === 'confirmed' ? 0 : 1;
}

function failureText({ signature, status, reason }: Relayed, { address }: Keypair): string {
  const outcome = status === 'pending' ? 'is pending' : status;
  const text = `The transaction ${signature} of the wallet ${address} ${outcome}`;
  // The API's `reason` already ends with a full stop.
  return reason === null ? `${text}.` : `${text}: ${reason}`;
}

function rpcUrlOf({ rpcUrl, envFile }: ChainFlags): string {
  const url = rpcUrl ?? loadConfig('developer', { envFile }).rpcUrls?.[0];
  if (url === undefined)
    throw new OperatorError('Name the chain: --rpc-url, or the variable SOLANA_RPC_URL.', 2);
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new OperatorError('--rpc-url must be an http:// or https:// URL.', 2);
  return url;
}
