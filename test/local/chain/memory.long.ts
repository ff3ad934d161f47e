// Memory stays bounded: every store of the chain has its cap in src/local/chain/state.ts
// (BLOCKS_KEPT, TRANSACTIONS_KEPT, STATUS_BLOCKS, JOURNAL_BLOCKS, TRANSACTIONS_PER_BLOCK,
// ACCOUNTS_CACHED), and here each of them is passed.
import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import t, { type Test } from 'tap';
import { current, head } from '../../../src/local/chain/accounts.ts';
import { produceBlock } from '../../../src/local/chain/blocks.ts';
import { execute } from '../../../src/local/chain/execute.ts';
import { airdrop } from '../../../src/local/chain/faucet.ts';
import { timeTravel } from '../../../src/local/chain/fork.ts';
import { base58, keyOf } from '../../../src/local/chain/keys.ts';
import { openChain } from '../../../src/local/chain/open.ts';
import { respond } from '../../../src/local/chain/rpc/json-rpc.ts';
import {
  ACCOUNTS_CACHED,
  BLOCKS_KEPT,
  type Chain,
  JOURNAL_BLOCKS,
  STATUS_BLOCKS,
  TRANSACTIONS_KEPT,
  TRANSACTIONS_PER_BLOCK,
} from '../../../src/local/chain/state.ts';
import { decodeTransaction } from '../../../src/local/chain/wire/decode.ts';

const LAMPORTS = 1_000_000;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function rpc(chain: Chain, method: string, ...params: unknown[]): unknown {
  const { result, error } = JSON.parse(
    respond({ jsonrpc: '2.0', id: 1, method, params }, { chain, lagging: false }),
  ) as {
    result: unknown;
    error?: { message: string };
  };
  if (error !== undefined) throw new Error(error.message);
  return result;
}

/**
 * A chain with no server, and a sender of ever new transfers: the bytes differ in the signature,
 * which a run that counts it as verified does not look at.
 */
function setup(t: Test) {
  const chain = openChain(0, undefined);
  const payer = Keypair.generate();
  t.notOk('refused' in airdrop(chain, payer.publicKey.toBase58(), 100_000_000_000n));
  produceBlock(chain);
  const to = Keypair.generate().publicKey;
  const template = () => {
    const blockhash = base58(chain.blocks.at(-2)?.hash ?? '');
    const transaction = new Transaction({
      feePayer: payer.publicKey,
      blockhash,
      lastValidBlockHeight: 0,
    });
    transaction.add(
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports: LAMPORTS }),
    );
    transaction.sign(payer);
    return transaction.serialize();
  };
  function land(count: number): string[] {
    const bytes = template();
    const ids: string[] = [];
    for (let sent = 0; sent < count; sent += 1) {
      const copy = Buffer.from(bytes);
      copy.set(randomBytes(64), 1);
      const landed = execute(chain, decodeTransaction(copy), false, true);
      if ('refused' in landed) throw new Error(JSON.stringify(landed.refused));
      ids.push(base58(landed.id));
    }
    return ids;
  }
  return { chain, land, to: to.toBase58() };
}

function undoEntries({ blocks }: Chain): number {
  return blocks.reduce((sum, { undo }) => sum + undo.size, 0);
}

