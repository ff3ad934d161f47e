// A transaction is dead only if two endpoints lack it, in histories that reach back to its
// blockhash. An endpoint that has it is believed alone.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { judgeByReference, judgeLandings, type Sought } from '../../../src/chain/rpc/landing.ts';
import type { Lifetime } from '../../../src/chain/rpc/rpc.ts';
import { answer, type Behaviour, rpcError, startRpcServer } from '../../fixtures/rpc-server.ts';

const log = pino({ level: 'silent' });

interface Node {
  /** The endpoint's answer to each request of this method. */
  readonly [method: string]: unknown;
}

/** An endpoint at which the blockhash is dead and that has no transaction. */
const node =
  (different: Node = {}): Behaviour =>
  ({ method, params }, response) => {
    const own = different[method];
    if (own === 'down') return answer(response, '', 500);
    if (own === 'rate limited') return answer(response, '', 429);
    if (own !== undefined) return own;
    switch (method) {
      case 'getEpochInfo':
        return { absoluteSlot: 9000, blockHeight: 9000 };
      case 'isBlockhashValid':
        return { context: { slot: 9000 }, value: false };
      case 'getSignatureStatuses':
        return { context: { slot: 9000 }, value: (params[0] as string[]).map(() => null) };
      case 'getMultipleAccounts':
        return { context: { slot: 9000 }, value: (params[0] as string[]).map(() => null) };
      case 'getSlot':
        return 9000;
      case 'getFirstAvailableBlock':
        return 0;
      default:
        return [];
    }
  };

async function setup(
  t: Test,
  behaviours: Behaviour[],
  more: (urls: string[]) => string[] = (u) => u,
) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  const urls = more(servers.map(({ url }) => url));
  const rpc = createRpc({ urls, timeoutMs: 20_000, probeMs: Infinity, log });
  t.teardown(async () => {
    await rpc.close();
    servers.forEach((server) => server.close());
  });
  return { rpc, servers };
}

const lifetime: Lifetime = { blockhash: SYSTEM_PROGRAM, lastValidBlockHeight: 850n, slot: 700n };
const sought: Sought = { signature: 'a', lifetime, needsTwo: true };

async function verdict(
  t: Test,
  behaviours: Behaviour[],
  { needsTwo = true, urls }: { needsTwo?: boolean; urls?: (urls: string[]) => string[] } = {},
) {
  const { rpc } = await setup(t, behaviours, urls);
  const one = { ...sought, needsTwo };
  const [[, landing] = []] = await judgeLandings(rpc, [one]);
  const byReference = await judgeByReference(rpc, { lifetime, reference: 'r' }, new Set(['known']));
  return [landing?.verdict, byReference];
}

const entry = (signature: string, err: unknown = null) => ({
  signature,
  slot: 800,
  err,
  blockTime: 1,
});
const has = {
  getSignatureStatuses: {
    context: { slot: 9000 },
    value: [{ slot: 800, err: null, confirmationStatus: 'finalized', confirmations: null }],
  },
  getSignaturesForAddress: [entry('a')],
};
const failed = {
  getSignatureStatuses: {
    context: { slot: 9000 },
    value: [{ slot: 800, err: 'x', confirmationStatus: 'finalized', confirmations: null }],
  },
};
const fails = (fault: unknown) => ({
  getSignatureStatuses: fault,
  getSignaturesForAddress: fault,
});

void t.test('a transaction that two endpoints lack is dead', async (t) => {
  t.same(await verdict(t, [node(), node()]), ['dead', 'dead']);
  t.same(await verdict(t, [node(), node(), node(fails('down'))]), ['dead', 'dead']);
});

void t.test('a transaction that any endpoint has counts as landed', async (t) => {
  for (const [index, behaviours] of [
    [node(has), node(), node()],
    [node(), node(), node(has)],
    [node(), node(), node({ ...has, getFirstAvailableBlock: 8000 })],
  ].entries())
    t.same(await verdict(t, behaviours), ['landed', 'unknown'], `${index}`);
});

void t.test(
  'a failure that only one endpoint reports leaves the transaction dead, not landed',
  async (t) => {
    const first = async (...nodes: Node[]) => (await verdict(t, nodes.map(node)))[0];
    t.equal(await first(failed, {}), 'dead');
    t.equal(await first(failed, {}, {}), 'dead');
    t.equal(await first(failed, failed, {}), 'landed', 'two of them are final');
    t.equal(await first(failed, has), 'landed');
    t.equal(await first(failed, fails('down')), 'unknown', 'one of two answers');
  },
);

