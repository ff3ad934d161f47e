// The keeper's transactions: their content, the number of payments that fit, and the payment of
// each instruction.
import assert from 'node:assert/strict';
import { Transaction, VersionedMessage, VersionedTransaction } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  planAddress,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../../src/chain/program/addresses.ts';
import { classifyPullError, failedInstruction } from '../../../src/chain/program/errors.ts';
import {
  blockhashOf,
  type Collection,
  packPayments,
  paymentPart,
  signPayments,
  transactionFee,
  transferPlaces,
  transfersOf,
} from '../../../src/chain/transactions/collection.ts';
import type { TransactionVersion } from '../../../src/chain/transactions/room.ts';

const program = SUBSCRIPTIONS_PROGRAM;
const blockhash = bs58.encode(Buffer.alloc(32, 7));
const wallet = () => generateKeypair().address;
const keeper = generateKeypair();
const [mint, treasury] = [wallet(), wallet()];
const plans = Array.from({ length: 20 }, () => {
  const merchant = wallet();
  return { merchant, plan: planAddress(program, merchant, 1n).address };
});
const subscribers = Array.from({ length: 40 }, wallet);

function collectionOf(index: number, who: number, fee = 5n, net = 495n): Collection {
  const { merchant, plan } = plans[index]!;
  const subscriber = subscribers[who]!;
  const subscription = subscriptionAddress(program, plan, subscriber).address;
  const shared = { programId: program, mint, keeper: keeper.address, treasury };
  return { ...shared, merchant, plan, subscriber, subscription, net, fee };
}

const terms = (version: TransactionVersion, reference = 'a', priorityFee = 360n) => ({
  version,
  blockhash,
  reference,
  budget: { computeUnits: 120_000, loadedDataBytes: 1_000_000, priorityFee },
});

void t.test('the blockhash is read from the bytes of transactions of every version', async (t) => {
  for (const version of ['legacy', 1] as const) {
    const { bytes } = signPayments(keeper, transfersOf(collectionOf(0, 0)), terms(version));
    t.equal(blockhashOf(bytes), blockhash);
  }
});

void t.test('net and fee are transferred in one transaction, with limits and a memo', (t) => {
  const collection = collectionOf(0, 0);
  const { bytes } = signPayments(keeper, transfersOf(collection), terms('legacy'));
  const { instructions } = Transaction.from(bytes);
  t.same(
    instructions.map(({ programId, data }) => `${programId.toBase58()} ${data[0]}`),
    [
      `${COMPUTE_BUDGET_PROGRAM} 2`,
      `${COMPUTE_BUDGET_PROGRAM} 3`,
      `${COMPUTE_BUDGET_PROGRAM} 4`,
      `${program} 10`,
      `${program} 10`,
      `${MEMO_PROGRAM} ${'b'.charCodeAt(0)}`,
    ],
  );
  const [net, fee] = instructions.slice(3);
  t.equal(net!.data.readBigUInt64LE(1), collection.net);
  t.equal(net!.keys[4]?.pubkey.toBase58(), tokenAccountAddress(collection.merchant, mint).address);
  t.equal(fee!.data.readBigUInt64LE(1), collection.fee);
  t.equal(fee!.keys[4]?.pubkey.toBase58(), tokenAccountAddress(treasury, mint).address);
  t.equal(bytes.length, 761, 'the size in docs/chain.md');
  t.end();
});

void t.test(
  'an amount of zero adds no transfer, and a payment without any amount is refused',
  (t) => {
    const sent = (net: bigint, fee: bigint) =>
      transfersOf(collectionOf(0, 0, fee, net)).map(({ data, keys }) => [
        data.readBigUInt64LE(1),
        keys[4]!.pubkey.toBase58(),
      ]);
    t.same(sent(5n, 0n), [[5n, tokenAccountAddress(plans[0]!.merchant, mint).address]]);
    t.same(sent(0n, 5n), [[5n, tokenAccountAddress(treasury, mint).address]]);
    t.throws(() => sent(0n, 0n), RangeError);
    t.throws(() => sent(-1n, 5n), RangeError);
    t.end();
  },
);

void t.test(
  'only the keeper signs a payment, and the memo shows the payment’s reference only as a hash',
  (t) => {
    for (const version of ['legacy', 1] as const) {
      const signed = (reference: string) =>
        signPayments(keeper, transfersOf(collectionOf(0, 0)), terms(version, reference));
      const one = signed('a subscription id');
      t.equal(signed('a subscription id').signature, one.signature);
      t.not(signed('another').signature, one.signature);
      const { message } = VersionedTransaction.deserialize(one.bytes);
      t.equal(message.header.numRequiredSignatures, 1);
      const memo = Buffer.from(message.compiledInstructions.at(-1)!.data).toString();
      t.match(memo, /^billing [0-9a-f]{32}$/);
      t.notMatch(Buffer.from(one.bytes).toString('latin1'), /subscription id/);
    }
    const legacy = signPayments(keeper, transfersOf(collectionOf(0, 0)), terms('legacy'));
    t.equal(Transaction.from(legacy.bytes).verifySignatures(), true);
    t.doesNotThrow(() => VersionedMessage.deserialize(legacy.bytes.subarray(65)));
    t.end();
  },
);

