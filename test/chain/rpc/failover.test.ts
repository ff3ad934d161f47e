import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import type { ObservedRequest } from '../../../src/chain/rpc/call-errors.ts';
import { EndpointFailure, RpcError, RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { Failover, type FailoverOptions } from '../../../src/chain/rpc/failover.ts';
import { stopClock } from '../../fixtures/clock.ts';
import {
  answer,
  type Behaviour,
  HANDLED,
  rpcError,
  startRpcServer,
} from '../../fixtures/rpc-server.ts';

const silent = pino({ level: 'silent' });
const text = (result: unknown) => {
  if (typeof result !== 'string') throw new EndpointFailure('malformed', 'no string');
  return result;
};

/** Servers with scripted behaviour behind one client; both are closed at the end of the test. */
async function setup(t: Test, behaviours: Behaviour[], options: Partial<FailoverOptions> = {}) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  // Probes and timeouts have tests of their own.
  const failover = new Failover({
    urls: servers.map(({ url }) => url),
    timeoutMs: 60_000,
    probeMs: Infinity,
    log: silent,
    ...options,
  });
  t.teardown(async () => {
    await failover.close();
    servers.forEach((server) => server.close());
  });
  return { failover, servers, counts: () => servers.map(({ calls }) => calls.length) };
}

