// A blockhash is dead only if every endpoint that responds reports so at finalized.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { isWitnessed, lifetimeKey, witnessExpiry } from '../../../src/chain/rpc/expiry.ts';
import type { Lifetime } from '../../../src/chain/rpc/rpc.ts';
import { answer, type Behaviour, rpcError, startRpcServer } from '../../fixtures/rpc-server.ts';

const log = pino({ level: 'silent' });

async function setup(t: Test, ...behaviours: Behaviour[]) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  const urls = servers.map(({ url }) => url);
  const rpc = createRpc({ urls, timeoutMs: 20_000, probeMs: Infinity, log });
  t.teardown(async () => {
    await rpc.close();
    servers.forEach((server) => server.close());
  });
  const asked = (place = 0) =>
    servers[place]!.calls.filter(({ method }) => method === 'isBlockhashValid');
  return { rpc, asked, judge: (...lifetimes: Lifetime[]) => witnessExpiry(rpc, lifetimes) };
}

/** The blockhash came with slot 100 and is good up to block 250. */
const lifetime: Lifetime = { blockhash: SYSTEM_PROGRAM, lastValidBlockHeight: 250n, slot: 100n };
const key = lifetimeKey(lifetime);

interface State {
  slot?: number;
  blockHeight?: number;
  isValid?: unknown;
}

/** An endpoint with this finalized state. By default the blockhash is dead there. */
const node =
  ({ slot = 300, blockHeight = 251, isValid = false }: State = {}): Behaviour =>
  ({ method, params }) => {
    if (method === 'getEpochInfo') return { absoluteSlot: slot, blockHeight };
    const { minContextSlot = 0 } = params[1] as { minContextSlot?: number };
    return minContextSlot > slot
      ? rpcError(-32016, 'Minimum context slot has not been reached')
      : { context: { slot }, value: isValid };
  };

void t.test(
  'a transaction is dead at one endpoint when its blockhash is not valid and its last block is passed',
  async (t) => {
    const { judge, asked } = await setup(t, node());
    t.same(await judge(lifetime), new Map([[key, { witnesses: 1, slot: 300n }]]));
    t.same(asked()[0]?.params, [SYSTEM_PROGRAM, { commitment: 'finalized', minContextSlot: 100 }]);
    t.same(await judge(), new Map());
  },
);

void t.test(
  'no transaction is dead before its last block is finalized, and few requests are made',
  async (t) => {
    const { judge, asked } = await setup(t, node({ blockHeight: 250 }));
    t.equal((await judge(lifetime)).size, 0);
    t.equal(asked().length, 0);
  },
);

void t.test('a blockhash that many transactions share is requested once', async (t) => {
  const { judge, asked } = await setup(t, node());
  t.equal((await judge(...Array.from({ length: 50 }, () => ({ ...lifetime })))).size, 1);
  t.equal(asked().length, 1);
});

void t.test('a block height of one response decides nothing', async (t) => {
  // The endpoint that gave the blockhash reported a last block that is too low, and a height that
  // is too high.
  const early = { ...lifetime, lastValidBlockHeight: 3n };
  const { judge } = await setup(
    t,
    node({ blockHeight: 9_000_000 }),
    node({ blockHeight: 120, isValid: true }),
  );
  t.equal((await judge(early)).size, 0);
  t.equal((await judge(lifetime)).size, 0);
  const alone = await setup(t, node({ blockHeight: 9_000_000, isValid: true }));
  t.equal((await alone.judge(early)).size, 0, 'its own blockhash is valid still');
});

void t.test(
  'a transaction that is dead at two endpoints has the older slot of the two',
  async (t) => {
    const { judge, rpc } = await setup(t, node(), node({ slot: 290 }));
    t.same(await judge(lifetime), new Map([[key, { witnesses: 2, slot: 290n }]]));
    t.equal(isWitnessed(rpc, 2), true);
    t.equal(isWitnessed(rpc, 1), false);
    t.equal(isWitnessed((await setup(t, node())).rpc, 1), true, 'the only endpoint');
  },
);

void t.test('an endpoint that cannot judge does not count', async (t) => {
  const instead =
    (result: unknown): Behaviour =>
    (seen, ...rest) =>
      seen.method === 'getEpochInfo' ? node()(seen, ...rest) : result;
  const cases: [string, Behaviour][] = [
    ['it has not finalized the slot', node({ slot: 99 })],
    ['it ignores minContextSlot', instead({ context: { slot: 99 }, value: true })],
    ['its response is malformed', node({ isValid: null })],
    ['it lacks the method', instead(rpcError(-32601, 'Method not found'))],
    ['it refuses the request', instead(rpcError(-32602, 'Invalid params'))],
    ['it is down', (_, response) => answer(response, '', 500)],
    ['it is far behind', node({ slot: 149, blockHeight: 200 })],
  ];
  for (const [what, behaviour] of cases) {
    const beside = await setup(t, node(), behaviour);
    t.match((await beside.judge(lifetime)).get(key), { witnesses: 1, slot: 300n }, what);
  }
  const near = await setup(t, node(), node({ slot: 150, blockHeight: 200 }));
  t.equal((await near.judge(lifetime)).size, 0, 'one that is near holds it back');
  const allDown = await setup(t, (_, response) => answer(response, '', 500));
  await t.rejects(allDown.judge(lifetime), RpcUnreachable);
});

void t.test('a blockhash of an earlier release has no slot', async (t) => {
  const { judge, asked } = await setup(t, node());
  t.equal((await judge({ ...lifetime, slot: 0n })).size, 1);
  t.same(asked()[0]?.params, [SYSTEM_PROGRAM, { commitment: 'finalized' }]);
});
