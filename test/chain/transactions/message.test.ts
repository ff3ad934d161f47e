import { PublicKey, Transaction, TransactionInstruction } from '@solana/web3.js';
import bs58 from 'bs58';
import t from 'tap';
import { generateKeypair, signatureOf } from '../../../src/chain/keypair.ts';
import {
  addSignature,
  compileMessage,
  instructionCount,
  MAX_TRANSACTION_LENGTH,
  serializeTransaction,
  unsignedTransaction,
} from '../../../src/chain/transactions/message.ts';
import { signTransaction } from '../../../src/chain/transactions/subscriptions.ts';

const blockhash = bs58.encode(Buffer.alloc(32, 7));
const wallet = () => generateKeypair().address;

const instruction = (data: string | Buffer, ...signers: string[]) =>
  new TransactionInstruction({
    programId: new PublicKey(wallet()),
    keys: signers.map((address) => ({
      pubkey: new PublicKey(address),
      isSigner: true,
      isWritable: false,
    })),
    data: Buffer.from(data),
  });

void t.test('a transaction of 1232 bytes is serialized, a longer one is refused', (t) => {
  const payer = wallet();
  const length = (data: number) =>
    serializeTransaction(compileMessage(payer, [instruction(Buffer.alloc(data))], blockhash))
      .length;
  const overhead = length(1000) - 1000;
  t.equal(length(MAX_TRANSACTION_LENGTH - overhead), 1232);
  t.throws(() => length(MAX_TRANSACTION_LENGTH - overhead + 1), {
    constructor: RangeError,
    message: /1233 bytes/,
  });
  for (const data of [1500, 3000, 100_000]) t.throws(() => length(data), RangeError);
  t.end();
});

void t.test('a signed transaction verifies, and its id is its first signature', (t) => {
  const keeper = generateKeypair();
  const { bytes, signature } = signTransaction(keeper, [instruction('hello')], blockhash);
  const transaction = Transaction.from(bytes);
  t.equal(transaction.verifySignatures(), true);
  t.equal(bs58.encode(transaction.signature!), signature);
  t.equal(signatureOf(bytes), signature);
  t.equal(instructionCount(bytes), 1);
  bytes[bytes.length - 1]! ^= 1;
  t.equal(Transaction.from(bytes).verifySignatures(), false, 'after a changed byte');
  t.end();
});

void t.test('signing for one signer refuses a transaction that needs another', (t) => {
  const needsAnother = instruction('', wallet());
  t.throws(() => signTransaction(generateKeypair(), [needsAnother], blockhash), {
    message: /one signer/,
  });
  t.end();
});

void t.test('an unsigned transaction takes the signatures of its signers, in any order', (t) => {
  const [payer, other] = [generateKeypair(), generateKeypair()];
  const unsigned = unsignedTransaction(payer.address, [instruction('x', other.address)], blockhash);
  const read = Transaction.from(Buffer.from(unsigned, 'base64'));
  t.equal(read.feePayer?.toBase58(), payer.address);
  t.same(
    read.signatures.map(({ signature }) => signature),
    [null, null],
  );
  const signed = addSignature(payer, addSignature(other, unsigned));
  t.equal(Transaction.from(Buffer.from(signed, 'base64')).verifySignatures(), true);
  t.throws(() => addSignature(generateKeypair(), unsigned), /not required to sign/);
  t.end();
});

void t.test('a fee payer that is not an address is refused with an error that names it', (t) => {
  t.throws(() => compileMessage('y', [], blockhash), { name: 'TypeError', message: /"y"/ });
  t.end();
});