async function closedPort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}`;
}

const failed = async (promise: Promise<unknown>): Promise<RpcUnreachable> => {
  const error: unknown = await promise.catch((reason: unknown) => reason);
  if (!(error instanceof RpcUnreachable))
    throw new Error(`expected RpcUnreachable, not ${String(error)}`);
  return error;
};

void t.test(
  'a history call goes to an endpoint with history, and is refused if no endpoint has history',
  async (t) => {
    const lacks: Behaviour = () => rpcError(-32011, 'Transaction history is not available');
    const none = await setup(t, [lacks, lacks]);
    const refusal = { constructor: RpcError, code: -32011 };
    await t.rejects(none.failover.call('m', [], text), refusal);
    await t.rejects(none.failover.callAll('m', [], text), refusal);
    const one = await setup(t, [lacks, () => 'second']);
    t.equal(await one.failover.call('m', [], text), 'second');
    const other = await setup(t, [lacks, (_, response) => answer(response, 'x', 502)]);
    await failed(other.failover.call('m', [], text));
  },
);

void t.test('only the preferred endpoint is used while it is up', async (t) => {
  // The second would be preferred to a slow response.
  stopClock(t);
  const { failover, counts } = await setup(t, [() => 'first', () => 'second']);
  for (let call = 0; call < 20; call += 1)
    assert.equal(await failover.call('m', [], text), 'first');
  t.same(counts(), [20, 0]);
});

void t.test('each kind of failure leads to a request to the next endpoint', async (t) => {
  const sick: Record<string, Behaviour> = {
    unreachable: (_, response) => {
      response.socket?.resetAndDestroy();
      return HANDLED;
    },
    timeout: () => HANDLED,
    'http 500': (_, response) => answer(response, 'oops', 500),
    'http 403': (_, response) => answer(response, { message: 'bad key' }, 403),
    'http 429': (_, response) => answer(response, '', 429, { 'retry-after': '60' }),
    'not JSON': (_, response) => answer(response, '<html>'),
    'JSON, but no object': (_, response) => answer(response, '7'),
    'neither result nor error': (_, response) => answer(response, { jsonrpc: '2.0', id: 1 }),
    'another shape': () => 42,
    'a body cut off': (_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"jsonrpc":');
      setImmediate(() => response.socket?.resetAndDestroy());
      return HANDLED;
    },
    'an error without a code': (_, response) => answer(response, { error: { message: 'x' } }),
    'internal error': () => rpcError(-32603, 'Internal error'),
    'node behind': () => rpcError(-32005, 'Node is behind by 42 slots', { numSlotsBehind: 42 }),
    'minimum context slot': () => rpcError(-32016, 'Minimum context slot has not been reached'),
    'method not found': () => rpcError(-32601, 'Method not found'),
    'too many requests': () => rpcError(-32429, 'Too many requests'),
  };
  await Promise.all(
    Object.entries(sick).map(async ([name, behaviour]) => {
      const { failover, counts } = await setup(
        t,
        [behaviour, () => 'second'],
        name === 'timeout' ? { timeoutMs: 2000 } : {},
      );
      t.equal(await failover.call('m', [], text), 'second', name);
      t.equal(counts()[1], 1, name);
    }),
  );
});

void t.test(
  'if no endpoint responds, the error names each endpoint and its fault without secrets of the URL',
  async (t) => {
    const closed = await closedPort();
    const [hung, broken] = await Promise.all([
      startRpcServer(() => HANDLED),
      startRpcServer((_, response) => answer(response, 'x', 502)),
    ]);
    const urls = [
      `${closed}/?api-key=SECRET`,
      `${hung.url}/SECRET`,
      broken.url.replace('//', '//user:SECRET@'),
    ];
    const failover = new Failover({ urls, timeoutMs: 2000, probeMs: Infinity, log: silent });
    t.teardown(async () => {
      await failover.close();
      hung.close();
      broken.close();
    });
    const error = await failed(failover.call('getSlot', [], text));
    t.same(
      error.failures.map(({ endpoint, fault }) => [endpoint, fault]),
      [
        [closed, 'unreachable'],
        [hung.url, 'timeout'],
        [broken.url, 'http'],
      ],
    );
    t.match(
      error.message,
      /^no Solana RPC endpoint answered getSlot: .*ECONNREFUSED.*; .*no response within 2000 ms; .*HTTP status 502$/,
    );
    t.notMatch(JSON.stringify(error) + String(error.stack), /SECRET/);
    t.equal(
      broken.calls[0]?.headers.authorization,
      `Basic ${Buffer.from('user:SECRET').toString('base64')}`,
    );
    t.equal(hung.calls[0]?.path, '/SECRET');
  },
);

void t.test(
  'the first failure and the recovery are logged, without the secrets of a URL',
  async (t) => {
    const lines: string[] = [];
    const server = await startRpcServer((_, response) => answer(response, 'x', 502));
    const log = pino({}, { write: (line: string) => lines.push(line) });
    const failover = new Failover({
      urls: [`${server.url}/SECRET?api-key=SECRET`],
      probeMs: Infinity,
      log,
    });
    t.teardown(async () => {
      await failover.close();
      server.close();
    });
    for (let call = 0; call < 3; call += 1) await failed(failover.call('m', [], text));
    server.behave(() => 'well');
    for (let call = 0; call < 3; call += 1) await failover.call('m', [], text);
    t.same(
      lines.map((line) => (JSON.parse(line) as { msg: string; endpoint: string }).msg),
      ['RPC endpoint failed', 'RPC endpoint is back'],
    );
    t.match(lines[0], new RegExp(server.url));
    t.notMatch(lines.join(), /SECRET/);
  },
);

void t.test('a definite refusal is not retried at another endpoint', async (t) => {
  const { failover, counts } = await setup(t, [
    () => rpcError(-32602, 'Invalid param', { at: 0 }),
    () => 'second',
  ]);
  await t.rejects(failover.call('m', [], text), {
    constructor: RpcError,
    code: -32602,
    data: { at: 0 },
    message: /refused m: Invalid param \(-32602\)/,
  });
  t.same(counts(), [1, 0]);
  t.equal(failover.health()[0]?.failures, 0, 'and the endpoint is well');
});

void t.test('a refusal inside an HTTP error still counts as a refusal', async (t) => {
  const { failover } = await setup(t, [
    (_, response) => answer(response, { error: { code: -32600, message: 'Invalid request' } }, 400),
  ]);
  await t.rejects(failover.call('m', [], text), RpcError);
});

void t.test(
  'an endpoint whose response trickles is given up when the timeout has passed',
  async (t) => {
    const wait = stopClock(t);
    const pending: ServerResponse[] = [];
    const trickle: Behaviour = (_, response) => {
      response.writeHead(200).write('{"jsonrpc":"2.0",');
      pending.push(response);
      return HANDLED;
    };
    const { failover } = await setup(t, [trickle]);
    const inTime = failover.call('m', [], text);
    while (pending.length < 1) await new Promise(setImmediate);
    wait(60_000);
    pending[0]!.end('"id":1,"result":"at last"}');
    t.equal(await inTime, 'at last');
    const late = failed(failover.call('m', [], text));
    while (pending.length < 2) await new Promise(setImmediate);
    wait(60_001);
    pending[1]!.write(' ');
    t.equal((await late).failures[0]?.fault, 'timeout');
  },
);

void t.test(
  'after a failure an endpoint is not used for a while, then tried by one request only',
  async (t) => {
    const wait = stopClock(t);
    const pending: (() => void)[] = [];
    const { failover, servers, counts } = await setup(t, [
      (_, response) => answer(response, '', 503),
      () => 'second',
    ]);
    t.equal(await failover.call('m', [], text), 'second');
    // The shortest time that it is left alone.
    wait(249);
    for (let call = 0; call < 10; call += 1) await failover.call('m', [], text);
    t.same(counts(), [1, 11], 'no call tries it again at once');

    servers[0]!.behave((_, response) => {
      pending.push(() => answer(response, { result: 'first' }));
      return HANDLED;
    });
    // The longest.
    wait(251);
    const trial = failover.call('m', [], text);
    while (pending.length === 0) await new Promise(setImmediate);
    t.same(await Promise.all([1, 2, 3].map(() => failover.call('m', [], text))), [
      'second',
      'second',
      'second',
    ]);
    pending[0]!();
    t.equal(await trial, 'first');
    servers[0]!.behave(() => 'first');
    t.equal(await failover.call('m', [], text), 'first', 'and is back for all');
    t.match(failover.health()[0], { failures: 0, lastFault: 'http' });
  },
);

void t.test('when all endpoints are marked as down, requests are still sent to them', async (t) => {
  const { failover, servers } = await setup(t, [
    (_, response) => answer(response, '', 503),
    (_, response) => answer(response, '', 503),
  ]);
  await failed(failover.call('m', [], text));
  servers[1]!.behave(() => 'second');
  t.equal(await failover.call('m', [], text), 'second');
});

void t.test('concurrent failures of an endpoint count as one', async (t) => {
  const { failover } = await setup(t, [(_, response) => answer(response, '', 503)]);
  await Promise.all(Array.from({ length: 50 }, () => failed(failover.call('m', [], text))));
  t.equal(failover.health()[0]?.failures, 1);
});

void t.test(
  'a request that was in flight when its endpoint was marked as down adds no second failure',
  async (t) => {
    const wait = stopClock(t);
    const pending: (() => void)[] = [];
    const { failover, servers } = await setup(t, [
      (_, response) => {
        pending.push(() => answer(response, '', 503));
        return HANDLED;
      },
    ]);
    const both = [failed(failover.call('m', [], text)), failed(failover.call('m', [], text))];
    while (pending.length < 2) await new Promise(setImmediate);
    pending[0]!();
    await Promise.race(both);
    // Longer than the pause after the first failure.
    wait(520);
    pending[1]!();
    await Promise.all(both);
    t.equal(failover.health()[0]?.failures, 1);
    servers[0]!.behave((_, response) => answer(response, '', 503));
    await failed(failover.call('m', [], text));
    t.equal(failover.health()[0]?.failures, 2, 'a request made after the pause does');
  },
);

void t.test(
  'no request is sent before Retry-After has passed, and the other endpoint is used meanwhile',
  async (t) => {
    const limited: Behaviour = (_, response) => answer(response, '', 429, { 'retry-after': '1' });
    const wait = stopClock(t);
    const { failover, servers, counts } = await setup(t, [limited, () => 'second']);
    t.equal(await failover.call('m', [], text), 'second');
    servers[0]!.behave(() => 'first');
    for (const pause of [0, 500, 499]) {
      wait(pause);
      t.equal(await failover.call('m', [], text), 'second');
    }
    t.equal(counts()[0], 1);
    wait(1);
    t.equal(await failover.call('m', [], text), 'first');
    t.equal(counts()[0], 2);
  },
);

void t.test(
  'with a single endpoint a call waits for a pause that is shorter than its timeout, or fails',
  async (t) => {
    let limit = '1';
    const { failover, servers, counts } = await setup(
      t,
      [(_, response) => answer(response, '', 429, { 'retry-after': limit })],
      { timeoutMs: 20_000 },
    );
    const call = failover.call('m', [], text);
    while (counts()[0] === 0) await new Promise(setImmediate);
    const started = performance.now();
    servers[0]!.behave(() => 'at last');
    t.equal(await call, 'at last');
    t.ok(performance.now() - started > 900);

    limit = new Date(Date.now() + 30_000).toUTCString();
    servers[0]!.behave((_, response) => answer(response, '', 429, { 'retry-after': limit }));
    const error = await failed(failover.call('m', [], text));
    t.equal(error.failures[0]?.fault, 'rate_limited');
    const next = new Promise((resolve) => setImmediate(resolve, 'the next turn'));
    const first = await Promise.race([failed(failover.call('m', [], text)), next]);
    t.type(first, RpcUnreachable, 'at once');
    t.equal(counts()[0], 3, 'and without asking');
  },
);

void t.test('after a 429 without Retry-After an endpoint pauses too', async (t) => {
  const { failover, counts } = await setup(
    t,
    [(_, response) => answer(response, '', 429, { 'retry-after': '0' })],
    { timeoutMs: 1500 },
  );
  await failed(failover.call('m', [], text));
  t.ok((counts()[0] ?? 0) <= 7, `1.5 seconds of asking every quarter: ${counts()[0]} requests`);
});

void t.test(
  'when one endpoint’s rate is used up, the others get the remaining requests',
  async (t) => {
    const { failover, counts } = await setup(t, [() => 'first', () => 'second'], {
      requestsPerSecond: 1,
    });
    const started = performance.now();
    const responses = await Promise.all(
      Array.from({ length: 2 }, () => failover.call('m', [], text)),
    );
    t.equal(responses.length, 2);
    t.same(counts(), [1, 1]);
    await failover.call('m', [], text);
    const waited = performance.now() - started;
    t.ok(waited > 950, `the third goes out a second after the first: ${waited}`);
  },
);

/** An endpoint at this slot, whose clock is this many seconds off. */
const at =
  (slot: number, name: string, off = 0): Behaviour =>
  ({ method }) => {
    if (method === 'm') return name;
    if (method === 'context') return { context: { slot }, value: name };
    const data = Buffer.alloc(40);
    data.writeBigUInt64LE(BigInt(slot), 0);
    data.writeBigInt64LE(BigInt(Math.floor(Date.now() / 1000) + off), 32);
    const clock = { owner: SYSTEM_PROGRAM, lamports: 1, data: [data.toString('base64'), 'base64'] };
    return { context: { slot }, value: [clock] };
  };

void t.test('an endpoint whose slot is behind the requested one is skipped', async (t) => {
  const { failover, servers } = await setup(t, [at(1000, 'first'), at(1040, 'second')], {
    probeMs: 200,
  });
  while ((failover.health()[0]?.lag ?? 0) === 0) {
    await failover.call('m', [], text);
    await new Promise(setImmediate);
  }
  t.equal(failover.health()[0]?.lag, 40);
  t.equal(await failover.call('m', [], text), 'second');
  servers[0]!.behave(at(1041, 'first'));
  // A machine that stalls makes the first endpoint slow for some calls.
  while ((await failover.call('m', [], text)) !== 'first')
    await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(failover.health()[0]?.lag, 0, 'until it has caught up');
});

/** Reads the value of a response with a context. */
const valueIn = (result: unknown) => (result as { value: string }).value;

void t.test(
  'an endpoint that reports a slot far ahead of the other endpoint is not trusted',
  async (t) => {
    const reported: bigint[] = [];
    const slots = { onDisbelief: (slot: bigint) => reported.push(slot) };
    const liar = at(1_000_000_000, 'liar');
    const { failover } = await setup(t, [liar, at(1000, 'honest')], { slots, probeMs: 60_000 });
    const ask = () => failover.call('context', [], valueIn);
    t.equal(await ask(), 'honest', 'with the first request too');
    t.equal(await failover.call('m', [], text), 'honest', 'it is asked last');
    t.same(await failover.callAll('context', [], valueIn), ['honest']);
    t.same(reported, [1_000_000_000n]);
    t.ok((failover.health()[0]?.lag ?? 0) > 1000);
  },
);

void t.test(
  'an endpoint that hangs does not make the slot of a healthy endpoint implausible',
  async (t) => {
    const slots = { onDisbelief: () => t.fail('believed') };
    const hanging = at(1000, 'hanging', -3600);
    const { failover } = await setup(t, [at(9000, 'good'), hanging], { slots, probeMs: 60_000 });
    t.equal(await failover.call('context', [], valueIn), 'good');
    t.same(await failover.callAll('context', [], valueIn), ['good', 'hanging']);
  },
);

void t.test(
  'responses of an endpoint of another chain are ignored, and each endpoint is asked once for its genesis hash',
  async (t) => {
    stopClock(t);
    const of =
      (hash: string, name: string): Behaviour =>
      ({ method }) =>
        method === 'getGenesisHash' ? hash : name;
    const { failover, servers } = await setup(
      t,
      [(_, response) => answer(response, '', 500), of('theirs', 'second'), of('ours', 'third')],
      {
        refuses: (hash) => (hash === 'ours' ? null : `it serves ${hash}`),
      },
    );
    t.equal(await failover.call('m', [], text), 'third');
    t.same(await failover.callAll('m', [], text), ['third']);
    t.match(failover.health()[1], { failures: 1, lastFault: 'malformed' });
    await Promise.all([failover.call('m', [], text), failover.call('m', [], text)]);
    const asked = servers.map(({ calls }) => calls.map(({ method }) => method));
    t.same(asked.slice(1), [['getGenesisHash'], ['getGenesisHash', 'm', 'm', 'm', 'm']]);
    servers[2]!.behave((_, response) => answer(response, '', 500));
    const { failures } = await failed(failover.call('m', [], text));
    t.match(
      failures.find(({ endpoint }) => endpoint === servers[1]!.url)?.reason,
      'it serves theirs',
    );
    t.equal(
      await failover.call('getGenesisHash', [], text),
      'theirs',
      'a caller of getGenesisHash gets it',
    );
  },
);

void t.test('a preferred endpoint that responds far more slowly is skipped', async (t) => {
  const slow: Behaviour = (_, response) => {
    setTimeout(() => answer(response, { result: 'first' }), 300);
    return HANDLED;
  };
  const { failover } = await setup(t, [slow, () => 'second']);
  t.equal(await failover.call('m', [], text), 'first');
  t.equal(await failover.call('m', [], text), 'second');
});

void t.test(
  'a single endpoint is never probed; several endpoints are probed only while calls are made',
  async (t) => {
    const probes = (calls: { method: string }[]) =>
      calls.filter(({ method }) => method === 'getMultipleAccounts').length;
    const alone = await setup(t, [() => 'x'], { probeMs: 10 });
    for (let call = 0; call < 5; call += 1) {
      await alone.failover.call('m', [], text);
      await new Promise((resolve) => setTimeout(resolve, 12));
    }
    t.equal(probes(alone.servers[0]!.calls), 0);

    const two = await setup(t, [at(1, 'x'), at(1, 'x')], { probeMs: 10 });
    await two.failover.call('m', [], text);
    const probed = () => two.servers.map(({ calls }) => probes(calls));
    while (probed().includes(0)) await new Promise(setImmediate);
    await new Promise((resolve) => setTimeout(resolve, 100));
    t.same(probed(), [1, 1]);
  },
);

void t.test(
  'a request to all endpoints combines their responses or fails with all reasons',
  async (t) => {
    await t.test(
      'a request to all endpoints uses the first response and lets the others finish',
      async (t) => {
        const { failover, counts } = await setup(t, [
          () => HANDLED,
          () => 'second',
          (_, response) => answer(response, '', 500),
        ]);
        t.equal(await failover.callAny('m', [], text), 'second');
        while (counts().includes(0)) await new Promise(setImmediate);
        t.same(counts(), [1, 1, 1]);
      },
    );
    await t.test('a request to all endpoints can collect all responses', async (t) => {
      const { failover } = await setup(t, [
        () => 'first',
        (_, response) => answer(response, '', 500),
        () => 'third',
      ]);
      t.same(await failover.callAll('m', [], text), ['first', 'third']);
    });
    await t.test(
      'a request to all endpoints skips endpoints that are down, unless every endpoint is down',
      async (t) => {
        stopClock(t);
        const { failover, servers, counts } = await setup(t, [
          (_, response) => answer(response, '', 500),
          () => 'second',
        ]);
        await failover.callAll('m', [], text);
        await failover.callAll('m', [], text);
        t.same(counts(), [1, 2]);
        servers[1]!.behave((_, response) => answer(response, '', 500));
        await failed(failover.callAll('m', [], text));
        servers[0]!.behave(() => 'first');
        t.equal(await failover.callAny('m', [], text), 'first');
      },
    );
    await t.test('a request to all endpoints fails with each endpoint’s own reason', async (t) => {
      const { failover, servers } = await setup(
        t,
        [(_, response) => answer(response, '', 500), () => HANDLED],
        { timeoutMs: 2000 },
      );
      const error = await failed(failover.callAny('m', [], text));
      t.same(
        error.failures.map(({ endpoint, fault }) => [endpoint, fault]),
        [
          [servers[0]!.url, 'http'],
          [servers[1]!.url, 'timeout'],
        ],
      );
    });
    await t.test(
      'a request to all endpoints fails with the refusal if any endpoint refuses it',
      async (t) => {
        const { failover } = await setup(t, [
          (_, response) => answer(response, '', 500),
          () => rpcError(-32602, 'Invalid param'),
        ]);
        await t.rejects(failover.callAny('m', [], text), RpcError);
        await t.rejects(failover.callAll('m', [], text), RpcError);
      },
    );
  },
);

void t.test(
  'a connection that the server closed between two requests is opened again, once',
  async (t) => {
    const { failover, servers, counts } = await setup(t, [() => 'first']);
    await failover.call('m', [], text);
    let resets = 1;
    servers[0]!.behave((_, response) => {
      if (resets-- <= 0) return 'again';
      response.socket?.destroy();
      return HANDLED;
    });
    t.equal(await failover.call('m', [], text), 'again');
    t.equal(failover.health()[0]?.failures, 0);
    resets = 2;
    await failed(failover.call('m', [], text));
    t.equal(counts()[0], 5);
  },
);

void t.test('closing ends requests that are under way or waiting', async (t) => {
  const { failover } = await setup(t, [
    (_, response) => answer(response, '', 429, { 'retry-after': '1' }),
  ]);
  const hung = await setup(t, [() => HANDLED]);
  const calls = [failed(failover.call('m', [], text)), failed(hung.failover.call('m', [], text))];
  while (hung.counts()[0] === 0 || failover.health()[0]?.lastFault !== 'rate_limited')
    await new Promise(setImmediate);
  await Promise.all([failover.close(), hung.failover.close()]);
  for (const call of calls) t.equal((await call).failures[0]?.fault, 'unreachable');
});

void t.test('an exception in the caller’s response parser is rethrown unchanged', async (t) => {
  const { failover } = await setup(t, [() => 'x', () => 'y']);
  const bug = (): never => {
    throw new TypeError('a bug');
  };
  await t.rejects(failover.call('m', [], bug), { name: 'TypeError', message: 'a bug' });
});

void t.test('a malformed URL is refused at the start', (t) => {
  t.throws(() => new Failover({ urls: [], log: silent }), /at least one RPC URL/);
  t.throws(
    () => new Failover({ urls: ['ftp://127.0.0.1'], log: silent }),
    /http:\/\/ or https:\/\//,
  );
  t.throws(() => new Failover({ urls: ['nonsense'], log: silent }), TypeError);
  t.end();
});

void t.test('a call whose deadline has passed sends no request', async (t) => {
  stopClock(t);
  const { failover, counts } = await setup(t, [
    (_, response) => answer(response, '', 429, { 'retry-after': '1' }),
  ]);
  await t.rejects(failover.call('m', [], text, { withinMs: 300 }), RpcUnreachable);
  await new Promise((resolve) => setTimeout(resolve, 1200));
  t.same(counts(), [1], 'not after the pause that was asked for');
});

void t.test('a request that waited for a connection is not sent after its deadline', async (t) => {
  const pending: (() => void)[] = [];
  const hold: Behaviour = (_, response) => {
    pending.push(() => answer(response, { result: 'late' }));
    return HANDLED;
  };
  for (const ask of ['call', 'callAny'] as const) {
    const { failover, servers } = await setup(t, [hold]);
    const hung = Array.from({ length: 64 }, () => failover.call('hung', [], text));
    while (pending.length < 64) await new Promise((resolve) => setTimeout(resolve, 5));
    const soon = failover[ask]('soon', [], text, { withinMs: 100 }).catch(
      (error: unknown) => error,
    );
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const release of pending.splice(0)) release();
    await Promise.all(hung);
    t.match(await soon, { failures: [{ fault: 'busy' }] }, ask);
    servers[0]!.behave(() => 'well');
    t.equal(
      await failover[ask]('soon', [], text, { withinMs: 600_000 }),
      'well',
      'its connection is as good as before',
    );
    t.equal(servers[0]!.calls.filter(({ method }) => method === 'soon').length, 1);
    t.equal(failover.health()[0]?.failures, 0, 'and the endpoint is not to blame');
  }
});

void t.test('a request whose connection breaks is not repeated after its deadline', async (t) => {
  const wait = stopClock(t);
  const { failover, servers, counts } = await setup(t, [() => 'first']);
  await failover.call('m', [], text);
  servers[0]!.behave((_, response) => {
    wait(200);
    response.socket?.destroy();
    return HANDLED;
  });
  await failed(failover.callAny('m', [], text, { withinMs: 100 }));
  t.same(counts(), [2]);
});

void t.test(
  'each request is observed with its outcome and duration, without the secrets of the URL',
  async (t) => {
    const seen: ObservedRequest[] = [];
    const dead = await closedPort();
    const server = await startRpcServer(({ method }) =>
      method === 'no' ? rpcError(-32602, 'no') : 'yes',
    );
    t.teardown(() => server.close());
    const failover = new Failover({
      urls: [`${dead}/?key=secret`, `${server.url}/secret`],
      probeMs: Infinity,
      log: silent,
      observe: (request) => seen.push(request),
    });
    t.teardown(() => failover.close());
    await failover.call('yes', [], text);
    await t.rejects(failover.call('no', [], text), RpcError);
    t.match(seen, [
      { endpoint: dead, method: 'yes', outcome: 'unreachable' },
      { endpoint: server.url, method: 'yes', outcome: 'ok' },
      { endpoint: server.url, method: 'no', outcome: 'refused' },
    ]);
    t.ok(seen.every(({ seconds }) => seconds >= 0 && seconds < 60));
  },
);
