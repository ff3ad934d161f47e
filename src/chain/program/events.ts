// The Subscriptions program emits an event by calling itself with the event as instruction data
// (docs/chain.md, Events). The event authority must sign this call, and only the program can sign
// for the event authority. An event in a successful transaction is therefore authentic.
import { addressAt, eventAuthorityAddress, SYSTEM_PROGRAM } from './addresses.ts';
import { ChainDataError } from './layouts.ts';

/** An instruction of a confirmed transaction, with its accounts resolved. */
export interface ExecutedInstruction {
  readonly programId: string;
  readonly accounts: readonly string[];
  readonly data: Buffer;
  /**
   * Depth of the call: 1 for a top-level instruction, 2 or more for an inner instruction. Null when
   * RPC does not report the depth.
   */
  readonly stackHeight: number | null;
}

/**
 * A transaction's top-level instructions. `inner` maps the index of a top-level instruction to its
 * inner instructions in order of execution.
 */
export interface ExecutedTransaction {
  readonly err: unknown;
  readonly instructions: readonly ExecutedInstruction[];
  readonly inner: ReadonlyMap<number, readonly ExecutedInstruction[]>;
}

/**
 * Event of a pull: `amount` base units moved from the subscriber to `receiver` for the period from
 * `periodStart` to `periodEnd` (Unix seconds).
 */
export interface TransferEvent {
  readonly kind: 'transfer';
  readonly subscription: string;
  readonly plan: string;
  readonly subscriber: string;
  readonly mint: string;
  readonly amount: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  /** Total base units moved in the period so far, including this transfer. */
  readonly pulled: bigint;
  /** The receiving wallet. */
  readonly receiver: string;
  /**
   * The receiver's token account. In events of program versions before 0.4.0, `receiverAccount` and
   * `puller` are null.
   */
  readonly receiverAccount: string | null;
  readonly puller: string | null;
}

export type ProgramEvent = (
  | TransferEvent
  | {
      readonly kind: 'created';
      readonly plan: string;
      readonly subscriber: string;
      readonly mint: string;
      readonly at: bigint;
      readonly payer: string | null;
    }
  | {
      readonly kind: 'cancelled';
      readonly plan: string;
      readonly subscriber: string;
      readonly expiresAt: bigint;
    }
  | {
      readonly kind: 'resumed';
      readonly plan: string;
      readonly subscriber: string;
      readonly at: bigint;
    }
  | {
      readonly kind: 'plan_updated';
      readonly plan: string;
      readonly owner: string;
      readonly status: 'sunset' | 'active';
      readonly endTs: bigint;
      readonly pullers: readonly string[];
    }
) & {
  /** Index of the top-level instruction that emitted the event. */
  readonly instruction: number;
};

const TAG = Buffer.from('e445a52e51cb9a1d', 'hex');

/**
 * Returns the program's events in a transaction, in order of execution. A failed transaction has no
 * events. Throws ChainDataError for a truncated event.
 */
export function programEvents(transaction: ExecutedTransaction, programId: string): ProgramEvent[] {
  if (transaction.err !== null) return [];
  const eventAuthority = eventAuthorityAddress(programId).address;
  const events: ProgramEvent[] = [];
  for (const [index, inner] of [...transaction.inner].sort(([a], [b]) => a - b)) {
    const outer = transaction.instructions[index];
    inner.forEach((call, innerIndex) => {
      if (
        call.programId !== programId ||
        call.accounts.length !== 1 ||
        call.accounts[0] !== eventAuthority
      )
        return;
      if (!call.data.subarray(0, TAG.length).equals(TAG)) return;
      if (callerOf(inner, innerIndex, outer)?.programId !== programId) return;
      const event = decodeEvent(call.data);
      if (event !== null) events.push({ ...event, instruction: index });
    });
  }
  return events;
}

/**
 * Returns the instruction that called `inner[index]`. At stack height 2 the caller is the top-level
 * instruction `outer`. At a greater height the caller is the nearest earlier inner instruction
 * whose stack height is lower by one. If the stack height is unknown, returns `outer`.
 */
function callerOf(
  inner: readonly ExecutedInstruction[],
  index: number,
  outer: ExecutedInstruction | undefined,
): ExecutedInstruction | undefined {
  const height = inner[index]?.stackHeight ?? null;
  if (height === null || height === 2) return outer;
  return inner.slice(0, index).findLast((call) => call.stackHeight === height - 1);
}

type Decoded<E = ProgramEvent> = E extends unknown ? Omit<E, 'instruction'> : never;

/**
 * Decodes an event from instruction data: an 8-byte tag, a byte for the kind, then the fields.
 * Returns null for an unknown kind. Later program versions append fields, so trailing bytes are
 * ignored.
 */
function decodeEvent(data: Buffer): Decoded | null {
  const kind = data[8];
  const atLeast = (length: number, name: string) => {
    if (data.length < length)
      throw new ChainDataError(
        `a ${name} event has at least ${length} bytes, this one has ${data.length}`,
      );
  };
  const address = (offset: number) => addressAt(data, offset);
  const addressIf = (offset: number) => (data.length >= offset + 32 ? address(offset) : null);
  switch (kind) {
    case 0:
      atLeast(113, 'Created');
      return {
        kind: 'created',
        plan: address(9),
        subscriber: address(41),
        mint: address(73),
        at: data.readBigInt64LE(105),
        payer: addressIf(113),
      };
    case 1:
      atLeast(81, 'Cancelled');
      return {
        kind: 'cancelled',
        plan: address(9),
        subscriber: address(41),
        expiresAt: data.readBigInt64LE(73),
      };
    case 2:
      atLeast(201, 'Transfer');
      return {
        kind: 'transfer',
        subscription: address(9),
        plan: address(41),
        subscriber: address(73),
        mint: address(105),
        amount: data.readBigUInt64LE(137),
        periodStart: data.readBigInt64LE(145),
        periodEnd: data.readBigInt64LE(153),
        pulled: data.readBigUInt64LE(161),
        receiver: address(169),
        receiverAccount: addressIf(201),
        puller: addressIf(233),
      };
    case 5:
      atLeast(81, 'Resumed');
      return {
        kind: 'resumed',
        plan: address(9),
        subscriber: address(41),
        at: data.readBigInt64LE(73),
      };
    case 6:
      atLeast(210, 'PlanUpdated');
      return {
        kind: 'plan_updated',
        plan: address(9),
        owner: address(41),
        status: data.readUInt8(73) === 1 ? 'active' : 'sunset',
        endTs: data.readBigInt64LE(74),
        pullers: [0, 1, 2, 3]
          .map((slot) => address(82 + slot * 32))
          .filter((puller) => puller !== SYSTEM_PROGRAM),
      };
    default:
      return null;
  }
}
