// Requests of the API share the RPC endpoint: how many requests each costs, and whose goes next.
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { CLOCK_SYSVAR } from '../../../src/chain/program/addresses.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { createTokens } from '../../../src/domain/accounts/tokens.ts';
import { actingFor, shareChain } from '../../../src/http/door/shared-chain.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { clientAt } from '../../fixtures/crowd.ts';
import { jwtSecret, publicUrl, randomAddress } from '../../fixtures/http.ts';
import { startPatientChain } from '../../fixtures/localnet.ts';
import { insertPlan } from '../../fixtures/rows.ts';
import {
  type Behaviour,
  rpcError,
  startRpcProxy,
  startRpcServer,
} from '../../fixtures/rpc-server.ts';
import { type Served, startServe } from '../../fixtures/serve.ts';

const tokens = createTokens([jwtSecret], publicUrl);
const subscriberToken = async (wallet: string) =>
  (await tokens.issue({ wallet, role: 'subscriber', page: null })).token;

/** Endpoints without accounts, except the clock; a blockhash and a rent. */
const emptyChain: Behaviour = ({ method, params }) => {
  const context = { slot: 1000 };
  switch (method) {
    case 'getMultipleAccounts':
      return {
        context,
        value: (params[0] as string[]).map((address) =>
          address === CLOCK_SYSVAR ? clockAccount : null,
        ),
      };
    case 'getLatestBlockhash':
      return {
        context,
        value: { blockhash: generateKeypair().address, lastValidBlockHeight: 1150 },
      };
    case 'getBlockHeight':
      return 1000;
    case 'getMinimumBalanceForRentExemption':
      return 890_880;
    case 'getGenesisHash':
      return randomAddress();
    default:
      return rpcError(-32601, 'Method not found');
  }
};
const clockAccount = {
  data: [Buffer.alloc(40, 1).toString('base64'), 'base64'],
  owner: 'Sysvar1111111111111111111111111111111111111',
  lamports: 1,
  executable: false,
  space: 40,
};

async function sharedChain(t: Test, behaviour: Behaviour, requestsPerSecond?: number) {
  const server = await startRpcServer(behaviour);
  const log = pino({ level: 'silent' });
  const rpc = createRpc({ urls: [server.url], requestsPerSecond, timeoutMs: 60_000, log });
  t.teardown(async () => {
    await rpc.close();
    server.close();
  });
  return { chain: shareChain(rpc), server };
}

const countOf = (calls: readonly { method: string }[], method: string) =>
  calls.filter((call) => call.method === method).length;

void t.test(
  'each API request makes the expected number of chain requests, counted by a proxy',
  async (t) => {
    const chain = await startPatientChain(t);
    const proxy = await startRpcProxy(t, chain.rpcUrl);
    const [keeper, treasury] = [chain.wallet(), chain.wallet()];
    const served = await startServe(t, {
      SOLANA_RPC_URL: proxy.url,
      SOLANA_SERVE_RATE: '0',
      USDC_MINT: chain.mint,
      KEEPER_ADDRESS: keeper.address,
      PLATFORM_TREASURY: treasury.address,
    });
    const { appId, token, keypair } = await served.merchant();
    chain.fund(keypair.address, { lamports: 1_000_000_000n });
    const plan = await served.call<{ id: string; transaction: string }>(
      'POST',
      `/merchant/apps/${appId}/plans`,
      { token, body: { name: 'Monthly', amount: '10000000', periodHours: 720 } },
    );
    const bytes = Buffer.from(plan.transaction, 'base64');
    keypair.sign(bytes.subarray(65)).copy(bytes, 1);
    const { status } = await served.call<{ status: string }>('POST', '/merchant/transactions', {
      token,
      body: { transaction: bytes.toString('base64') },
    });
    t.equal(status, 'confirmed');
    const buyers = await Promise.all(
      Array.from({ length: 20 }, async () => subscriberToken(chain.wallet().address)),
    );

    const rents = () => countOf(proxy.calls, 'getMinimumBalanceForRentExemption');
    // The process reads the genesis hash once, in the background.
    const total = () => proxy.calls.length - countOf(proxy.calls, 'getGenesisHash');
    const requests = async (work: () => Promise<unknown>) => {
      const before = total();
      await work();
      return total() - before;
    };
    const standing = (buyer: string) =>
      served.call('GET', `/subscriber/plans/${plan.id}/standing`, { token: buyer });
    const subscribe = (buyer: string) =>
      served.call('POST', `/subscriber/plans/${plan.id}/subscribe`, { token: buyer });

    await standing(buyers[0]!);
    t.equal(rents(), 4, 'one request for each length of an account');
    for (const buyer of buyers.slice(0, 5))
      t.equal(await requests(() => standing(buyer)), 1, 'one request for a standing');
    for (const buyer of buyers.slice(0, 5)) {
      const made = await requests(() => subscribe(buyer));
      t.ok(made <= 2, `at most two requests to subscribe, not ${made}`);
    }
    const together = await requests(() => Promise.all(buyers.map(subscribe)));
    t.ok(together <= 22, `twenty wallets at once make at most 22 requests, not ${together}`);
    t.equal(rents(), 4, 'rent is read once');
  },
);

