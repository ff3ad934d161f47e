// Describes a transaction as steps in plain words, so that a command can show what a wallet is
// about to sign and find unrequested steps. Import this module on demand, because it loads web3.js.
import { formatSol, formatUsdc } from '../../format.ts';
import {
  addressAt,
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  tokenAccountAddress,
} from '../program/addresses.ts';
import { instructionKind, type InstructionKind } from '../program/instructions.ts';
import { type Decoded, type DecodedInstruction, feeOf, MAX_FEE_LAMPORTS } from './signed.ts';

/** Token-2022. Its first instructions are the same as those of the token program. */
const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';

export interface Step {
  /** What the instruction does: a clause without its subject. Memos in it are not escaped. */
  readonly words: string;
  /** The SOL or tokens that the wallet moves. */
  readonly moves?: Move;
  /** The owner of a token account whose rent the wallet pays for another wallet. */
  readonly opensFor?: string;
  /** The token that the Subscriptions program may collect. */
  readonly mint?: string;
  /** The address of the program, if this module does not know the program. */
  readonly program?: string;
  /** Why the wallet must not sign the step. */
  readonly refused?: string;
}

export interface Move {
  /** `SOL`, or the mint of a token. */
  readonly token: string;
  /** Lamports or base units. */
  readonly amount: bigint;
  /** The receiving wallet of SOL, or the receiving token account. */
  readonly to: string;
}

export interface Reading {
  readonly wallet: string;
  readonly programId: string;
  /** The names of tokens by mint, all with the decimals of USDC. */
  readonly tokens: ReadonlyMap<string, string>;
}

type Read = (instruction: DecodedInstruction, reading: Reading) => Step;

/** Describes all instructions of a transaction in order. The network fee comes first. */
export function stepsOf(decoded: Decoded, reading: Reading): Step[] {
  const rest = decoded.instructions.filter(({ programId }) => programId !== COMPUTE_BUDGET_PROGRAM);
  const others = [...decoded.signers].filter((signer) => signer !== reading.wallet);
  return [
    feeStep(decoded, reading),
    ...(others.length === 0
      ? []
      : [{ words: `needs the signature of ${others.join(' and ')} too` }]),
    ...rest.map((instruction) => stepOf(instruction, reading)),
  ];
}

/** Describes one instruction other than a compute budget instruction. */
export function stepOf(instruction: DecodedInstruction, reading: Reading): Step {
  const { programId } = instruction;
  if (programId === reading.programId) return subscriptionsStep(instruction, reading);
  const read = readers.get(programId);
  if (read !== undefined) return read(instruction, reading);
  return { words: `calls the program ${programId}, which may do anything`, program: programId };
}

/**
 * Whether the instruction limits the bytes that a transaction loads. It costs nothing, and web3.js
 * cannot decode it.
 */
const isDataLimit = ({ data, accounts }: DecodedInstruction) =>
  data[0] === 4 && data.length === 5 && accounts.length === 0;

function feeStep({ payer, signers, instructions }: Decoded, { wallet }: Reading): Step {
  const budget = instructions.filter(
    (one) => one.programId === COMPUTE_BUDGET_PROGRAM && !isDataLimit(one),
  );
  const fee = feeOf(budget, BigInt(signers.size));
  if (typeof fee === 'string')
    return { words: 'sets limits of the network', refused: `${fee}, which is not supported` };
  if (payer !== wallet) return { words: `leaves the network fee to ${payer}` };
  const words = `pays a network fee of ${formatSol(fee)} SOL at most`;
  if (fee <= MAX_FEE_LAMPORTS) return { words };
  return { words, refused: `the fee is above ${formatSol(MAX_FEE_LAMPORTS)} SOL` };
}

const NOT_KNOWN = 'this command does not know the instruction';

const readers: ReadonlyMap<string, Read> = new Map<string, Read>([
  [SYSTEM_PROGRAM, systemStep],
  [TOKEN_PROGRAM, tokenStep],
  [
    TOKEN_2022_PROGRAM,
    () => ({ words: 'calls the program Token-2022', refused: 'USDC has no accounts there' }),
  ],
  [ASSOCIATED_TOKEN_PROGRAM, openingStep],
  [MEMO_PROGRAM, memoStep],
]);