void t.test(
  'an endpoint that fails, is rate limited or lacks history does not prove that a transaction is dead',
  async (t) => {
    const cases: [string, Node][] = [
      ['down', fails('down')],
      ['rate limited', fails('rate limited')],
      ['without history', fails(rpcError(-32011, 'Transaction history is not available'))],
      ['behind', fails(rpcError(-32016, 'Minimum context slot has not been reached'))],
      ['started after the blockhash', { getFirstAvailableBlock: 701 }],
      ['silent about its first block', { getFirstAvailableBlock: rpcError(-32601, 'Not found') }],
      ['uncertain about the blockhash', { isBlockhashValid: 'down' }],
    ];
    for (const [what, sick] of cases) {
      t.same(await verdict(t, [node(), node(sick)]), ['unknown', 'unknown'], what);
      t.same(await verdict(t, [node(), node(sick), node()]), ['dead', 'dead'], `${what}, of three`);
      const single = await verdict(t, [node(), node(sick)], { needsTwo: false });
      t.equal(single[0], 'dead', `${what}, one is enough`);
    }
    const live = { isBlockhashValid: { context: { slot: 9000 }, value: true } };
    t.same(await verdict(t, [node(), node(live)]), ['unknown', 'unknown'], 'it may land');
    t.same(await verdict(t, [node(), node(live)], { needsTwo: false }), ['unknown', 'unknown']);
    t.same(await verdict(t, [node(), node(), node(live)]), ['dead', 'dead'], 'two against one');
  },
);

void t.test(
  'with one configured endpoint its answer decides, without a check how far its history reaches',
  async (t) => {
    const { rpc, servers } = await setup(t, [node({ getFirstAvailableBlock: 8000 })]);
    const [[, landing] = []] = await judgeLandings(rpc, [sought]);
    t.match(landing, { verdict: 'dead', expiredAt: 9000n });
    t.equal(
      servers[0]!.calls.filter(({ method }) => method === 'getFirstAvailableBlock').length,
      0,
    );
  },
);

void t.test('URLs of one host and port count as one endpoint', async (t) => {
  const keyed = (url: string) => [
    `${url}/?key=1`,
    `${url.replace('//', '//user:key@')}/second`,
    url,
  ];
  const alone = await setup(t, [node()], ([url]) => keyed(url!));
  t.equal(alone.rpc.endpoints(), 1);
  t.equal((await alone.rpc.getAccountsEverywhere(['a'])).length, 1);
  t.equal((await alone.rpc.getLifetimesEverywhere([lifetime])).length, 1);
  t.same(await verdict(t, [node()], { urls: ([url]) => keyed(url!) }), ['dead', 'dead'], 'alone');
  const beside = (urls: string[]) => [...keyed(urls[0]!), urls[1]!];
  t.same(await verdict(t, [node(), node()], { urls: beside }), ['dead', 'dead']);
  t.same(
    await verdict(t, [node(), node(fails('down'))], { urls: beside }),
    ['unknown', 'unknown'],
    'three URLs of one host are one witness of two',
  );
  const byPath: Behaviour = (seen, ...rest) =>
    node(seen.path === '/second' ? has : {})(seen, ...rest);
  t.same(
    await verdict(t, [byPath, node()], { urls: beside }),
    ['landed', 'unknown'],
    'what one URL of a host has, the host has',
  );
});

void t.test(
  'a history that reaches back far enough for one blockhash may be too short for an older one',
  async (t) => {
    const { rpc } = await setup(t, [node(), node({ getFirstAvailableBlock: 3000 })]);
    const later = { ...sought, signature: 'b', lifetime: { ...lifetime, slot: 4000n } };
    const judged = await judgeLandings(rpc, [later, sought]);
    t.match(judged.get(later), { verdict: 'dead', isProven: true });
    t.match(judged.get(sought), { verdict: 'unknown', isProven: false, isAnswered: true });
  },
);

void t.test(
  'for a blockhash without a slot, histories must reach back to a given slot or for half an hour',
  async (t) => {
    const { rpc } = await setup(t, [node(), node({ getFirstAvailableBlock: 4400 })]);
    const recent = { ...sought, lifetime: { ...lifetime, slot: 0n } };
    const old = { ...recent, signature: 'b', since: 700n };
    t.match((await judgeLandings(rpc, [recent])).get(recent), { verdict: 'dead' }, 'half an hour');
    t.match((await judgeLandings(rpc, [old])).get(old), { verdict: 'unknown', isProven: false });
  },
);

void t.test(
  'a search by refund reference leaves out the given transactions, although they have that reference',
  async (t) => {
    const listing = (...listed: object[]) => node({ getSignaturesForAddress: listed });
    const known = listing(entry('known'), entry('failed', 'x'));
    t.equal((await verdict(t, [known, node()]))[1], 'dead');
    t.equal((await verdict(t, [known, listing(entry('new'))]))[1], 'unknown');
    const full = listing(...Array.from({ length: 1000 }, () => entry('known')));
    t.equal((await verdict(t, [full, node()]))[1], 'unknown', 'a full list may lack the oldest');
  },
);
