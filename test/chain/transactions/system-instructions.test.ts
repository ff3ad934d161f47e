import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  tokenAccountAddress,
} from '../../../src/chain/program/addresses.ts';
import {
  createTokenAccount,
  loadedDataLimit,
  memo,
} from '../../../src/chain/transactions/system-instructions.ts';

void t.test('a memo instruction contains its text and needs no signer', async (t) => {
  const text = 'billing ümlaut 1';
  const { programId, keys, data } = memo(text);
  t.equal(programId.toBase58(), MEMO_PROGRAM);
  t.same(keys, []);
  t.equal(data.toString('utf8'), text);
});

void t.test(
  'the limit of loaded account data is compute budget instruction 4 with a u32',
  async (t) => {
    const { programId, keys, data } = loadedDataLimit(0x01020304);
    t.equal(programId.toBase58(), COMPUTE_BUDGET_PROGRAM);
    t.same(keys, []);
    t.equal(data.toString('hex'), '0404030201');
  },
);

void t.test('a token account can be created for an owner and paid for by another', async (t) => {
  const [payer, owner, mint] = [1, 2, 3].map(() => generateKeypair().address) as [
    string,
    string,
    string,
  ];
  const { keys } = createTokenAccount({ payer, owner, mint });
  const signers = keys.filter(({ isSigner }) => isSigner).map(({ pubkey }) => pubkey.toBase58());
  t.same(signers, [payer]);
  t.equal(keys[1]?.pubkey.toBase58(), tokenAccountAddress(owner, mint).address);
});
