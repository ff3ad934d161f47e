// Checks that `billing wallet` makes before it signs. The functions are pure. They compare a
// sign-in text or a transaction's message with what the user asked for, and return the difference
// as a clause with "it" as its subject, or undefined. Import this module on demand, because it
// loads web3.js.
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  planAddress,
  subscriptionAddress,
} from '../../chain/program/addresses.ts';
import {
  cancelSubscription,
  closeInstruction,
  initAuthority,
  type Instruction,
  type InstructionKind,
  instructionKind,
  resumeSubscription,
  subscribe,
} from '../../chain/program/instructions.ts';
import { compileMessage, MAX_TRANSACTION_LENGTH } from '../../chain/transactions/message.ts';
import {
  type Decoded,
  type DecodedInstruction,
  decodeMessage,
  forbiddenChange,
  isSameInstruction,
} from '../../chain/transactions/signed.ts';
import {
  isRecipient,
  type Move,
  type Reading,
  type Step,
  stepOf,
  stepsOf,
} from '../../chain/transactions/steps.ts';
import { createTokenAccount } from '../../chain/transactions/system-instructions.ts';
import { formatSol, formatUsdc } from '../../format.ts';

export type Role = 'subscriber' | 'merchant';

export interface AskedSignIn {
  readonly wallet: string;
  readonly role: Role;
  /** The URL of the API to sign in to. */
  readonly apiUrl: string;
  /** The nonce that the API returned beside the text. Undefined if only the text is known. */
  readonly nonce?: string | undefined;
  readonly now: Date;
}

/** The text of `signInMessage` (src/domain/accounts/sign-in.ts), and nothing else. */
const SIGN_IN = new RegExp(
  [
    '^(?<domain>\\S+) wants you to sign in with your Solana account:',
    '(?<wallet>\\S+)',
    '',
    'Sign in as a (?<role>merchant|subscriber)\\. This costs nothing and moves no money\\.',
    '',
    'URI: (?<uri>\\S+)',
    'Version: 1',
    'Chain ID: (?<chain>mainnet|devnet|localnet)',
    'Nonce: (?<nonce>[1-9A-HJ-NP-Za-km-z]{16,64})',
    'Issued At: (?<issued>TIME)',
    'Expiration Time: (?<expires>TIME)$',
  ]
    .join('\n')
    .replaceAll('TIME', '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z'),
);
/** How long a sign-in text is valid, in milliseconds. */
const LIFETIME_MS = 5 * 60_000;
/** How far the clocks of the service and of this machine may differ, in milliseconds. */
const CLOCK_MS = 2 * 60_000;

/** Compares a sign-in text with the sign-in that the user asked for. */
export function signInFault(text: string, request: AskedSignIn): string | undefined {
  const { wallet, role, nonce } = request;
  const fields = SIGN_IN.exec(text)?.groups;
  if (fields === undefined) return 'it is not a sign-in text of the billing API';
  if (fields.wallet !== wallet)
    return `the sign-in text is of the wallet ${fields.wallet}, not of ${wallet}`;
  const fault = placeFault(fields, request.apiUrl);
  if (fault !== undefined) return fault;
  if (fields.role !== role) return `it signs in as a ${fields.role}, not as a ${role}`;
  if (nonce !== undefined && fields.nonce !== nonce)
    return 'it has another nonce than the response';
  const [issued, expires] = [Date.parse(fields.issued ?? ''), Date.parse(fields.expires ?? '')];
  const now = request.now.getTime();
  if (!(expires > issued && expires - issued <= LIFETIME_MS))
    return 'it is valid for longer than five minutes';
  if (expires <= now - CLOCK_MS) return `it expired at ${fields.expires}`;
  if (issued >= now + CLOCK_MS) return `it was issued later than now, at ${fields.issued}`;
  return undefined;
}

/**
 * Names of this machine. In development PUBLIC_URL may have any of these names, so each is accepted
 * for the others.
 */
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

/** Compares the host and the URI of a sign-in text with the URL of the API. */
function placeFault(
  { domain = '', uri = '' }: Partial<Record<string, string>>,
  apiUrl: string,
): string | undefined {
  const [named, api] = [URL.canParse(uri) ? new URL(uri) : undefined, new URL(apiUrl)];
  if (named === undefined || named.username !== '' || named.password !== '')
    return 'its URI is not a URL';
  if (named.host !== domain) return `its URI ${uri} is not of its host ${domain}`;
  const isLocal = LOOPBACK.includes(named.hostname) && LOOPBACK.includes(api.hostname);
  const isSame = isLocal ? named.port === api.port : named.host === api.host;
  return isSame && named.protocol === api.protocol
    ? undefined
    : `it signs in to ${named.origin}, not to ${api.origin}`;
}

