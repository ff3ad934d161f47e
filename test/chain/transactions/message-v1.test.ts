// web3.js decodes what the encoder writes, kit decodes and encodes it.
import assert from 'node:assert/strict';
import { PublicKey, TransactionInstruction, VersionedTransaction } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import {
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getTransactionDecoder,
  getTransactionEncoder,
} from 'kit8';
import t from 'tap';
import { generateKeypair, signatureOf } from '../../../src/chain/keypair.ts';
import { compileMessageV1, signTransactionV1 } from '../../../src/chain/transactions/message-v1.ts';
import { instructionCount } from '../../../src/chain/transactions/message.ts';

const blockhash = bs58.encode(Buffer.alloc(32, 7));
const keys = Array.from({ length: 12 }, () => generateKeypair().address);

const instruction = fc
  .record({
    program: fc.constantFrom(...keys),
    accounts: fc.array(
      fc.record({
        address: fc.constantFrom(...keys),
        isSigner: fc.boolean(),
        isWritable: fc.boolean(),
      }),
      { maxLength: 14 },
    ),
    data: fc.uint8Array({ maxLength: 400 }),
  })
  .map(
    ({ program, accounts, data }) =>
      new TransactionInstruction({
        programId: new PublicKey(program),
        keys: accounts.map(({ address, ...rights }) => ({
          pubkey: new PublicKey(address),
          ...rights,
        })),
        data: Buffer.from(data),
      }),
  );

const transaction = fc.record({
  feePayer: fc.constantFrom(...keys),
  instructions: fc.array(instruction, { maxLength: 20 }),
  budget: fc.record({
    computeUnits: fc.nat(1_400_000),
    loadedDataBytes: fc.nat(64 * 1024 * 1024),
    // web3.js reads the fee as a number.
    priorityFee: fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }),
  }),
});

/** Each instruction with its accounts and their rights. */
const plain = (instructions: readonly TransactionInstruction[], rights: Map<string, string>) =>
  instructions.map(({ programId, keys: metas, data }) => ({
    program: programId.toBase58(),
    accounts: metas.map(
      ({ pubkey }) => `${pubkey.toBase58()} ${rights.get(pubkey.toBase58()) ?? ''}`,
    ),
    data: data.toString('hex'),
  }));

/**
 * The rights of a transaction on each account: the union of those that its instructions require.
 */
function rightsIn(feePayer: string, instructions: readonly TransactionInstruction[]) {
  const rights = new Map([[feePayer, { signer: true, writable: true }]]);
  for (const { programId, keys: metas } of instructions) {
    for (const { pubkey, isSigner, isWritable } of [
      ...metas,
      { pubkey: programId, isSigner: false, isWritable: false },
    ]) {
      const known = rights.get(pubkey.toBase58()) ?? { signer: false, writable: false };
      known.signer ||= isSigner;
      known.writable ||= isWritable;
      rights.set(pubkey.toBase58(), known);
    }
  }
  return new Map(
    [...rights].map(([address, { signer, writable }]) => [address, `${signer} ${writable}`]),
  );
}

