// A blockhash is dead only if more endpoints report so than report it as live.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { createRpc, type RpcOptions } from '../../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { isWitnessed, lifetimeKey, witnessExpiry } from '../../../src/chain/rpc/expiry.ts';
import type { Lifetime } from '../../../src/chain/rpc/rpc.ts';
import { answer, type Behaviour, rpcError, startRpcServer } from '../../fixtures/rpc-server.ts';

const log = pino({ level: 'silent' });

const setup = (t: Test, ...behaviours: Behaviour[]) => setupWith(t, {}, behaviours);

async function setupWith(t: Test, options: Partial<RpcOptions>, behaviours: Behaviour[]) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  const urls = servers.map(({ url }) => url);
  const rpc = createRpc({ urls, timeoutMs: 20_000, probeMs: Infinity, log, ...options });
  t.teardown(async () => {
    await rpc.close();
    servers.forEach((server) => server.close());
  });
  const asked = (index = 0) =>
    servers[index]!.calls.filter(({ method }) => method === 'isBlockhashValid');
  return { rpc, asked, judge: (...lifetimes: Lifetime[]) => witnessExpiry(rpc, lifetimes) };
}

/** The blockhash came with slot 100 and is good up to block 250. */
const lifetime: Lifetime = { blockhash: SYSTEM_PROGRAM, lastValidBlockHeight: 250n, slot: 100n };
const key = lifetimeKey(lifetime);

interface State {
  slot?: number;
  blockHeight?: number;
  isValid?: unknown;
  /** Whether the newest block knows the blockhash. */
  isKnown?: boolean;
}

/** An endpoint with this finalized state. By default the blockhash is dead there. */
const node =
  ({ slot = 300, blockHeight = 251, isValid = false, isKnown = false }: State = {}): Behaviour =>
  ({ method, params }) => {
    if (method === 'getEpochInfo') return { absoluteSlot: slot, blockHeight };
    const { minContextSlot = 0, commitment } = params[1] as {
      minContextSlot?: number;
      commitment: string;
    };
    return minContextSlot > slot
      ? rpcError(-32016, 'Minimum context slot has not been reached')
      : { context: { slot }, value: commitment === 'processed' && isKnown ? true : isValid };
  };

void t.test(
  'an endpoint shows a transaction as dead if its blockhash is invalid and its last block has passed',
  async (t) => {
    const { judge, asked } = await setup(t, node());
    t.same(await judge(lifetime), new Map([[key, { witnesses: 1, slot: 300n }]]));
    t.same(
      asked().map(({ params }) => params),
      ['finalized', 'processed'].map((commitment) => [
        SYSTEM_PROGRAM,
        { commitment, minContextSlot: 100 },
      ]),
    );
    t.same(await judge(), new Map());
  },
);

void t.test(
  'no transaction is dead before its last valid block is finalized; until then few requests are sent',
  async (t) => {
    const { judge, asked } = await setup(t, node({ blockHeight: 250 }));
    t.equal((await judge(lifetime)).size, 0);
    t.equal(asked().length, 0);
  },
);

void t.test('a blockhash that many transactions share is requested once', async (t) => {
  const { judge, asked } = await setup(t, node());
  t.equal((await judge(...Array.from({ length: 50 }, () => ({ ...lifetime })))).size, 1);
  t.equal(asked().length, 2, 'at finalized and at the newest block');
});