void t.test('the fee of a transaction is read from its bytes', (t) => {
  const fee = (version: TransactionVersion) =>
    transactionFee(signPayments(keeper, transfersOf(collectionOf(0, 0)), terms(version)).bytes);
  t.equal(fee(1), 5_360n);
  t.equal(fee('legacy'), 5_360n);
  t.end();
});

/** A payment of a random plan, with a fee or without, to be sent alone or not. */
const payment = fc.record({
  plan: fc.nat(plans.length - 1),
  fee: fc.constantFrom(0n, 5n, 5n, 5n),
  units: fc.constantFrom(10_000, 36_000, 600_000),
  needsOwnTransaction: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
});

const packed = (
  version: TransactionVersion,
  some: readonly { plan: number; fee: bigint; units: number; needsOwnTransaction: boolean }[],
) =>
  packPayments(
    some.map(({ plan, fee, units, needsOwnTransaction }, who) => {
      const collection = collectionOf(plan, who, fee);
      const costs = { computeUnits: units, loadedDataBytes: 4096 };
      return { collection, needsOwnTransaction, part: paymentPart(collection, costs) };
    }),
    { version, keeper: keeper.address, loadedDataBytes: 1_000_000 },
  );

void t.test(
  'each random payment is in exactly one transaction within limits, and an error names the right payment',
  (t) => {
    fc.assert(
      fc.property(
        fc.array(payment, { minLength: 1, maxLength: subscribers.length }),
        fc.constantFrom<TransactionVersion>('legacy', 1),
        (some, version) => {
          const packs = packed(version, some);
          const all = packs.flat().map(({ collection }) => collection.subscription);
          assert.equal(all.length, some.length);
          assert.equal(new Set(all).size, some.length);
          for (const pack of packs) {
            assert.ok(
              pack.length === 1 || pack.every(({ needsOwnTransaction }) => !needsOwnTransaction),
              'alone',
            );
            const transfers = pack.flatMap(({ part }) => [...part.instructions]);
            const { bytes } = signPayments(keeper, transfers, terms(version));
            assert.ok(bytes.length <= (version === 1 ? 4096 : 1232), `${bytes.length} bytes`);
            const { message } = VersionedTransaction.deserialize(bytes);
            assert.ok(message.staticAccountKeys.length <= 64);
            assert.ok(3 * transfers.length + 1 <= 64, 'instruction trace');
            const total = (of: 'computeUnits' | 'loadedDataBytes') =>
              pack.reduce((sum, { part }) => sum + part[of], 0);
            assert.ok(total('computeUnits') <= 1_400_000);
            assert.ok(1_000_000 + total('loadedDataBytes') <= 64 * 1024 * 1024);
            const places = pack.map(({ collection }) =>
              transferPlaces(bytes, program, collection.subscription),
            );
            for (const index of message.compiledInstructions.keys()) {
              const err = { InstructionError: [index, { Custom: 1 }] };
              assert.equal(failedInstruction(err), index);
              const charged = places.map((pulls) =>
                classifyPullError(err, {
                  layout: { pulls },
                  logs: null,
                  gross: 500n,
                  subscriberAccount: null,
                }),
              );
              const isTransfer =
                index >= message.compiledInstructions.length - 1 - transfers.length &&
                index < message.compiledInstructions.length - 1;
              const first = message.compiledInstructions.length - 1 - transfers.length;
              const owners = pack.flatMap(({ part }, who) => part.instructions.map(() => who));
              assert.deepEqual(
                charged.flatMap(({ kind }, who) => (kind === 'subscriber' ? [who] : [])),
                isTransfer ? [owners[index - first]] : [],
                `instruction ${index}`,
              );
            }
          }
        },
      ),
      { numRuns: 30 },
    );
    t.pass();
    t.end();
  },
);

void t.test(
  'ten payments fill a version 1 transaction, two or three payments fill a legacy transaction',
  (t) => {
    const sizes = (version: TransactionVersion, planOf: (index: number) => number) =>
      packed(
        version,
        Array.from({ length: 20 }, (_, index) => ({
          plan: planOf(index),
          fee: 5n,
          units: 36_000,
          needsOwnTransaction: false,
        })),
      ).map(({ length }) => length);
    t.same(
      sizes(1, () => 0),
      [10, 10],
    );
    t.same(
      sizes(1, (index) => index),
      [10, 10],
    );
    t.same(new Set(sizes('legacy', () => 0)), new Set([2]));
    t.end();
  },
);
