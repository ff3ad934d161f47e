// Solana's own client libraries are the judges: what they build is what we build.
import { createAssociatedTokenAccountIdempotentInstruction, getAssociatedTokenAddressSync } from '@solana/spl-token';
import { ComputeBudgetProgram, PublicKey, type TransactionInstruction } from '@solana/web3.js';
import fc from 'fast-check';
import t from 'tap';
import { computeUnitLimit, computeUnitPrice, createTokenAccount, memo } from '../../src/chain/companions.ts';
import type { Instruction } from '../../src/chain/instruction.ts';
import { generateKeypair } from '../../src/chain/keypair.ts';

const plain = ({ programId, keys, data }: TransactionInstruction): Instruction => ({
  programId: programId.toBase58(),
  accounts: keys.map(({ pubkey, isSigner, isWritable }) => ({ address: pubkey.toBase58(), signer: isSigner, writable: isWritable })),
  data: Buffer.from(data),
});

void t.test('compute limit and price', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1_400_000 }), (units) => {
      t.same(computeUnitLimit(units), plain(ComputeBudgetProgram.setComputeUnitLimit({ units })));
    }),
    { numRuns: 20 },
  );
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (microLamports) => {
      t.same(computeUnitPrice(microLamports), plain(ComputeBudgetProgram.setComputeUnitPrice({ microLamports })));
    }),
    { numRuns: 20 },
  );
});

void t.test('a token account is made for whom it is of, paid for by another, and not twice', async (t) => {
  const [payer, owner, mint] = Array.from({ length: 3 }, () => generateKeypair().address) as [string, string, string];
  const keys = [payer, owner, mint].map((address) => new PublicKey(address)) as [PublicKey, PublicKey, PublicKey];
  const account = getAssociatedTokenAddressSync(keys[2], keys[1]);
  t.same(
    createTokenAccount({ payer, owner, mint }),
    plain(createAssociatedTokenAccountIdempotentInstruction(keys[0], account, keys[1], keys[2])),
  );
});

void t.test('a memo is its text, and asks nobody to sign', async (t) => {
  const text = 'billing ümlaut 1';
  const { programId, accounts, data } = memo(text);
  t.equal(programId, 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
  t.same(accounts, []);
  t.equal(data.toString('utf8'), text);
});