void t.test('the block height of a single response does not make a transaction dead', async (t) => {
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

void t.test('a slot that is reported too low does not make a new blockhash dead', async (t) => {
  // No endpoint has finalized the blockhash yet. The one that named it gave a low slot and height.
  const early = { ...lifetime, lastValidBlockHeight: 3n, slot: 1n };
  const fresh = node({ slot: 100, blockHeight: 90, isKnown: true });
  const { judge } = await setup(t, fresh, fresh, fresh);
  t.equal((await judge(early)).size, 0);
});

void t.test(
  'one faulty endpoint of three does not prevent a transaction from expiring',
  async (t) => {
    const [dead, low, live] = [node(), node({ blockHeight: 1 }), node({ isValid: true })];
    for (const [what, sick] of [
      ['a low block height', low],
      ['every blockhash is valid', live],
    ] as const) {
      const size = async (...nodes: Behaviour[]) =>
        (await (await setup(t, ...nodes)).judge(lifetime)).size;
      t.equal(await size(sick, dead, dead), 1, what);
      t.equal(await size(sick, dead), 0, `${what}, one against one`);
      t.equal(await size(sick, dead, dead, sick), 0, `${what}, two against two`);
    }
  },
);

void t.test(
  'wrong block heights delay the expiry of a transaction but never cause an early expiry',
  async (t) => {
    const high = { ...lifetime, lastValidBlockHeight: 9_000_000_000n };
    const stale = (slot: number) => node({ slot, blockHeight: 1 });
    const early = await setup(t, stale(700), stale(700));
    t.equal((await early.judge(high)).size, 0);
    t.equal(early.asked().length, 0);
    const late = await setup(t, stale(701), stale(701));
    t.equal((await late.judge(high, lifetime)).size, 2);
    const alive = await setup(t, node({ slot: 701, isValid: true }));
    t.equal((await alive.judge(high)).size, 0, 'the blockhash is asked about');
  },
);

void t.test('an endpoint whose finalized slot is far ahead of the others is ignored', async (t) => {
  const clocked =
    (state: State): Behaviour =>
    (seen, ...rest) => {
      if (seen.method !== 'getMultipleAccounts') return node(state)(seen, ...rest);
      const data = Buffer.alloc(40);
      data.writeBigUInt64LE(BigInt(state.slot ?? 300), 0);
      data.writeBigInt64LE(BigInt(Math.floor(Date.now() / 1000)), 32);
      const account = { data: [data.toString('base64'), 'base64'], owner: 'x', lamports: 1 };
      return { context: { slot: state.slot }, value: [account] };
    };
  const ahead: Behaviour = (seen, ...rest) =>
    seen.method === 'getEpochInfo'
      ? { absoluteSlot: 1_000_000_000, blockHeight: 1_000_000_000 }
      : clocked({ slot: 300 })(seen, ...rest);
  const disbelieved: bigint[] = [];
  const { judge } = await setupWith(
    t,
    { probeMs: 3_600_000, slots: { onDisbelief: (slot) => disbelieved.push(slot) } },
    [ahead, clocked({ slot: 300, blockHeight: 200, isValid: true })],
  );
  t.equal((await judge(lifetime)).size, 0);
  t.same(disbelieved, [1_000_000_000n]);
});

void t.test(
  'for a transaction that is dead at two endpoints, the older slot of the two is returned',
  async (t) => {
    const { judge, rpc } = await setup(t, node(), node({ slot: 290 }));
    t.same(await judge(lifetime), new Map([[key, { witnesses: 2, slot: 290n }]]));
    t.equal(isWitnessed(rpc, 2), true);
    t.equal(isWitnessed(rpc, 1), false);
    t.equal(isWitnessed((await setup(t, node())).rpc, 1), true, 'the only endpoint');
  },
);

void t.test(
  'an endpoint that cannot check the blockhash is no witness of its expiry',
  async (t) => {
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
      ['it is far behind', node({ slot: 299, blockHeight: 200 })],
      ['it is far behind and lacks the blockhash', node({ slot: 299, blockHeight: 251 })],
    ];
    const newest = node({ slot: 900 });
    for (const [what, behaviour] of cases) {
      const beside = await setup(t, newest, behaviour);
      t.match((await beside.judge(lifetime)).get(key), { witnesses: 1, slot: 900n }, what);
    }
    const near = await setup(t, newest, node({ slot: 300, blockHeight: 200 }));
    t.equal((await near.judge(lifetime)).size, 0, 'one that is near holds it back');
    const allDown = await setup(t, (_, response) => answer(response, '', 500));
    await t.rejects(allDown.judge(lifetime), RpcUnreachable);
  },
);

void t.test(
  'the expiry of a blockhash that an earlier release stored without its slot can be determined',
  async (t) => {
    const { judge, asked } = await setup(t, node());
    t.equal((await judge({ ...lifetime, slot: 0n })).size, 1);
    t.same(asked()[0]?.params, [SYSTEM_PROGRAM, { commitment: 'finalized' }]);
  },
);
