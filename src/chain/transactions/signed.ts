// Parses a transaction that a wallet signed and compares it with the transaction that the service
// built. Import this module on demand, because it loads web3.js.
import { Message } from '@solana/web3.js';
import { isSigned, SIGNATURE_LENGTH } from '../keypair.ts';

/**
 * Address of the Lighthouse program. Wallets append its assertion instructions, which make a
 * transaction fail when its effect differs from the simulation.
 */
const ASSERTION_PROGRAM = 'L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95';

/** A transaction whose fee payer is its only signer. */
export interface SignedByOne {
  readonly signer: string;
  readonly signature: Buffer;
  readonly blockhash: string;
  readonly message: Buffer;
}

interface Decoded {
  readonly blockhash: string;
  readonly payer: string;
  readonly signers: ReadonlySet<string>;
  readonly writable: ReadonlySet<string>;
  readonly keys: readonly string[];
  readonly instructions: readonly {
    programId: string;
    accounts: readonly string[];
    data: string;
  }[];
}

/** Decodes a legacy message. Returns undefined when encoding the result again gives other bytes. */
function decodeMessage(bytes: Buffer): Decoded | undefined {
  try {
    const message = Message.from(bytes);
    if (!message.serialize().equals(bytes)) return undefined;
    const keys = message.accountKeys.map((key) => key.toBase58());
    const at = (index: number) => {
      const key = keys[index];
      if (key === undefined) throw new RangeError('an account index is out of range');
      return key;
    };
    return {
      blockhash: message.recentBlockhash,
      payer: at(0),
      signers: new Set(keys.filter((_, index) => message.isAccountSigner(index))),
      writable: new Set(keys.filter((_, index) => message.isAccountWritable(index))),
      keys,
      instructions: message.instructions.map(({ programIdIndex, accounts, data }) => ({
        programId: at(programIdIndex),
        accounts: accounts.map(at),
        data,
      })),
    };
  } catch {
    return undefined;
  }
}

/**
 * Parses a legacy transaction that only its fee payer signed. Returns undefined for any other bytes
 * and for an invalid signature.
 */
export function readSigned(bytes: Buffer): SignedByOne | undefined {
  if (bytes.length <= 1 + SIGNATURE_LENGTH || bytes.readUInt8(0) !== 1) return undefined;
  const signature = bytes.subarray(1, 1 + SIGNATURE_LENGTH);
  const message = bytes.subarray(1 + SIGNATURE_LENGTH);
  const decoded = decodeMessage(message);
  if (decoded?.signers.size !== 1) return undefined;
  const signerKey = message.subarray(4, 36);
  if (!isSigned(signerKey, message, signature)) return undefined;
  return { signer: decoded.payer, signature, blockhash: decoded.blockhash, message };
}

/**
 * Whether a signed message is the message that the service built. The wallet may have appended
 * assertion instructions, if these add neither a signer nor a writable account. Apart from these
 * instructions both messages must be the same.
 */
export function isBuiltMessage(built: Buffer, signed: Buffer): boolean {
  if (built.equals(signed)) return true;
  const [original, extended] = [decodeMessage(built), decodeMessage(signed)];
  if (original === undefined || extended === undefined) return false;
  const appended = extended.instructions.slice(original.instructions.length);
  const appendedKeys = new Set(
    appended.flatMap(({ programId, accounts }) => [programId, ...accounts]),
  );
  return (
    original.payer === extended.payer &&
    original.blockhash === extended.blockhash &&
    new Set(extended.keys).size === extended.keys.length &&
    sameMembers(original.signers, extended.signers) &&
    sameMembers(original.writable, extended.writable) &&
    extended.instructions.length > original.instructions.length &&
    original.instructions.every((instruction, place) =>
      sameInstruction(instruction, extended.instructions[place]),
    ) &&
    appended.every(({ programId }) => programId === ASSERTION_PROGRAM) &&
    extended.keys.every((key) => original.keys.includes(key) || appendedKeys.has(key))
  );
}

function sameMembers(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member));
}

function sameInstruction(
  a: Decoded['instructions'][number],
  b: Decoded['instructions'][number] | undefined,
): boolean {
  return (
    a.programId === b?.programId &&
    a.data === b.data &&
    a.accounts.length === b.accounts.length &&
    a.accounts.every((account, place) => account === b.accounts[place])
  );
}
