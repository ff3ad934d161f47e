import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import fc from 'fast-check';
import t from 'tap';
import { decodeTransaction } from '../../../../src/local/chain/wire/decode.ts';
import { verifiedTransactions } from '../../../../src/local/chain/wire/verify.ts';

const [one, two] = [Keypair.generate(), Keypair.generate()];
const blockhash = Keypair.generate().publicKey.toBase58();

/** Bytes of a transaction of one or two signers. */
function transfer(lamports: number, signers: 1 | 2): Buffer {
  const transaction = new Transaction({
    feePayer: one.publicKey,
    blockhash,
    lastValidBlockHeight: 0,
  });
  const fromPubkey = signers === 2 ? two.publicKey : one.publicKey;
  transaction.add(SystemProgram.transfer({ fromPubkey, toPubkey: one.publicKey, lamports }));
  transaction.sign(...(signers === 2 ? [one, two] : [one]));
  return transaction.serialize();
}

void t.test(
  'of a batch, exactly the transactions whose signatures are all valid pass the check',
  async () => {
    const made = fc.record({
      lamports: fc.nat(1_000_000),
      signers: fc.constantFrom(1 as const, 2 as const),
      flip: fc.option(fc.nat(150)),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(made, { maxLength: 12 }), async (cases) => {
        const batch = cases.map(({ lamports, signers, flip }) => {
          const bytes = transfer(lamports, signers);
          // A byte of a signature, or of a key of the message after the header.
          const at =
            flip === null
              ? -1
              : flip < 64 * signers
                ? 1 + flip
                : 1 + 64 * signers + 4 + (flip % 32);
          if (at !== -1) bytes[at] = (bytes[at] ?? 0) ^ 1;
          return { transaction: decodeTransaction(bytes), good: flip === null };
        });
        const good = batch.filter((entry) => entry.good).map((entry) => entry.transaction);
        const found = await verifiedTransactions(batch.map((entry) => entry.transaction));
        return (
          found.length === good.length &&
          found.every((transaction, index) => transaction === good[index])
        );
      }),
      { numRuns: 60 },
    );
  },
);

void t.test(
  'each of several concurrent batches gets the results for its own transactions',
  async (t) => {
    const batches = Array.from({ length: 8 }, (_, batch) =>
      Array.from({ length: 5 }, (_, index) => {
        const bytes = transfer(batch * 5 + index, 1);
        if (index === batch % 5) bytes[1] = (bytes[1] ?? 0) ^ 1;
        return decodeTransaction(bytes);
      }),
    );
    const found = await Promise.all(batches.map(verifiedTransactions));
    t.same(
      found.map((good, batch) => batches[batch]!.map((transaction) => good.includes(transaction))),
      batches.map((_, batch) => Array.from({ length: 5 }, (_, index) => index !== batch % 5)),
    );
  },
);