const SYSTEM_TRANSFER = 2;

function systemStep({ accounts, data }: DecodedInstruction, { wallet }: Reading): Step {
  const [from = '', to = ''] = accounts;
  if (data.length !== 12 || data.readUInt32LE(0) !== SYSTEM_TRANSFER || accounts.length !== 2)
    return { words: 'calls the system program', refused: NOT_KNOWN };
  const amount = data.readBigUInt64LE(4);
  const words = `transfers ${formatSol(amount)} SOL from ${from} to ${to}`;
  return from === wallet && to !== wallet
    ? { words, moves: { token: 'SOL', amount, to } }
    : { words };
}

const TOKEN_REVOKE = 5;
const TRANSFER_CHECKED = 12;

function tokenStep({ accounts, data }: DecodedInstruction, { wallet, tokens }: Reading): Step {
  const [first = '', second = '', third = ''] = accounts;
  if (data[0] === TOKEN_REVOKE && data.length === 1)
    return { words: `withdraws the approval of the token account ${first}` };
  if (data[0] !== TRANSFER_CHECKED || data.length !== 10)
    return { words: 'calls the token program', refused: NOT_KNOWN };
  const amount = data.readBigUInt64LE(1);
  const words = `transfers ${amountOf(amount, second, tokens)} from the token account ${first} to the token account ${third}`;
  // The wallet may be the owner, the delegate or one of the signers of a multisig.
  return accounts.includes(wallet)
    ? { words, moves: { token: second, amount, to: third } }
    : { words };
}

/**
 * First data bytes of the instructions that open a token account. An instruction without data opens
 * one too.
 */
const OPENING = [0, 1];

function openingStep({ accounts, data }: DecodedInstruction, { wallet, tokens }: Reading): Step {
  const [payer = '', account = '', owner = '', mint = ''] = accounts;
  const isOpening = data.length === 0 || (data.length === 1 && OPENING.includes(data.readUInt8(0)));
  if (!isOpening || accounts.length !== 6)
    return { words: 'calls the program of token accounts', refused: NOT_KNOWN };
  const words = `opens the token account ${account} of ${owner} for ${nameOf(mint, tokens)} if it is missing; ${payer} pays its rent`;
  return payer === wallet && owner !== wallet ? { words, opensFor: owner } : { words };
}

/** A text that every sign-in message contains (Sign-In With Solana). */
const SIGN_IN = /sign in with your Solana account/i;

function memoStep({ data }: DecodedInstruction): Step {
  const text = data.toString('utf8');
  const words = `writes the memo "${text}"`;
  return SIGN_IN.test(text)
    ? { words, refused: 'the memo is a sign-in text, so the transaction is a sign-in' }
    : { words };
}

/** Indexes of the accounts of a Subscriptions instruction for which the wallet may sign. */
const ACTORS: Readonly<Partial<Record<InstructionKind, readonly number[]>>> = {
  cancelNow: [0, 1],
  transfer: [5],
};

function subscriptionsStep(instruction: DecodedInstruction, reading: Reading): Step {
  const { accounts, data } = instruction;
  const kind = instructionKind(data);
  if (kind === undefined) return { words: 'calls the Subscriptions program', refused: NOT_KNOWN };
  const step = kindSteps[kind](instruction, reading);
  const isActor = (ACTORS[kind] ?? [0]).some((index) => accounts[index] === reading.wallet);
  return isActor || step.moves !== undefined || !accounts.includes(reading.wallet)
    ? step
    : { ...step, refused: 'the wallet is named beside the party that acts' };
}