export interface AskedSubscription extends Reading {
  /** The plan's address and terms, as the API shows them. */
  readonly plan: {
    readonly address: string;
    readonly mint: string;
    /** Base units. */
    readonly amount: bigint;
    readonly periodHours: bigint;
  };
  /** The subscription account that the transaction may also cancel. */
  readonly replaces?: string | undefined;
}

const UNREADABLE = 'it is not a legacy transaction, or one of version 0 without lookup tables';

/**
 * Compares a transaction that the API built with the subscription that the user asked for. The
 * transaction may open missing accounts and the approval, close the wallet's ended account of the
 * plan, and subscribe to the plan with its terms (or resume the running account). The wallet alone
 * signs, and pays at most MAX_FEE_LAMPORTS of fees.
 */
export function subscribeFault(message: Buffer, request: AskedSubscription): string | undefined {
  const { wallet, plan, tokens } = request;
  const decoded = readable(message);
  if (decoded === undefined) return UNREADABLE;
  if (decoded.payer !== wallet) return `its fee payer is ${decoded.payer}`;
  const refused = stepsOf(decoded, request).find((step) => step.refused !== undefined);
  if (refused !== undefined) return refusalOf(refused);
  if (!tokens.has(plan.mint)) return notUsdc(plan.mint);
  const last = decoded.instructions.at(-1);
  const opening = last && openingOf(last, request);
  if (opening === undefined) return `it does not end with the subscription to ${plan.address}`;
  const expected = [...besides(decoded, request), opening];
  const built = Buffer.from(compileMessage(wallet, expected, decoded.blockhash).serialize());
  const builtInstructions = decodeMessage(built)?.instructions ?? [];
  const strange = decoded.instructions.find(
    (one) =>
      one.programId !== COMPUTE_BUDGET_PROGRAM &&
      !builtInstructions.some((other) => isSameInstruction(one, other)),
  );
  if (strange === undefined) return forbiddenChange(built, message, 'wallet');
  const cancelled = cancelledBy(strange, request.programId);
  const hint = cancelled === undefined ? '' : ` (--replaces ${cancelled} signs it)`;
  return `it ${stepOf(strange, request).words}, which was not asked for${hint}`;
}

/** Returns the address of the subscription account that a transaction cancels. */
export function cancelledIn(message: Buffer, program: string): string | undefined {
  return readable(message)
    ?.instructions.map((one) => cancelledBy(one, program))
    .find((cancelled) => cancelled !== undefined);
}

function cancelledBy(
  { programId, accounts, data }: DecodedInstruction,
  program: string,
): string | undefined {
  const isCancel = programId === program && instructionKind(data) === 'cancel';
  return isCancel ? accounts[2] : undefined;
}

/** Decodes a message that fits into a transaction of the network. */
function readable(message: Buffer): Decoded | undefined {
  return message.length > MAX_TRANSACTION_LENGTH ? undefined : decodeMessage(message);
}

/** Builds the instruction that `last` should be: subscribe with the plan's terms, or resume. */
function openingOf(
  { programId, accounts: [, merchant], data }: DecodedInstruction,
  { wallet, programId: program, plan }: AskedSubscription,
): Instruction | undefined {
  const kind = programId === program ? instructionKind(data) : undefined;
  const parties = partiesOf(program, plan.address, wallet);
  const { mint, amount, periodHours } = plan;
  if (kind === 'resume')
    return resumeSubscription(program, { ...parties, mint, expiresAt: data.readBigInt64LE(1) });
  if (kind !== 'subscribe' || merchant === undefined) return undefined;
  const planId = data.readBigUInt64LE(1);
  const { address, bump: planBump } = planAddress(program, merchant, planId);
  // A plan's address is derived from its owner and its number, so a matching address proves the
  // merchant.
  if (address !== plan.address) return undefined;
  const [createdAt, initId] = [data.readBigInt64LE(58), data.readBigInt64LE(66)];
  const terms = { planId, planBump, mint, amount, periodHours, createdAt, initId };
  return subscribe(program, { ...parties, merchant, terms });
}

