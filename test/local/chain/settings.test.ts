// Settings of the chain that clusters change: rent and block time; and the rate limits of
// providers.
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import t, { type Test } from 'tap';
import { Agent, type Dispatcher, request } from 'undici';
import { startLocalnet } from '../../../src/local/chain/start.ts';
import { SLOT_MS } from '../../../src/local/chain/state.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { call, post, startTestChain, type TestChain } from '../../fixtures/localnet.ts';

const TOKEN_ACCOUNT = 165;
const rentOf = (chain: { rpcUrl: string }, length = TOKEN_ACCOUNT) =>
  call<number>(chain.rpcUrl, 'getMinimumBalanceForRentExemption', length);

void t.test(
  'getMinimumBalanceForRentExemption follows each change of the rent setting',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 0 });
    t.equal(await rentOf(chain), 1_488_440, 'today');
    for (const [rate, tokenAccount] of [
      [6_960, 2_039_280],
      [5_080, 1_488_440],
      [696, 203_928],
    ] as const) {
      await chain.rpc('localnet_setRent', rate);
      t.equal(await rentOf(chain), tokenAccount, `${rate} a byte`);
      t.equal(await rentOf(chain, 0), 128 * rate);
    }
    await t.rejects(chain.rpc('localnet_setRent', 0), { code: -32602 });
  },
);

void t.test(
  'the block time can be changed while the chain runs, except with blocks on demand',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 1 });
    await chain.rpc('localnet_setBlockTime', 60_000);
    const height = () => call<number>(chain.rpcUrl, 'getBlockHeight', { commitment: 'processed' });
    // The block that was being built ends by the old time.
    let [before, now] = [-1, await height()];
    while (before !== now) [before, now] = [now, await height()];
    await chain.rpc('localnet_mineBlocks', 1);
    t.equal(await height(), now + 1, 'only the one on request');
    await t.rejects(chain.rpc('localnet_setBlockTime', 0), { code: -32602 });

    const still = await startTestChain(t, { blockMs: 0 });
    await t.rejects(still.rpc('localnet_setBlockTime', 400), {
      code: -32602,
      message: /on demand/,
    });
  },
);

void t.test('a transaction must pay the rent of the current setting', async (t) => {
  const chain = await startTestChain(t, { blockMs: 0, rentLamportsPerByte: 696 });
  const payer = chain.wallet();
  chain.mineBlocks();
  const transfer = async (lamports: number) => {
    const { value } = await chain.rpc<{ value: { blockhash: string } }>('getLatestBlockhash', {
      commitment: 'confirmed',
    });
    const transaction = new Transaction({
      feePayer: payer.keypair.publicKey,
      blockhash: value.blockhash,
      lastValidBlockHeight: 0,
    });
    const toPubkey = Keypair.generate().publicKey;
    const fromPubkey = payer.keypair.publicKey;
    transaction.add(SystemProgram.transfer({ fromPubkey, toPubkey, lamports }));
    transaction.sign(payer.keypair);
    return chain.rpc('sendTransaction', transaction.serialize().toString('base64'), {
      encoding: 'base64',
      preflightCommitment: 'confirmed',
    });
  };
  const minimum = await rentOf(chain, 0);
  await transfer(minimum);
  await t.rejects(transfer(minimum - 1), {
    code: -32002,
    data: { err: { InsufficientFundsForRent: { account_index: 1 } } },
  });
  await chain.rpc('localnet_setRent', 6_960);
  await t.rejects(transfer(minimum), { code: -32002 });
  await transfer(await rentOf(chain, 0));
});