void t.test(
  'a wallet’s request to the chain does not wait for the queued requests of other wallets',
  async (t) => {
    const server = await startRpcServer(emptyChain);
    t.teardown(() => server.close());
    const served = await startServe(t, { SOLANA_RPC_URL: server.url, SOLANA_SERVE_RATE: '4' });
    const planIds = await plans(served, 60);
    const clients = Array.from({ length: 5 }, (_, n) => clientAt(served.port, `127.0.2.${n + 1}`));
    t.teardown(() => clients.forEach((client) => client.close()));
    const buyers = await Promise.all(
      clients.map(async (client) => {
        const token = await subscriberToken(randomAddress());
        return async (planId: string) => {
          const { status } = await client.get(`/subscriber/plans/${planId}/standing`, token);
          if (status !== 200) throw new Error(`answered ${status}`);
        };
      }),
    );
    const [other, ...flooders] = buyers as [(typeof buyers)[0], ...typeof buyers];
    await other(planIds[0]!);

    server.calls.length = 0;
    let answered = 0;
    const flood = flooders.flatMap((flooder) =>
      planIds.map(async (planId) => {
        await flooder(planId);
        answered += 1;
      }),
    );
    await Promise.race(flood);
    await other(planIds[1]!);
    t.ok(answered < flood.length, `${answered} of ${flood.length} were answered before`);
    await Promise.all(flood);
    const made = server.calls.length;
    t.ok(made < flood.length / 10, `${flood.length} requests of the API cost ${made}`);
  },
);

async function plans(served: Served, count: number): Promise<string[]> {
  const owner = await served.merchant();
  return Promise.all(
    Array.from({ length: count }, (_, n) =>
      insertPlan(served.sql, owner, { name: `Plan ${n}`, chainPlanId: n + 1 }),
    ),
  );
}

void t.test(
  'under the RPC rate limit callers take turns, each with its oldest request',
  async (t) => {
    const { chain, server } = await sharedChain(t, emptyChain, 1);
    const read = (caller: string, addresses: readonly string[]) => {
      const answer = new Promise((resolve, reject) => {
        actingFor(
          () => [caller],
          () => void chain.getMultipleAccounts(addresses).then(resolve, reject),
        );
      });
      answer.catch(() => undefined);
      return answer;
    };
    const some = (count: number) => Array.from({ length: count }, randomAddress);
    // A flood of forty requests of sixty addresses, of which no two fit into one request.
    const flood = Array.from({ length: 40 }, () => read('many', some(60)));
    await flood[0];
    const [one, other] = [some(5), some(5)];
    await Promise.all([read('one', one), read('other', other)]);
    const addresses = server.calls.map(({ params }) => params[0] as string[]);
    t.equal(addresses.length, 2, 'the second request has what the others asked for');
    for (const address of [...one, ...other]) t.ok(addresses[1]!.includes(address));
    t.equal(addresses[1]!.length, 70, 'and one of the flood');
  },
);

void t.test(
  'under the RPC rate limit networks take turns, and wallets of a network share its turns',
  async (t) => {
    const { chain, server } = await sharedChain(t, emptyChain, 1);
    const read = (path: readonly string[], address: string) => {
      const answer = new Promise((resolve, reject) => {
        actingFor(
          () => path,
          () => void chain.getTransaction(address).then(resolve, reject),
        );
      });
      answer.catch(() => undefined);
      return answer;
    };
    const names: string[] = [];
    const ask = (path: readonly string[], name: string) => {
      names.push(name);
      return read(path, name);
    };
    server.behave(({ method, params }) =>
      method === 'getTransaction' ? (order.push(params[0] as string), null) : 1,
    );
    const order: string[] = [];
    // A hundred wallets of one network, each with one request; then one of another network.
    const flood = Array.from({ length: 100 }, (_, n) =>
      ask(['flood', `wallet ${n}`], `flood ${n}`),
    );
    await flood[0];
    const own = [ask(['honest', 'first'], 'honest 1'), ask(['honest', 'first'], 'honest 2')];
    const neighbour = ask(['honest', 'second'], 'neighbour');
    await Promise.all([...own, neighbour].map((each) => each.catch(() => undefined)));
    const places = ['honest 1', 'neighbour', 'honest 2'].map((name) => order.indexOf(name));
    const before = order.slice(0, places[0]).length;
    t.ok(before <= 2, `${before} requests went before the first`);
    t.same(
      places.map((index) => index - places[0]!),
      [0, 2, 4],
      'every other turn is the network’s; its wallets share it',
    );
  },
);

