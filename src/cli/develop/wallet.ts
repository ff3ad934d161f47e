// `billing wallet` signs and sends transactions with keypair files of the Solana CLI. The command
// never prints a secret key and never takes a secret key as an argument.
import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { createKeypairFile, type Keypair, readKeypair } from '../../chain/keypair.ts';
import { loadConfig } from '../../config/config.ts';
import { interruptible } from '../../daemon/run.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { type CommonFlags, type Finish, oneOf, withEnv } from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { type Relayed, relayTransaction, type Role, subscribeTo } from './wallet-api.ts';

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
}

interface SendFlags extends ChainFlags, ApiFlags {
  as: Role;
}

const FILE = 'the keypair file (Solana CLI format, mode 600)';
const RPC = 'the chain; default: SOLANA_RPC_URL';

export function addWallet(command: Command, finish: Finish): void {
  const add = (name: string, description: string) =>
    command.command(name).description(description).option('--json', 'print one JSON object');
  add('new', 'makes a wallet in a new file that only you can read, and prints its address')
    .argument('<file>', FILE)
    .action(async (file: string, { json }: CommonFlags) =>
      finish(showAddress(await refusing(createKeypairFile(file)), json)),
    );
  add('address', 'prints the address')
    .argument('<file>', FILE)
    .action(async (file: string, { json }: CommonFlags) =>
      finish(showAddress(await load(file), json)),
    );
  withEnv(add('balance', 'prints SOL and USDC'))
    .argument('<file-or-address>', `${FILE}, or any address`)
    .option('--rpc-url <url>', RPC)
    .option('--mint <address>', "USDC's mint; default: the one of the cluster")
    .action(async (wallet: string, flags: BalanceFlags) => finish(await balance(wallet, flags)));
  add('sign', 'signs a sign-in text (prints Base58) or a transaction of the API (prints Base64)')
    .argument('<file>', FILE)
    .argument('[text]', 'the text or the transaction in Base64; default: stdin')
    .action(async (file: string, given: string | undefined, { json }: CommonFlags) =>
      finish(await sign(file, given, json)),
    );
  withEnv(add('send', 'signs a transaction of the API, sends it and waits until it is confirmed'))
    .argument('<file>', FILE)
    .argument('[transaction]', 'in Base64; default: stdin')
    .option('--rpc-url <url>', RPC)
    .option('--api-url <url>', 'send it through this API, which also registers or activates')
    .addOption(
      new Option('--as <role>', 'with --api-url: subscriber or merchant')
        .argParser(oneOf('subscriber', 'merchant'))
        .default('subscriber'),
    )
    .action(async (file: string, given: string | undefined, flags: SendFlags) =>
      finish(await send(file, given, flags)),
    );
  withEnv(add('subscribe', 'subscribes the wallet to a plan through the API'))
    .argument('<file>', FILE)
    .argument('<planId>', 'the plan')
    .option('--api-url <url>', 'the API; default: BILLING_API_URL')
    .option('--session <id>', 'in this checkout session')
    .action(async (file: string, planId: string, flags: SubscribeFlags) =>
      finish(await subscribe(file, planId, flags)),
    );
}

/** Turns any error of reading or writing a keypair file into an OperatorError. */
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

/** The start of a sign-in text (Sign-In With Solana). The group captures the wallet's address. */
const SIGN_IN = /^\S+ wants you to sign in with your Solana account:\n(\S+)\n/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

async function sign(file: string, given: string | undefined, json = false): Promise<number> {
  const wallet = await load(file);
  const asked = given ?? (await text(process.stdin));
  if (BASE64.test(asked.trim())) {
    const { signedBy } = await import('./wallet-chain.ts');
    const transaction = signedBy(wallet, asked.trim());
    if (json) printJson({ transaction });
    else print(transaction);
    return 0;
  }
  // The wallet must sign exactly the bytes of the API's text. Only the newline at the end of stdin
  // is removed.
  const message = given ?? asked.replace(/\n$/, '');
  const [, address] = SIGN_IN.exec(message) ?? [];
  if (address === undefined)
    throw new OperatorError(
      'This is neither a transaction in Base64 nor a sign-in text (message of POST /auth/nonce).',
      2,
    );
  if (address !== wallet.address)
    throw new OperatorError(
      `The sign-in text is of the wallet ${address}, and ${file} is ${wallet.address}.`,
      2,
    );
  const { default: bs58 } = await import('bs58');
  const signature = bs58.encode(wallet.sign(Buffer.from(message)));
  if (json) printJson({ signature });
  else print(signature);
  return 0;
}

async function send(file: string, given: string | undefined, flags: SendFlags): Promise<number> {
  const wallet = await load(file);
  const { sendAndConfirm, signedBy } = await import('./wallet-chain.ts');
  const transaction = signedBy(wallet, (given ?? (await text(process.stdin))).trim());
  return interruptible(false, async (signal) => {
    if (flags.apiUrl === undefined) {
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
  const { session } = flags;
  const apiUrl = flags.apiUrl ?? loadConfig('developer', { envFile: flags.envFile }).apiUrl;
  return interruptible(false, async (signal) =>
    report(await subscribeTo({ apiUrl, wallet, planId, session }, signal), wallet, flags.json),
  );
}

function report(relayed: Relayed, wallet: Keypair, json = false): number {
  const { signature, status, subscription, plan } = relayed;
  if (json) printJson(relayed);
  else if (status === 'confirmed') {
    print(signature);
    if (subscription) print(`subscription ${subscription.id}`);
    if (plan) print(`plan ${plan.id} is ${plan.status}`);
  } else throw new OperatorError(failureText(relayed, wallet));
  return status === 'confirmed' ? 0 : 1;
}

function failureText({ signature, status, reason }: Relayed, { address }: Keypair): string {
  const outcome = status === 'pending' ? 'is pending' : status;
  const text = `The transaction ${signature} of the wallet ${address} ${outcome}`;
  // A reason of the API is a sentence with its full stop.
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
