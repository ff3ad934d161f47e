import { createHash } from 'node:crypto';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM as P } from '../../../src/chain/clusters.ts';
import { MEMO_PROGRAM, TOKEN_PROGRAM } from '../../../src/chain/program/addresses.ts';
import {
  type ExecutedInstruction,
  type ExecutedTransaction,
  programEvents,
} from '../../../src/chain/program/events.ts';
import { ChainDataError } from '../../../src/chain/program/layouts.ts';

const EVENT_AUTHORITY = '3Hnj4BYoDgtpBuqXfiy7Y8cNa3jXaNd4oqgSXBzkMcH7';
const FOREIGN = 'Vote111111111111111111111111111111111111111';
const key = (name: string) => createHash('sha256').update(name).digest();
const address = (name: string) => bs58.encode(key(name));
const int = (value: bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return bytes;
};
const event = (kind: number, ...fields: Buffer[]) =>
  Buffer.concat([Buffer.from('e445a52e51cb9a1d', 'hex'), Buffer.from([kind]), ...fields]);

const transfer = event(
  2,
  ...['subscription', 'plan', 'subscriber', 'mint'].map(key),
  ...[990n, 1_700_000_000n, 1_700_003_600n, 990n].map(int),
  ...['merchant', 'merchant ata', 'keeper'].map(key),
);
const transferred = {
  kind: 'transfer',
  subscription: address('subscription'),
  plan: address('plan'),
  subscriber: address('subscriber'),
  mint: address('mint'),
  amount: 990n,
  periodStart: 1_700_000_000n,
  periodEnd: 1_700_003_600n,
  pulled: 990n,
  receiver: address('merchant'),
  receiverAccount: address('merchant ata'),
  puller: address('keeper'),
};

const call = (
  programId: string,
  stackHeight: number | null,
  data: Buffer,
  accounts = [EVENT_AUTHORITY],
): ExecutedInstruction => ({
  programId,
  accounts,
  data,
  stackHeight,
});
const pull = call(P, 1, Buffer.from([10]), []);
const token = (stackHeight: number) => call(TOKEN_PROGRAM, stackHeight, Buffer.from([12]), []);
const transaction = (
  instructions: ExecutedInstruction[],
  inner: Record<number, ExecutedInstruction[]>,
  err: unknown = null,
): ExecutedTransaction => ({
  err,
  instructions,
  inner: new Map(Object.entries(inner).map(([index, calls]) => [Number(index), calls])),
});
const events = (of: ExecutedTransaction) => programEvents(of, P);

void t.test('a pull’s event is decoded field by field and assigned to its instruction', (t) => {
  const both = transaction([call(FOREIGN, 1, Buffer.alloc(0)), pull, pull], {
    2: [token(2), call(P, 2, transfer)],
    1: [token(2), call(P, 2, transfer)],
  });
  t.same(events(both), [
    { ...transferred, instruction: 1 },
    { ...transferred, instruction: 2 },
  ]);
  t.end();
});

void t.test('cancel, resume and all other events are decoded field by field', (t) => {
  const created = event(0, ...['plan', 'subscriber', 'mint'].map(key), int(5n), key('payer'));
  const cancelled = event(1, key('plan'), key('subscriber'), int(1_800_000_000n));
  const resumed = event(5, key('plan'), key('subscriber'), int(1_750_000_000n));
  const updated = event(
    6,
    key('plan'),
    key('owner'),
    Buffer.from([0]),
    int(9n),
    key('keeper'),
    Buffer.alloc(96),
  );
  const unknown = event(9, Buffer.alloc(300));
  const calls = [created, cancelled, resumed, updated, unknown].map((data) => call(P, 2, data));
  const plan = address('plan');
  const subscriber = address('subscriber');
  t.same(events(transaction([pull], { 0: calls })), [
    {
      kind: 'created',
      plan,
      subscriber,
      mint: address('mint'),
      at: 5n,
      payer: address('payer'),
      instruction: 0,
    },
    { kind: 'cancelled', plan, subscriber, expiresAt: 1_800_000_000n, instruction: 0 },
    { kind: 'resumed', plan, subscriber, at: 1_750_000_000n, instruction: 0 },
    {
      kind: 'plan_updated',
      plan,
      owner: address('owner'),
      status: 'sunset',
      endTs: 9n,
      pullers: [address('keeper')],
      instruction: 0,
    },
  ]);
  t.end();
});