void t.test(
  'sends count against the RPC rate limit, and callers take turns with their sends',
  async (t) => {
    const times: { at: number; caller: string }[] = [];
    const { chain } = await sharedChain(
      t,
      (...given) => {
        const [{ method, params }] = given;
        if (method !== 'sendTransaction') return emptyChain(...given);
        const bytes = Buffer.from(params[0] as string, 'base64');
        times.push({ at: performance.now(), caller: bytes.subarray(65).toString() });
        return bs58.encode(bytes.subarray(1, 65));
      },
      10,
    );
    const send = (caller: string) =>
      new Promise((resolve, reject) => {
        const bytes = Buffer.concat([Buffer.from([1]), randomBytes(64), Buffer.from(caller)]);
        actingFor(
          () => [caller],
          () => void chain.sendTransaction(bytes).then(resolve, reject),
        );
      });
    const flood = Array.from({ length: 30 }, () => send('many'));
    const reads = Array.from({ length: 5 }, () => chain.getTransaction(randomAddress()));
    await send('one');
    t.ok(times.filter(({ caller }) => caller === 'many').length < 20, 'one is not the last');
    await Promise.all([...flood, ...reads.map((read) => read.catch(() => undefined))]);
    const ms = times.at(-1)!.at - times[0]!.at;
    t.ok(ms >= 2000, `31 sends and 5 reads took ${Math.round(ms)} ms`);
  },
);

void t.test(
  'when account requests are combined, each caller gets the accounts that it requested',
  async (t) => {
    const lamportsOf = (address: string) => address.charCodeAt(0) * 1000 + address.charCodeAt(1);
    const { chain, server } = await sharedChain(t, ({ params }) => ({
      context: { slot: 7 },
      value: (params[0] as string[]).map((address) => ({
        ...clockAccount,
        lamports: lamportsOf(address),
      })),
    }));
    const all = Array.from({ length: 30 }, randomAddress);
    const asked = [all.slice(0, 20), all.slice(10, 30), [all[29]!, all[0]!, all[29]!]];
    const answers = await Promise.all(asked.map((each) => chain.getMultipleAccounts(each)));
    t.equal(server.calls.length, 1);
    for (const [n, { slot, accounts }] of answers.entries()) {
      t.equal(slot, 7n);
      t.same(
        accounts.map((account) => account?.lamports),
        asked[n]!.map((address) => BigInt(lamportsOf(address))),
      );
    }
  },
);

void t.test(
  'a blockhash and a rent are shared between callers, a failure is not cached',
  async (t) => {
    let fails = true;
    const { chain, server } = await sharedChain(t, (...given) =>
      fails ? rpcError(-32602, 'refused') : emptyChain(...given),
    );
    await t.rejects(chain.getLatestBlockhash());
    await t.rejects(chain.getMinimumBalanceForRentExemption(165));
    fails = false;
    server.calls.length = 0;
    const hashes = await Promise.all(Array.from({ length: 9 }, () => chain.getLatestBlockhash()));
    t.equal(new Set(hashes.map(({ blockhash }) => blockhash)).size, 1);
    t.equal(countOf(server.calls, 'getLatestBlockhash'), 1);
    // Another commitment is another blockhash.
    await chain.getLatestBlockhash({ commitment: 'finalized' });
    t.equal(countOf(server.calls, 'getLatestBlockhash'), 2);
    for (let n = 0; n < 9; n += 1) await chain.getMinimumBalanceForRentExemption(165);
    t.equal(countOf(server.calls, 'getMinimumBalanceForRentExemption'), 1);
  },
);

void t.test(
  'a shared blockhash is read again when the chain has passed its last valid block height',
  async (t) => {
    let height = 1150;
    const { chain, server } = await sharedChain(t, (call, ...rest) =>
      call.method === 'getBlockHeight' ? height : emptyChain(call, ...rest),
    );
    await chain.getLatestBlockhash();
    await chain.getBlockHeight();
    await chain.getLatestBlockhash();
    t.equal(countOf(server.calls, 'getLatestBlockhash'), 1, 'its last height is not past');
    height = 1151;
    await chain.getBlockHeight({ commitment: 'finalized' });
    await chain.getLatestBlockhash();
    t.equal(countOf(server.calls, 'getLatestBlockhash'), 2);
  },
);

void t.test('a blockhash is shared for a second, a rent for an hour', async (t) => {
  const { chain, server } = await sharedChain(t, emptyChain);
  const pass = stopClock(t);
  const both = async () => {
    await Promise.all([chain.getLatestBlockhash(), chain.getMinimumBalanceForRentExemption(0)]);
    return ['getLatestBlockhash', 'getMinimumBalanceForRentExemption'].map((method) =>
      countOf(server.calls, method),
    );
  };
  t.same(await both(), [1, 1]);
  pass(1500);
  t.same(await both(), [2, 1]);
  pass(3_600_000);
  t.same(await both(), [3, 2]);
});