/** Builds the instructions that may precede the opening, if the transaction contains them. */
function besides(
  { instructions }: Decoded,
  { wallet, programId: program, plan, replaces }: AskedSubscription,
): Instruction[] {
  const { mint } = plan;
  const find = (kind: InstructionKind) =>
    instructions.find(
      ({ programId, data }) => programId === program && instructionKind(data) === kind,
    );
  const [, old, cancelled] = find('cancel')?.accounts ?? [];
  const close = find('revokeDelegation');
  const opensAccount = instructions.some(({ programId }) => programId === ASSOCIATED_TOKEN_PROGRAM);
  return [
    ...(old !== undefined && cancelled === replaces
      ? [cancelSubscription(program, partiesOf(program, old, wallet))]
      : []),
    ...(opensAccount ? [createTokenAccount({ payer: wallet, owner: wallet, mint })] : []),
    ...(find('initAuthority') ? [initAuthority(program, { user: wallet, mint })] : []),
    ...(close === undefined
      ? []
      : [
          closeInstruction(program, wallet, {
            ...partiesOf(program, plan.address, wallet),
            payer: close.accounts[3] ?? wallet,
          }),
        ]),
  ];
}

function partiesOf(programId: string, plan: string, subscriber: string) {
  const subscription = subscriptionAddress(programId, plan, subscriber).address;
  return { subscriber, plan, subscription };
}

/** The transfers and programs that the user asked for. */
export interface AskedTransfers {
  /** The wallets that may receive SOL or USDC, and whose USDC account may be opened. */
  readonly to: readonly string[];
  /** Lamports that the transaction transfers in total. */
  readonly sol?: bigint | undefined;
  /** Base units of USDC that the transaction transfers in total. */
  readonly usdc?: bigint | undefined;
  /** Further programs that the transaction may call. */
  readonly programs: readonly string[];
}

/**
 * Compares the user's transaction with the transfers that the user asked for. Instructions of the
 * kinds that the service uses are allowed. Other programs are allowed only if they are in
 * `programs`.
 */
export function transactionFault(
  message: Buffer,
  request: Reading & AskedTransfers,
): string | undefined {
  const decoded = readable(message);
  if (decoded === undefined) return UNREADABLE;
  const steps = stepsOf(decoded, request);
  for (const step of steps) {
    const fault = stepFault(step, request);
    if (fault !== undefined) return fault;
  }
  const sums = [
    { flag: '--sol', format: formatSol, asked: request.sol, sum: sumOf(steps, (t) => t === 'SOL') },
    {
      flag: '--usdc',
      format: formatUsdc,
      asked: request.usdc,
      sum: sumOf(steps, (t) => t !== 'SOL'),
    },
  ];
  const wrong = sums.find(({ asked: wanted, sum }) => (wanted ?? 0n) !== sum);
  if (wrong === undefined) return undefined;
  const { flag, format, asked: wanted = 0n, sum } = wrong;
  return `it transfers ${format(sum)}, and ${flag} says ${format(wanted)}`;
}

function stepFault(step: Step, request: Reading & AskedTransfers): string | undefined {
  const { words, refused, program, mint, moves, opensFor } = step;
  if (refused !== undefined) return refusalOf(step);
  if (program !== undefined && !request.programs.includes(program))
    return `it ${words} (--allow-program ${program} signs it)`;
  if (mint !== undefined && !request.tokens.has(mint)) return notUsdc(mint);
  if (moves !== undefined) return moveFault(words, moves, request);
  return opensFor === undefined || request.to.includes(opensFor)
    ? undefined
    : `it ${words}, and --to does not name that wallet`;
}

function moveFault(
  words: string,
  move: Move,
  { to, sol, usdc, tokens }: Reading & AskedTransfers,
): string | undefined {
  const isSol = move.token === 'SOL';
  if (!isSol && !tokens.has(move.token)) return `it ${words}, and that token is not USDC`;
  if ((isSol ? sol : usdc) === undefined)
    return `it ${words}, which was not asked for (${isSol ? '--sol' : '--usdc'} and --to ask for a transfer)`;
  return to.some((wallet) => isRecipient(move, wallet))
    ? undefined
    : `it ${words}, and --to does not name that recipient`;
}

function sumOf(steps: readonly Step[], isToken: (token: string) => boolean): bigint {
  return steps.reduce(
    (sum, { moves }) => (moves && isToken(moves.token) ? sum + moves.amount : sum),
    0n,
  );
}

const refusalOf = ({ words, refused }: Step) => `it ${words}: ${refused}`;
const notUsdc = (mint: string) =>
  `it is about the token ${mint}, which is not USDC (USDC_MINT names another mint)`;