void t.test(
  'events of older program versions (fewer fields) and later versions (more fields) are decoded',
  (t) => {
    const one = (data: Buffer) => events(transaction([pull], { 0: [call(P, 2, data)] }))[0];
    t.match(
      one(transfer.subarray(0, 201)),
      { ...transferred, receiverAccount: null, puller: null },
      '0.3.0',
    );
    t.match(one(transfer.subarray(0, 233)), { ...transferred, puller: null });
    t.match(one(Buffer.concat([transfer, key('later')])), transferred);
    t.match(one(event(0, ...['plan', 'subscriber', 'mint'].map(key), int(5n))), {
      kind: 'created',
      payer: null,
    });
    t.match(one(event(1, key('plan'), key('subscriber'), int(8n), key('authorized by'))), {
      kind: 'cancelled',
      expiresAt: 8n,
    });
    t.throws(() => one(transfer.subarray(0, 200)), {
      constructor: ChainDataError,
      message: /at least 201 bytes, this one has 200/,
    });
    t.end();
  },
);

void t.test(
  'a pull by cross-program invocation is found, for example when a multisig owns the plan',
  (t) => {
    const wrapped = transaction([call(FOREIGN, 1, Buffer.alloc(0))], {
      0: [call(P, 2, Buffer.from([10]), []), token(3), call(P, 3, transfer)],
    });
    t.same(events(wrapped), [{ ...transferred, instruction: 0 }]);
    t.end();
  },
);

void t.test('events that another program forged are ignored', (t) => {
  const none = (name: string, forged: ExecutedTransaction) => t.same(events(forged), [], name);
  none(
    'another program with the same data',
    transaction([pull], { 0: [call(FOREIGN, 2, transfer)] }),
  );
  none(
    'the data as a memo',
    transaction([pull, call(MEMO_PROGRAM, 1, transfer)], { 0: [call(MEMO_PROGRAM, 2, transfer)] }),
  );
  none(
    'the program called by another one',
    transaction([call(FOREIGN, 1, Buffer.alloc(0))], { 0: [call(P, 2, transfer)] }),
  );
  none(
    'the program called by another one after a real pull',
    transaction([call(FOREIGN, 1, Buffer.alloc(0))], {
      0: [call(P, 2, Buffer.from([10]), []), token(3), call(P, 2, transfer)],
    }),
  );
  none('the transaction’s own instruction to the program', transaction([call(P, 1, transfer)], {}));
  none(
    'another account than the event authority',
    transaction([pull], { 0: [call(P, 2, transfer, [FOREIGN])] }),
  );
  none(
    'more accounts than the event authority',
    transaction([pull], { 0: [call(P, 2, transfer, [EVENT_AUTHORITY, FOREIGN])] }),
  );
  none('no account', transaction([pull], { 0: [call(P, 2, transfer, [])] }));
  none(
    'another tag',
    transaction([pull], {
      0: [call(P, 2, Buffer.concat([Buffer.alloc(8), transfer.subarray(8)]))],
    }),
  );
  none(
    'a failed transaction',
    transaction([pull], { 0: [call(P, 2, transfer)] }, { InstructionError: [3, { Custom: 1 }] }),
  );
  t.end();
});

void t.test(
  'events without stack heights are read only if top-level pulls of the transaction caused them',
  (t) => {
    t.same(events(transaction([pull], { 0: [call(P, null, transfer)] })), [
      { ...transferred, instruction: 0 },
    ]);
    t.same(
      events(transaction([call(FOREIGN, 1, Buffer.alloc(0))], { 0: [call(P, null, transfer)] })),
      [],
    );
    t.end();
  },
);

void t.test(
  'in random instruction lists, only the program’s calls to itself are read as events',
  (t) => {
    const instruction = fc.record({
      programId: fc.constantFrom(P, FOREIGN),
      accounts: fc.constantFrom([EVENT_AUTHORITY], [], [FOREIGN]),
      data: fc.constantFrom(transfer, Buffer.from([10]), transfer.subarray(0, 8)),
      stackHeight: fc.constantFrom(2, 3, 4),
    });
    fc.assert(
      fc.property(
        fc.constantFrom(P, FOREIGN),
        fc.array(instruction, { maxLength: 8 }),
        (outer, calls) => {
          const found = events(transaction([call(outer, 1, Buffer.alloc(0))], { 0: calls }));
          // The judge: replay the calls with a stack, as the runtime would.
          const stack = [outer];
          let genuine = 0;
          for (const { programId, accounts, data, stackHeight } of calls) {
            if (stackHeight - 1 > stack.length) return;
            stack.length = stackHeight - 1;
            const isEvent = data === transfer && accounts[0] === EVENT_AUTHORITY;
            if (isEvent && programId === P && stack.at(-1) === P) genuine += 1;
            stack.push(programId);
          }
          return found.length === genuine;
        },
      ),
      { numRuns: 2000 },
    );
    t.pass();
    t.end();
  },
);
