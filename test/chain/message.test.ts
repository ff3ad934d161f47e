import assert from 'node:assert/strict';
import { Message, PublicKey, Transaction, TransactionInstruction } from '@solana/web3.js';
import { getCompiledTransactionMessageDecoder } from '@solana/kit';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import type { Instruction } from '../../src/chain/instruction.ts';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { compileMessage, MAX_TRANSACTION_LENGTH, serializeTransaction, signatureOf, unsignedTransaction } from '../../src/chain/message.ts';
import { signTransaction } from '../../src/chain/transactions.ts';

const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => bs58.encode(bytes));
const blockhash = bs58.encode(Buffer.alloc(32, 7));

// Few keys, so that instructions share accounts with other roles.
const program = fc.uniqueArray(key, { minLength: 6, maxLength: 6 }).chain((keys) => {
  const account = fc.record({ address: fc.constantFrom(...keys), signer: fc.boolean(), writable: fc.boolean() });
  const instruction = fc.record({
    programId: fc.constantFrom(...keys),
    accounts: fc.array(account, { maxLength: 8 }),
    data: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  });
  return fc.record({ feePayer: fc.constantFrom(...keys), instructions: fc.array(instruction, { minLength: 1, maxLength: 3 }) });
});

const web3 = ({ programId, accounts, data }: Instruction) =>
  new TransactionInstruction({
    programId: new PublicKey(programId),
    keys: accounts.map(({ address, signer, writable }) => ({
      pubkey: new PublicKey(address),
      isSigner: signer,
      isWritable: writable,
    })),
    data,
  });

void t.test('web3.js reads a compiled message back as the same instructions with the same rights', (t) => {
  fc.assert(
    fc.property(program, ({ feePayer, instructions }) => {
      const bytes = compileMessage(feePayer, instructions, blockhash);
      const message = Message.from(bytes);
      const theirs = new Transaction({ feePayer: new PublicKey(feePayer), blockhash, lastValidBlockHeight: 0 });
      theirs.add(...instructions.map(web3));
      const expected = theirs.compileMessage();

      assert.equal(message.accountKeys[0]?.toBase58(), feePayer);
      assert.equal(message.recentBlockhash, blockhash);
      assert.deepEqual(message.header, expected.header);
      const rights = (of: Message) =>
        of.accountKeys.map((one, place) => `${one.toBase58()} ${of.isAccountSigner(place)} ${of.isAccountWritable(place)}`).sort();
      assert.deepEqual(rights(message), rights(expected));
      const plain = (of: Message) =>
        of.instructions.map((one) => ({
          program: of.accountKeys[one.programIdIndex]?.toBase58(),
          accounts: one.accounts.map((place) => of.accountKeys[place]?.toBase58()),
          data: one.data,
        }));
      assert.deepEqual(plain(message), plain(expected));
      assert.equal(bytes.length, expected.serialize().length);
    }),
    { numRuns: 200 },
  );
  t.pass();
  t.end();
});

void t.test('kit reads a compiled message too', (t) => {
  const payer = generateKeypair().address;
  const data = Buffer.from('00ff', 'hex');
  const other = generateKeypair().address;
  const instruction = { programId: other, accounts: [{ address: payer, signer: false, writable: false }], data };
  const decoded = getCompiledTransactionMessageDecoder().decode(compileMessage(payer, [instruction], blockhash));
  t.equal(decoded.version, 'legacy');
  t.same(decoded.staticAccounts, [payer, other]);
  t.same(decoded.header, { numSignerAccounts: 1, numReadonlySignerAccounts: 0, numReadonlyNonSignerAccounts: 1 });
  t.end();
});

void t.test('lengths over 127 take two bytes', (t) => {
  const payer = generateKeypair().address;
  for (const length of [0, 127, 128, 129, 1000]) {
    const bytes = compileMessage(payer, [{ programId: payer, accounts: [], data: Buffer.alloc(length, 9) }], blockhash);
    t.equal(bs58.decode(Message.from(bytes).instructions[0]!.data).length, length);
  }
  t.end();
});

void t.test('a transaction of 1232 bytes is compiled, one of 1233 is refused with its length', (t) => {
  const payer = generateKeypair().address;
  const withData = (length: number) => compileMessage(payer, [{ programId: payer, accounts: [], data: Buffer.alloc(length) }], blockhash);
  const overhead = serializeTransaction(withData(1000), []).length - 1000;
  t.equal(serializeTransaction(withData(MAX_TRANSACTION_LENGTH - overhead), []).length, 1232);
  t.throws(() => withData(MAX_TRANSACTION_LENGTH - overhead + 1), { constructor: RangeError, message: /1233 bytes/ });
  t.end();
});

void t.test('a signed transaction verifies, and its id is its first signature', (t) => {
  const keeper = generateKeypair();
  const instruction = { programId: generateKeypair().address, accounts: [], data: Buffer.from('hello') };
  const { bytes, signature } = signTransaction(keeper, [instruction], blockhash);
  const transaction = Transaction.from(bytes);
  t.equal(transaction.verifySignatures(), true);
  t.equal(bs58.encode(transaction.signature!), signature);
  t.equal(signatureOf(bytes), signature);
  bytes[bytes.length - 1]! ^= 1;
  t.equal(Transaction.from(bytes).verifySignatures(), false, 'a changed transaction does not verify');
  t.end();
});

void t.test('signing for one signer refuses a transaction that needs another', (t) => {
  const other = { address: generateKeypair().address, signer: true, writable: false };
  const instruction = { programId: generateKeypair().address, accounts: [other], data: Buffer.alloc(0) };
  t.throws(() => signTransaction(generateKeypair(), [instruction], blockhash), { message: /one signer/ });
  t.end();
});

void t.test('an unsigned transaction is what web3.js would hand to a wallet', (t) => {
  const payer = generateKeypair().address;
  const instruction = { programId: generateKeypair().address, accounts: [], data: Buffer.from('x') };
  const bytes = Buffer.from(unsignedTransaction(payer, [instruction], blockhash), 'base64');
  const theirs = new Transaction({ feePayer: new PublicKey(payer), blockhash, lastValidBlockHeight: 0 }).add(web3(instruction));
  t.same(bytes, theirs.serialize({ requireAllSignatures: false }));
  t.end();
});

void t.test('what is no blockhash or address is refused', (t) => {
  const payer = generateKeypair().address;
  t.throws(() => compileMessage(payer, [], 'x'), { name: 'TypeError', message: /"x"/ });
  t.throws(() => compileMessage('y', [], blockhash), { name: 'TypeError', message: /"y"/ });
  t.end();
});
