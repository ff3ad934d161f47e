// The computed size of a transaction is compared with its real size, for any payments in it.
import assert from 'node:assert/strict';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { planAddress, subscriptionAddress } from '../../../src/chain/program/addresses.ts';
import { transferSubscription } from '../../../src/chain/program/instructions.ts';
import { signTransactionV1 } from '../../../src/chain/transactions/message-v1.ts';
import { compileMessage, serializeTransaction } from '../../../src/chain/transactions/message.ts';
import {
  add,
  type Contents,
  emptyTransaction,
  type Part,
  sizeOf,
  TRANSACTION_LIMITS,
  type TransactionVersion,
} from '../../../src/chain/transactions/room.ts';
import { memo } from '../../../src/chain/transactions/system-instructions.ts';

const program = SUBSCRIPTIONS_PROGRAM;
const blockhash = bs58.encode(Buffer.alloc(32, 7));
const wallet = () => generateKeypair().address;
const keeper = generateKeypair();
const [mint, treasury] = [wallet(), wallet()];
const plans = Array.from({ length: 20 }, () => {
  const merchant = wallet();
  return { merchant, plan: planAddress(program, merchant, 1n).address };
});
const subscribers = Array.from({ length: 20 }, wallet);

interface Payment {
  plan: number;
  subscriber: number;
  pulls: number;
  units: number;
}

function partOf({ plan: place, subscriber: who, pulls, units }: Payment): Part {
  const { merchant, plan } = plans[place]!;
  const subscriber = subscribers[who]!;
  const subscription = subscriptionAddress(program, plan, subscriber).address;
  return {
    instructions: [merchant, treasury].slice(0, pulls).map((receiver) =>
      transferSubscription(program, {
        caller: keeper.address,
        subscriber,
        plan,
        subscription,
        mint,
        receiver,
        amount: 5n,
      }),
    ),
    traceEntries: 3 * pulls,
    computeUnits: units,
    loadedDataBytes: 1000,
  };
}

const note = memo('billing 01890a5d-ac96-774b-bcce-b302099a8057');
const shared: Part = {
  instructions: [note],
  traceEntries: 1,
  computeUnits: 20_000,
  loadedDataBytes: 1_000_000,
};

/** Packs the first payments, in order, as many as fit into one transaction. */
function pack(version: TransactionVersion, payments: readonly Payment[]): Contents {
  const start = add(emptyTransaction(version, keeper.address), shared)!;
  return payments.reduce((packed, payment) => add(packed, partOf(payment)) ?? packed, start);
}

function bytesOf({ version, instructions }: Contents): number {
  if (version === 'legacy')
    return serializeTransaction(compileMessage(keeper.address, instructions, blockhash)).length;
  const budget = { computeUnits: 1, loadedDataBytes: 1, priorityFee: 1n };
  return signTransactionV1(keeper, instructions, blockhash, budget).bytes.length;
}

const payments = fc.array(
  fc.record({
    plan: fc.nat(plans.length - 1),
    subscriber: fc.nat(subscribers.length - 1),
    pulls: fc.constantFrom(1, 2, 2, 2),
    units: fc.oneof(fc.constant(30_000), fc.nat(400_000)),
  }),
  { minLength: 1, maxLength: 25 },
);

void t.test(
  'random payments never exceed a limit, and the computed bytes are those on the wire',
  (t) => {
    fc.assert(
      fc.property(payments, fc.constantFrom<TransactionVersion>('legacy', 1), (some, version) => {
        const packed = pack(version, some);
        const [size, limits] = [sizeOf(packed), TRANSACTION_LIMITS[version]];
        for (const name of Object.keys(limits) as (keyof typeof limits)[])
          assert.ok(size[name] <= limits[name], `${name}: ${size[name]} of ${limits[name]}`);
        assert.equal(size.bytes, bytesOf(packed));
      }),
      { numRuns: 60 },
    );
    t.pass();
    t.end();
  },
);

const many = (of: (index: number) => Payment) =>
  Array.from({ length: 20 }, (_, index) => of(index));
const payment = { plan: 0, subscriber: 0, pulls: 2, units: 30_000 };
const paymentsIn = ({ instructions }: Contents) => (instructions.length - 1) / 2;

void t.test(
  'ten payments fit a transaction of version 1; an eleventh would exceed its trace entries',
  (t) => {
    for (const [name, of] of [
      ['one plan', (subscriber: number) => ({ ...payment, subscriber })],
      ['a plan each', (index: number) => ({ ...payment, plan: index, subscriber: index })],
    ] as const) {
      const packed = pack(1, many(of));
      t.equal(paymentsIn(packed), 10, name);
      t.equal(sizeOf(packed).traceEntries, 61);
    }
    t.end();
  },
);

void t.test(
  'a legacy transaction has room for two payments, or for three of one plan without a memo',
  (t) => {
    const onePlan = many((subscriber) => ({ ...payment, subscriber }));
    t.equal(paymentsIn(pack('legacy', onePlan)), 2);
    t.equal(
      paymentsIn(
        pack(
          'legacy',
          many((n) => ({ ...payment, plan: n, subscriber: n })),
        ),
      ),
      2,
    );
    const start = emptyTransaction('legacy', keeper.address);
    const bare = onePlan.reduce((packed, one) => add(packed, partOf(one)) ?? packed, start);
    t.equal(bare.instructions.length, 6);
    t.end();
  },
);

void t.test('compute units and loaded data also limit the payments of a transaction', (t) => {
  const heavy = many((subscriber) => ({ ...payment, subscriber, units: 500_000 }));
  t.equal(paymentsIn(pack(1, heavy)), 2);
  const start = emptyTransaction(1, keeper.address);
  const large = { ...shared, loadedDataBytes: TRANSACTION_LIMITS[1].loadedDataBytes + 1 };
  t.equal(add(start, large), null);
  t.equal(sizeOf(start).addresses, 1, 'the fee payer counts');
  t.end();
});
