// Decodes version 1 transactions (SIMD-0385). They differ from version 0 transactions: (1) they
// have no lookup tables, (2) a config sets compute limits and priority fee, (3) the signatures
// follow the message.
import type { WireInstruction, WireMessage } from './message.ts';
import { sanitize, failSanitize, type Reader, WireError } from './reader.ts';

/** The first byte of a version 1 transaction. */
export const VERSION_1 = 0x81;
/** Maximum length of a version 1 transaction in bytes. */
export const MAX_V1_LENGTH = 4096;
/**
 * Offset of the number of keys in a version 1 transaction. The version, the header, the config
 * mask, the blockhash and the number of instructions precede it.
 */
export const V1_KEY_COUNT_AT = 1 + 3 + 4 + 32 + 1;

const MAX_SIGNATURES = 12;
const MAX_KEYS = 64;
const MAX_INSTRUCTIONS = 64;
const HEAP_UNIT = 1024;
const MASK = { priorityFee: 0b11, computeUnits: 0b100, loadedData: 0b1000, heap: 0b10000 };
const KNOWN_BITS = 0b11111;

interface InstructionHeader {
  readonly programIndex: number;
  readonly accountsLength: number;
  readonly dataLength: number;
}

function readConfig(reader: Reader, mask: number) {
  const config = {
    priorityFee: (mask & MASK.priorityFee) === 0 ? null : reader.u64(),
    computeUnitLimit: (mask & MASK.computeUnits) === 0 ? null : reader.u32(),
    loadedAccountsDataSizeLimit: (mask & MASK.loadedData) === 0 ? null : reader.u32(),
    heapSize: (mask & MASK.heap) === 0 ? null : reader.u32(),
  };
  if (config.heapSize !== null && config.heapSize % HEAP_UNIT !== 0) failSanitize();
  return config;
}

function readInstructions(reader: Reader, count: number): WireInstruction[] {
  const headers = Array.from({ length: count }, (): InstructionHeader => ({
    programIndex: reader.byte(),
    accountsLength: reader.byte(),
    dataLength: reader.u16(),
  }));
  return headers.map((header) => ({
    ...header,
    accountsAt: reader.skip(header.accountsLength),
    dataAt: reader.skip(header.dataLength),
  }));
}

/**
 * Reads a version 1 message. The reader must be at the byte after the version. Throws WireError.
 */
export function readV1Message(reader: Reader): WireMessage {
  const [requiredSignatures, readonlySigned, readonlyUnsigned] = [
    reader.byte(),
    reader.byte(),
    reader.byte(),
  ];
  const mask = reader.u32();
  const feeBits = mask & MASK.priorityFee;
  if ((mask & ~KNOWN_BITS) !== 0 || (feeBits !== 0 && feeBits !== MASK.priorityFee))
    throw new WireError('invalid value: the transaction config mask has unexpected bits');
  const blockhash = reader.key();
  const instructionCount = reader.byte();
  const keys = Array.from({ length: reader.byte() }, () => reader.key());
  const config = readConfig(reader, mask);
  const message: WireMessage = {
    source: reader.source,
    version: 1,
    requiredSignatures,
    readonlySigned,
    readonlyUnsigned,
    keys,
    blockhash,
    instructions: readInstructions(reader, instructionCount),
    lookups: [],
    config,
  };
  if (requiredSignatures > MAX_SIGNATURES || instructionCount > MAX_INSTRUCTIONS) failSanitize();
  if (keys.length > MAX_KEYS || new Set(keys).size < keys.length) failSanitize();
  sanitize(message, keys.length);
  return message;
}