const usedMemory = () => {
  // A collection frees buffers in the background; the next one waits for that.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

void t.test('a block is sealed early when it is full', (t) => {
  const { chain, land } = setup(t);
  const { height } = head(chain);
  land(TRANSACTIONS_PER_BLOCK - 1);
  t.equal(head(chain).height, height);
  land(1);
  t.equal(head(chain).height, height + 1);
  t.equal(head(chain).transactions.length, 0);
  t.end();
});

void t.test(
  'the oldest transactions beyond TRANSACTIONS_KEPT are forgotten, and memory no longer grows',
  (t) => {
    const { chain, land, to } = setup(t);
    const at = { commitment: 'confirmed' };
    const fill = (blocks: number, each: number) => {
      for (let block = 0; block < blocks; block += 1) {
        land(each);
        produceBlock(chain);
      }
    };
    const status = (signature: string | undefined) =>
      (
        rpc(chain, 'getSignatureStatuses', [signature], { searchTransactionHistory: true }) as {
          value: unknown[];
        }
      ).value[0];
    const kept = () => chain.landed.filter(({ payload }) => payload !== null).length;
    const already = chain.landed.length;
    const [oldest] = land(1);
    fill((TRANSACTIONS_KEPT - 200) / 100, 100);
    land(199 - already);
    produceBlock(chain);
    t.equal(chain.landed.length, TRANSACTIONS_KEPT);
    t.not(rpc(chain, 'getTransaction', oldest, at), null, 'all that the cap allows are known');
    fill(1, already + 1);
    t.equal(rpc(chain, 'getTransaction', oldest, at), null, 'one more, and the oldest is not');
    t.equal(kept(), TRANSACTIONS_KEPT);
    t.match(status(oldest), { err: null }, 'its status is known longer');
    for (let block = 0; block < STATUS_BLOCKS; block += 1) produceBlock(chain);
    t.equal(status(oldest), null, 'until STATUS_BLOCKS have passed');
    t.strictSame([chain.landed.length, chain.byId.size], [TRANSACTIONS_KEPT, TRANSACTIONS_KEPT]);
    // From here on as many statuses are forgotten as are added.
    fill(STATUS_BLOCKS, 50);
    const before = usedMemory();
    fill(200, 50);
    const growth = usedMemory() - before;
    t.strictSame(
      [kept(), chain.landed.length, chain.byId.size],
      [TRANSACTIONS_KEPT, TRANSACTIONS_KEPT, TRANSACTIONS_KEPT],
    );
    t.ok(
      growth < 5_000_000,
      `10,000 more transactions, of some 5 kB each, grew memory by ${growth} bytes`,
    );
    const [journalled, older] = [
      chain.blocks.slice(-JOURNAL_BLOCKS),
      chain.blocks.slice(0, -JOURNAL_BLOCKS),
    ];
    t.ok(journalled.slice(0, -1).every(({ transactions }) => transactions.length === 50));
    t.ok(older.every(({ undo, transactions }) => undo.size === 0 && transactions.length === 0));
    t.match(rpc(chain, 'getSignaturesForAddress', to, at), { length: 1_000 });
    t.match(
      rpc(chain, 'getBalance', to, at),
      { value: LAMPORTS * (TRANSACTIONS_KEPT + STATUS_BLOCKS * 50 + 10_001) },
      'state knows all of them',
    );
    t.end();
  },
);

void t.test(
  'a million slots of time travel leave BLOCKS_KEPT blocks and JOURNAL_BLOCKS journals',
  (t) => {
    const { chain } = setup(t);
    const first = head(chain).slot;
    const steps = BLOCKS_KEPT + 500;
    const stride = Math.ceil(1_000_000 / steps);
    let half = 0;
    for (let step = 1; step <= steps; step += 1) {
      timeTravel(chain, { absoluteSlot: first + step * stride });
      if (step === BLOCKS_KEPT) half = usedMemory();
    }
    const growth = usedMemory() - half;
    t.ok(head(chain).slot - first >= 1_000_000);
    t.equal(chain.blocks.length, BLOCKS_KEPT);
    t.ok(chain.blocks.slice(0, -JOURNAL_BLOCKS).every(({ undo }) => undo.size === 0));
    t.ok(undoEntries(chain) <= JOURNAL_BLOCKS, 'one clock for each block that can be taken back');
    t.ok(growth < 1_000_000, `${growth} bytes`);
    const [oldest] = chain.blocks;
    t.type(rpc(chain, 'getBlockTime', oldest?.slot), 'number');
    t.throws(() => rpc(chain, 'getBlockTime', first), /cleaned up/);
    t.equal(rpc(chain, 'getSlot', { commitment: 'processed' }), head(chain).slot);
    t.end();
  },
);

void t.test('at most ACCOUNTS_CACHED accounts are cached beside LiteSVM', (t) => {
  const { chain } = setup(t);
  let most = 0;
  for (let read = 0; read <= ACCOUNTS_CACHED; read += 1) {
    current(chain, keyOf(randomBytes(32)));
    most = Math.max(most, chain.hot.size);
  }
  t.equal(most, ACCOUNTS_CACHED);
  t.end();
});
