// Parses a transaction that a wallet signed and compares it with the transaction that the service
// built. Import this module on demand, because it loads web3.js.
import { VersionedMessage } from '@solana/web3.js';
import { formatSol } from '../../format.ts';
import { isSigned, SIGNATURE_LENGTH } from '../keypair.ts';
import { COMPUTE_BUDGET_PROGRAM } from '../program/addresses.ts';
import { MAX_TRANSACTION_LENGTH } from './message.ts';
import { networkFee } from './network-fee.ts';

/**
 * Address of the Lighthouse program. Wallets append instructions of this program to a transaction.
 * These instructions make the transaction fail when its effect differs from the wallet's
 * simulation.
 */
export const ASSERTION_PROGRAM = 'L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95';
/** Maximum network fee that a wallet pays for a transaction of the service: 0.01 SOL. */
export const MAX_FEE_LAMPORTS = 10_000_000n;
/**
 * The runtime's maximum of compute units per transaction. The fee of a transaction that sets no
 * compute unit limit is calculated with this maximum.
 */
const MAX_UNITS = 1_400_000n;
/**
 * The compute budget instructions that a wallet may add or change. `code` is the first data byte of
 * the instruction. `length` is the number of data bytes.
 */
const SET_UNIT_LIMIT = { code: 2, length: 5 };
const SET_UNIT_PRICE = { code: 3, length: 9 };

/** A transaction whose fee payer is its only signer. */
export interface SignedByOne {
  readonly signer: string;
  readonly signature: Buffer;
  readonly blockhash: string;
  readonly message: Buffer;
}

export interface DecodedInstruction {
  readonly programId: string;
  readonly accounts: readonly string[];
  readonly data: Buffer;
}

export interface Decoded {
  readonly version: 'legacy' | 0;
  readonly blockhash: string;
  readonly payer: string;
  readonly payerKey: Uint8Array;
  readonly signers: ReadonlySet<string>;
  readonly writable: ReadonlySet<string>;
  readonly keys: readonly string[];
  readonly instructions: readonly DecodedInstruction[];
}

/**
 * Decodes a legacy or version 0 message without lookup tables. Returns undefined for any other
 * message, and for a message whose bytes change when it is decoded and encoded again.
 */
export function decodeMessage(bytes: Buffer): Decoded | undefined {
  try {
    const message = VersionedMessage.deserialize(bytes);
    if (message.version !== 'legacy' && message.version !== 0) return undefined;
    if (message.addressTableLookups.length > 0) return undefined;
    if (!bytes.equals(message.serialize())) return undefined;
    const [payerKey] = message.staticAccountKeys;
    if (payerKey === undefined) return undefined;
    const keys = message.staticAccountKeys.map((key) => key.toBase58());
    const at = (index: number) => {
      const key = keys[index];
      if (key === undefined) throw new RangeError('an account index is out of range');
      return key;
    };
    return {
      version: message.version,
      blockhash: message.recentBlockhash,
      payer: at(0),
      payerKey: payerKey.toBytes(),
      signers: new Set(keys.filter((_, index) => message.isAccountSigner(index))),
      writable: new Set(keys.filter((_, index) => message.isAccountWritable(index))),
      keys,
      instructions: message.compiledInstructions.map(
        ({ programIdIndex, accountKeyIndexes, data }) => ({
          programId: at(programIdIndex),
          accounts: accountKeyIndexes.map(at),
          data: Buffer.from(data),
        }),
      ),
    };
  } catch {
    return undefined;
  }
}

/**
 * Parses a transaction (legacy, or version 0 without lookup tables) that only its fee payer signed.
 * Returns undefined for any other bytes and for an invalid signature.
 */
export function readSigned(bytes: Buffer): SignedByOne | undefined {
  if (bytes.length <= 1 + SIGNATURE_LENGTH || bytes.readUInt8(0) !== 1) return undefined;
  const signature = bytes.subarray(1, 1 + SIGNATURE_LENGTH);
  const message = bytes.subarray(1 + SIGNATURE_LENGTH);
  const decoded = decodeMessage(message);
  if (decoded?.signers.size !== 1) return undefined;
  if (!isSigned(decoded.payerKey, message, signature)) return undefined;
  return { signer: decoded.payer, signature, blockhash: decoded.blockhash, message };
}

/** The payer of a transaction, which decides what its wallet may change. */
export type Payer = 'wallet' | 'sponsor';

/**
 * Compares the message that a wallet signed with the message that the service built. Returns the
 * first forbidden change as a phrase for an error message, or undefined when there is none. The
 * wallet may add instructions of the Lighthouse program (ASSERTION_PROGRAM). Who pays decides the
 * rest:
 *
 *   wallet -> it may also change the compute limit and price, the blockhash and the version
 *   sponsor -> it may change nothing else: the assertions are at the end, and name no signer and
 *     no writable account, because the sponsor's signature must not serve any other purpose
 */
export function forbiddenChange(built: Buffer, signed: Buffer, payer: Payer): string | undefined {
  if (built.equals(signed)) return undefined;
  const [original, changed] = [decodeMessage(built), decodeMessage(signed)];
  if (original === undefined || changed === undefined)
    return 'it is not a legacy transaction, or one of version 0 without lookup tables';
  const length = 1 + original.signers.size * SIGNATURE_LENGTH + signed.length;
  if (length > MAX_TRANSACTION_LENGTH) return 'it is too long';
  return payer === 'wallet'
    ? changedForWallet(original, changed)
    : changedForSponsor(original, changed);
}