void t.test('a fork reverts a change of rent, and a restart keeps it', async (t) => {
  const dataDir = t.testdir();
  const chain = await startTestChain(t, { blockMs: 0, dataDir });
  chain.mineBlocks(2);
  await chain.rpc('localnet_setRent', 696);
  chain.mineBlocks();
  await chain.rpc('localnet_forgetBlocks', 1);
  t.equal(await rentOf(chain), 1_488_440);
  await chain.rpc('localnet_setRent', 696);
  chain.mineBlocks();
  await chain.close();
  const again = await startLocalnet({ blockMs: 0, dataDir });
  t.equal(await rentOf(again), 203_928);
  await again.close();
  const other = await startLocalnet({ blockMs: 0, dataDir, rentLamportsPerByte: 5_080 });
  t.equal(await rentOf(other), 1_488_440, 'what the start names');
  await other.close();
});

void t.test('blocks on demand advance the chain’s clock by 300 ms', async (t) => {
  const chain = await startTestChain(t, { blockMs: 0 });
  t.equal(SLOT_MS, 300);
  const before = chain.now();
  chain.mineBlocks(10);
  t.equal(chain.now() - before, 3_000);
});

// --- rate limits ---

const bodyOf = (...methods: string[]) =>
  JSON.stringify(methods.map((method, id) => ({ jsonrpc: '2.0', id, method, params: [] })));
const statusOf = async (chain: TestChain, ...methods: string[]) =>
  (await post(chain.rpcUrl, bodyOf(...methods))).status;
const limit = (chain: TestChain, settings: object) =>
  chain.rpc('localnet_setFault', { kind: 'rate', ...settings });

void t.test('requests and sends above the rate per second get 429', async (t) => {
  stopClock(t);
  const chain = await startTestChain(t, { blockMs: 0 });
  await limit(chain, { sends: 5, requests: 10 });
  for (let sent = 0; sent < 5; sent += 1) t.equal(await statusOf(chain, 'sendTransaction'), 200);
  t.equal(await statusOf(chain, 'sendTransaction'), 429, 'the sixth transaction');
  t.equal(await statusOf(chain, 'getSlot', 'getSlot'), 200, 'a batch counts by its requests');
  t.equal(await statusOf(chain, 'getSlot', 'getSlot', 'getSlot', 'getSlot'), 429);
  t.equal(await statusOf(chain, 'getSlot', 'getSlot', 'getSlot'), 200);
  t.equal(await statusOf(chain, 'getSlot'), 429, 'the eleventh request');
  const refused = await post(chain.rpcUrl, bodyOf('getSlot'));
  t.equal(refused.headers.get('retry-after'), '1');
  await chain.rpc('localnet_info');
  await limit(chain, { requests: 1 });
  t.equal(await statusOf(chain, 'getSlot'), 200, 'a new limit starts afresh');
  t.equal(await statusOf(chain, 'getSlot'), 429);
  await chain.rpc('localnet_clearFaults');
  t.equal(await statusOf(chain, 'getSlot'), 200);
});

void t.test('the rate limit allows requests again after a second', async (t) => {
  const wait = stopClock(t);
  const chain = await startTestChain(t, { blockMs: 0 });
  await limit(chain, { requests: 2 });
  for (let second = 0; second < 3; second += 1) {
    for (const status of [200, 200, 429]) t.equal(await statusOf(chain, 'getSlot'), status);
    wait(999);
    t.equal(await statusOf(chain, 'getSlot'), 429);
    wait(1);
  }
});

function client(t: Test): Dispatcher {
  const agent = new Agent({ connections: 1 });
  t.teardown(() => agent.close());
  return agent;
}

void t.test('a rate limit per connection counts each connection for itself', async (t) => {
  stopClock(t);
  const chain = await startTestChain(t, { blockMs: 0 });
  await limit(chain, { requests: 2, per: 'connection' });
  for (const dispatcher of [client(t), client(t)]) {
    const statuses: number[] = [];
    for (let sent = 0; sent < 3; sent += 1) {
      const answer = await request(chain.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: bodyOf('getSlot'),
        dispatcher,
      });
      statuses.push(answer.statusCode);
      await answer.body.dump();
    }
    t.same(statuses, [200, 200, 429]);
  }
  await t.rejects(limit(chain, {}), { code: -32602 }, 'without a number');
});