const kindSteps: Readonly<Record<InstructionKind, Read>> = {
  initAuthority: ({ accounts: [user = '', , mint = ''] }, { tokens }) => ({
    words: `approves the Subscriptions program to collect ${nameOf(mint, tokens)} of ${user} for the plans that it subscribes to`,
    mint,
  }),
  subscribe: ({ accounts: [subscriber = '', merchant = '', plan = ''], data }, { tokens }) => {
    const mint = addressAt(data, 10);
    const price = amountOf(data.readBigUInt64LE(42), mint, tokens);
    return {
      words: `subscribes ${subscriber} to the plan ${plan} of the merchant ${merchant}: ${price} every ${data.readBigUInt64LE(50)} hours`,
      mint,
    };
  },
  resume: ({ accounts: [, plan = '', subscription = ''] }) => ({
    words: `takes back the cancellation of the subscription ${subscription} to the plan ${plan}`,
  }),
  cancel: ({ accounts: [, plan = '', subscription = ''] }) => ({
    words: `cancels the subscription ${subscription} to the plan ${plan} at the end of its period`,
  }),
  cancelNow: ({ accounts: [, , plan = '', subscription = ''] }) => ({
    words: `cancels the subscription ${subscription} to the plan ${plan} at once`,
  }),
  revokeDelegation: ({
    accounts: [authority = '', subscription = '', , receiver = authority],
  }) => ({
    words: `closes the subscription account ${subscription}; ${receiver} gets its rent`,
  }),
  revokeAbandoned: ({ accounts: [payer = '', subscription = ''] }) => ({
    words: `closes the subscription account ${subscription}; ${payer} gets its rent`,
  }),
  revokeAuthority: ({ accounts: [user = '', , mint = '', , , receiver = user] }, { tokens }) => ({
    words: `withdraws the approval of ${user} to collect ${nameOf(mint, tokens)}, which ends all its subscriptions; ${receiver} gets the rent`,
  }),
  closeAuthority: ({ accounts: [user = '', authority = '', receiver = user] }) => ({
    words: `closes the authority ${authority} of ${user}, which ends all its subscriptions; ${receiver} gets the rent`,
  }),
  createPlan: ({ accounts: [merchant = '', plan = ''], data }, { tokens }) => {
    const mint = addressAt(data, 9);
    const price = amountOf(data.readBigUInt64LE(41), mint, tokens);
    return {
      words: `publishes the plan ${plan} of ${merchant}: ${price} every ${data.readBigUInt64LE(49)} hours, paid to ${listAt(data, 73)}, collected by ${listAt(data, 201)}`,
      mint,
    };
  },
  updatePlan: ({ accounts: [, plan = ''], data }) => {
    const endTs = data.readBigInt64LE(2);
    return {
      words: `changes the plan ${plan}: ${data[1] === 1 ? 'it takes subscribers' : 'it takes no more subscribers'}, ${endTs === 0n ? 'without an end' : `with its end at the Unix time ${endTs}`}, collected by ${listAt(data, 10)}`,
    };
  },
  deletePlan: ({ accounts: [, plan = ''] }) => ({ words: `deletes the ended plan ${plan}` }),
  transfer: ({ accounts: [subscription = '', , , , receiver = ''], data }, reading) => {
    const [amount, mint] = [data.readBigUInt64LE(1), addressAt(data, 41)];
    const payer = addressAt(data, 9);
    return {
      words: `collects ${amountOf(amount, mint, reading.tokens)} of ${payer} for the subscription ${subscription}, into the token account ${receiver}`,
      moves: { token: mint, amount, to: receiver },
    };
  },
};

const NO_ADDRESS = SYSTEM_PROGRAM;

/** Reads four addresses. Unused addresses are zero. */
function listAt(data: Buffer, offset: number): string {
  const all = [0, 1, 2, 3].map((slot) => addressAt(data, offset + 32 * slot));
  const named = all.filter((address) => address !== NO_ADDRESS);
  return named.length === 0 ? 'its owner alone' : named.join(' and ');
}

const nameOf = (mint: string, tokens: Reading['tokens']) => tokens.get(mint) ?? `the token ${mint}`;

function amountOf(amount: bigint, mint: string, tokens: Reading['tokens']): string {
  const name = tokens.get(mint);
  return name === undefined
    ? `${amount} base units of the token ${mint}`
    : `${formatUsdc(amount)} ${name}`;
}

/**
 * Whether the move goes to this wallet: SOL to the wallet itself, a token to its token account.
 */
export function isRecipient({ token, to }: Move, wallet: string): boolean {
  return to === (token === 'SOL' ? wallet : tokenAccountAddress(wallet, token).address);
}