function changedForWallet(original: Decoded, changed: Decoded): string | undefined {
  if (original.payer !== changed.payer) return 'it has another fee payer';
  if (!sameMembers(original.signers, changed.signers)) return 'it has other signers';
  return (
    changedInstruction(original, changed) ??
    changedBudget(changed.instructions.filter(isBudget)) ??
    changedAccounts(original, changed)
  );
}

function changedForSponsor(original: Decoded, changed: Decoded): string | undefined {
  if (changed.version !== original.version) return 'it has another version';
  if (changed.blockhash !== original.blockhash) return 'it has another blockhash';
  if ([...original.signers].join() !== [...changed.signers].join()) return 'it has other signers';
  return changedAccounts(original, changed) ?? appended(original, changed);
}

/** Checks that instructions were only appended, and that all of them are harmless assertions. */
function appended(original: Decoded, changed: Decoded): string | undefined {
  for (const [index, one] of original.instructions.entries()) {
    const other = changed.instructions[index];
    if (other === undefined || !isSameInstruction(one, other))
      return `its instruction ${index + 1} is not the one that the service built`;
  }
  for (const { programId, accounts } of changed.instructions.slice(original.instructions.length)) {
    if (programId !== ASSERTION_PROGRAM)
      return `it has a further instruction, of the program ${programId}`;
    if (accounts.some((account) => changed.signers.has(account)))
      return 'it has an assertion that names a signer';
    if (accounts.some((account) => changed.writable.has(account)))
      return 'it has an assertion that names a writable account';
  }
  return undefined;
}

const isBudget = ({ programId }: DecodedInstruction) => programId === COMPUTE_BUDGET_PROGRAM;
const isAssertion = ({ programId }: DecodedInstruction) => programId === ASSERTION_PROGRAM;
const isFixed = (instruction: DecodedInstruction) =>
  !isBudget(instruction) && !isAssertion(instruction);

function changedInstruction(original: Decoded, changed: Decoded): string | undefined {
  const builtInstructions = original.instructions.filter(isFixed);
  const signedInstructions = changed.instructions.filter(isFixed);
  for (const [index, one] of builtInstructions.entries()) {
    const other = signedInstructions[index];
    if (other === undefined)
      return `it lacks instruction ${index + 1}, of the program ${one.programId}`;
    if (!isSameInstruction(one, other))
      return `its instruction ${index + 1} is not the one of the program ${one.programId} that the service built`;
  }
  const further = signedInstructions[builtInstructions.length];
  return further && `it has a further instruction, of the program ${further.programId}`;
}

export function isSameInstruction(a: DecodedInstruction, b: DecodedInstruction): boolean {
  return (
    a.programId === b.programId &&
    a.data.equals(b.data) &&
    a.accounts.length === b.accounts.length &&
    a.accounts.every((account, index) => account === b.accounts[index])
  );
}

/**
 * Checks the compute limit and price that a wallet set. A wallet may choose both values, because
 * they only change the network fee. This fee must not exceed MAX_FEE_LAMPORTS.
 */
function changedBudget(budget: readonly DecodedInstruction[]): string | undefined {
  const fee = feeOf(budget, 1n);
  if (typeof fee === 'string') return fee;
  return fee > MAX_FEE_LAMPORTS
    ? `its fee of ${formatSol(fee)} SOL is above ${formatSol(MAX_FEE_LAMPORTS)} SOL`
    : undefined;
}

/**
 * Calculates the network fee (lamports) of a transaction with these compute budget instructions.
 * Returns a phrase for an error message if the instructions set anything other than the limit and
 * the price of compute units, or set one of the two twice.
 */
export function feeOf(budget: readonly DecodedInstruction[], signatures: bigint): bigint | string {
  const dataOf = ({ code, length }: { code: number; length: number }) =>
    budget
      .filter(
        ({ data, accounts }) => data[0] === code && data.length === length && !accounts.length,
      )
      .map(({ data }) => data);
  const [limits, prices] = [dataOf(SET_UNIT_LIMIT), dataOf(SET_UNIT_PRICE)];
  if (limits.length + prices.length !== budget.length)
    return 'it changes more of the compute budget than the limit and the price of units';
  if (limits.length > 1 || prices.length > 1)
    return 'it sets the limit or the price of compute units twice';
  const unitLimit = BigInt(limits[0]?.readUInt32LE(1) ?? MAX_UNITS);
  const units = unitLimit < MAX_UNITS ? unitLimit : MAX_UNITS;
  return networkFee(signatures, units, prices[0]?.readBigUInt64LE(1) ?? 0n);
}

/**
 * Checks that a wallet left the set of writable accounts unchanged and added no repeated or unused
 * account. The runtime locks each writable account and may take rent from that account, even if no
 * instruction uses the account.
 */
function changedAccounts(original: Decoded, changed: Decoded): string | undefined {
  if (new Set(changed.keys).size !== changed.keys.length) return 'it names an account twice';
  if (!sameMembers(original.writable, changed.writable)) return 'it makes other accounts writable';
  const used = new Set([
    changed.payer,
    ...changed.instructions.flatMap(({ programId, accounts }) => [programId, ...accounts]),
  ]);
  const unused = changed.keys.find((key) => !used.has(key));
  return unused && `it names the account ${unused}, which no instruction uses`;
}

function sameMembers(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member));
}