void t.test(
  'web3.js decodes a version 1 message to the same instructions, account rights, fee and limits',
  (t) => {
    fc.assert(
      fc.property(transaction, ({ feePayer, instructions, budget }) => {
        const bytes = compileMessageV1(feePayer, instructions, blockhash, budget);
        const signatures = Buffer.alloc(64 * bytes.readUInt8(1));
        const { message } = VersionedTransaction.deserialize(Buffer.concat([bytes, signatures]));
        assert.equal(message.version, 1);
        assert.deepEqual('transactionConfig' in message && message.transactionConfig, {
          computeUnitLimit: budget.computeUnits,
          heapSize: null,
          loadedAccountsDataSizeLimit: budget.loadedDataBytes,
          priorityFee: Number(budget.priorityFee),
        });
        assert.equal(message.recentBlockhash, blockhash);
        const address = (index: number) => message.staticAccountKeys[index]?.toBase58() ?? '';
        assert.equal(address(0), feePayer);
        const expected = rightsIn(feePayer, instructions);
        const found = new Map(
          message.staticAccountKeys.map((key, index) => [
            key.toBase58(),
            `${message.isAccountSigner(index)} ${message.isAccountWritable(index)}`,
          ]),
        );
        assert.deepEqual(new Map([...found].sort()), new Map([...expected].sort()));
        assert.deepEqual(
          message.compiledInstructions.map(({ programIdIndex, accountKeyIndexes, data }) => ({
            program: address(programIdIndex),
            accounts: accountKeyIndexes.map(
              (index) => `${address(index)} ${found.get(address(index)) ?? ''}`,
            ),
            data: Buffer.from(data).toString('hex'),
          })),
          plain(instructions, expected),
        );
      }),
      { numRuns: 200 },
    );
    t.pass();
    t.end();
  },
);

void t.test('kit decodes a version 1 message and encodes the result to the same bytes', (t) => {
  fc.assert(
    fc.property(transaction, ({ feePayer, instructions, budget }) => {
      const bytes = compileMessageV1(feePayer, instructions, blockhash, budget);
      const decoded = getCompiledTransactionMessageDecoder().decode(bytes);
      assert.equal(decoded.version, 1);
      assert.equal(decoded.staticAccounts[0], feePayer);
      const encoded = getCompiledTransactionMessageEncoder().encode(decoded);
      assert.equal(Buffer.from(encoded).toString('hex'), bytes.toString('hex'));
    }),
    { numRuns: 200 },
  );
  t.pass();
  t.end();
});

const budget = { computeUnits: 1000, loadedDataBytes: 100_000, priorityFee: 5n };
const hello = (...signers: string[]) =>
  new TransactionInstruction({
    programId: new PublicKey(keys[0]!),
    keys: signers.map((address) => ({
      pubkey: new PublicKey(address),
      isSigner: true,
      isWritable: false,
    })),
    data: Buffer.from('hello'),
  });

void t.test(
  'a signed version 1 transaction ends with its signature, and the signature is the transaction’s id',
  (t) => {
    const keeper = generateKeypair();
    const { bytes, signature } = signTransactionV1(keeper, [hello()], blockhash, budget);
    const decoded = getTransactionDecoder().decode(bytes);
    t.equal(bs58.encode(decoded.signatures[keeper.address as never] as Uint8Array), signature);
    t.equal(Buffer.from(getTransactionEncoder().encode(decoded)).compare(bytes), 0);
    t.equal(signatureOf(bytes), signature);
    t.equal(instructionCount(bytes), 1);
    const { message, signatures } = VersionedTransaction.deserialize(bytes);
    t.equal(bs58.encode(signatures[0]!), signature);
    t.equal(message.staticAccountKeys[0]?.toBase58(), keeper.address);
    t.end();
  },
);

void t.test(
  'a version 1 message with a value too large for its field or with a second signer is refused',
  (t) => {
    const keeper = generateKeypair();
    const [one, other] = [hello(), hello(keys[1]!)];
    const compile = (change: Partial<typeof budget>) => () =>
      compileMessageV1(keeper.address, [one], blockhash, { ...budget, ...change });
    t.throws(compile({ priorityFee: -1n }), RangeError);
    t.throws(compile({ computeUnits: 2 ** 32 }), RangeError);
    t.throws(compile({ loadedDataBytes: 2 ** 32 }), RangeError);
    const many = Array.from({ length: 256 }, () => one);
    t.throws(() => compileMessageV1(keeper.address, many, blockhash, budget), RangeError);
    t.throws(() => signTransactionV1(keeper, [other], blockhash, budget), /one signer/);
    t.throws(() => compileMessageV1(keeper.address, [one], 'x', budget), {
      name: 'TypeError',
      message: /"x"/,
    });
    t.end();
  },
);
