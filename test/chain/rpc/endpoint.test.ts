// The health of one endpoint after its responses, used by failover and operators. The failover
// between endpoints: failover.test.ts.
import t, { type Test } from 'tap';
import { RpcEndpoint, type EndpointOptions } from '../../../src/chain/rpc/endpoint.ts';
import { EndpointFailure, RpcError } from '../../../src/chain/rpc/errors.ts';
import { createRateLimit } from '../../../src/chain/rpc/rate-limit.ts';
import { stopClock } from '../../fixtures/clock.ts';
import {
  answer,
  type Behaviour,
  HANDLED,
  rpcError,
  startRpcServer,
} from '../../fixtures/rpc-server.ts';

async function endpointOf(t: Test, behaviour: Behaviour, options: Partial<EndpointOptions> = {}) {
  const server = await startRpcServer(behaviour);
  const endpoint = new RpcEndpoint(`${server.url}/secret-path?api-key=secret`, {
    timeoutMs: 60_000,
    ...options,
  });
  t.teardown(async () => {
    await endpoint.close();
    server.close();
  });
  const ask = (read: (result: unknown) => unknown = (result) => result) =>
    endpoint.call('getSlot', [], read).catch((error: unknown) => error);
  return { server, endpoint, ask };
}

void t.test(
  'an endpoint’s name shows only scheme, host and port, because paths and queries can contain API keys',
  async (t) => {
    const { server, endpoint, ask } = await endpointOf(t, (_, response) =>
      answer(response, 'no', 500),
    );
    t.equal(endpoint.name, new URL(server.url).origin);
    const error = await ask();
    t.ok(error instanceof EndpointFailure);
    t.notMatch(JSON.stringify([error, (error as Error).message, endpoint.health()]), /secret/);
  },
);

void t.test(
  'after a failure an endpoint pauses, then gets one request at a time until it responds',
  async (t) => {
    stopClock(t);
    const { server, endpoint, ask } = await endpointOf(t, (_, response) =>
      answer(response, 'no', 500),
    );
    await Promise.all([ask(), ask(), ask()]);
    t.match(
      endpoint.health(),
      { failures: 1, lastFault: 'http', requests: 3 },
      'what was under way together failed once',
    );
    t.ok(endpoint.down(performance.now()));
    const later = performance.now() + 60_000;
    t.notOk(endpoint.down(later));
    server.behave(() => 5);
    const trial = ask();
    t.ok(endpoint.down(later), 'another request is trying it');
    t.equal(await trial, 5);
    t.notOk(endpoint.down(performance.now()));
    t.match(endpoint.health(), { failures: 0, lastFault: 'http' });
    t.type(endpoint.health().latencyMs, 'number');
  },
);

void t.test(
  'a refusal, a slot not reached yet and a missing method do not mark an endpoint as down',
  async (t) => {
    const harmless: [Behaviour, (error: unknown) => boolean][] = [
      [
        () => rpcError(-32602, 'Invalid params'),
        (error) => error instanceof RpcError && error.code === -32602,
      ],
      ...[-32004, -32005, -32014, -32016].map((code): [Behaviour, (error: unknown) => boolean] => [
        () => rpcError(code, 'not yet'),
        (error) => error instanceof EndpointFailure && error.fault === 'behind',
      ]),
      ...[-32001, -32011, -32019].map((code): [Behaviour, (error: unknown) => boolean] => [
        () => rpcError(code, 'not kept'),
        (error) => error instanceof EndpointFailure && error.fault === 'no_history',
      ]),
      [
        () => rpcError(-32601, 'Method not found'),
        (error) => error instanceof EndpointFailure && error.fault === 'unsupported',
      ],
    ];
    const { server, endpoint, ask } = await endpointOf(t, () => 1);
    for (const [behaviour, expected] of harmless) {
      server.behave(behaviour);
      t.ok(expected(await ask()));
      t.equal(endpoint.health().failures, 0);
      t.notOk(endpoint.down(performance.now()));
    }
  },
);

void t.test('after a 429 an endpoint waits for Retry-After and stays healthy', async (t) => {
  stopClock(t);
  for (const [header, from, to] of [
    ['2', 2000, 2000],
    ['0', 250, 250],
    ['86400', 60_000, 60_000],
    // Whole seconds.
    [new Date(Date.now() + 30_000).toUTCString(), 29_001, 30_000],
    ['soon', 1000, 1000],
  ] as const) {
    const { endpoint, ask } = await endpointOf(t, (_, response) =>
      answer(response, '', 429, { 'retry-after': header }),
    );
    t.match(await ask(), { fault: 'rate_limited' });
    const delay = endpoint.delay(performance.now());
    t.ok(delay >= from && delay <= to, `${header}: ${delay}`);
    t.equal(endpoint.health().failures, 0);
  }
});

void t.test('requests to each endpoint stay within the rate limit of that endpoint', async (t) => {
  const wait = stopClock(t);
  const { endpoint, ask } = await endpointOf(t, () => 1, { rateLimit: createRateLimit(2) });
  t.equal(endpoint.delay(performance.now()), 0);
  await ask();
  wait(400);
  await ask();
  t.equal(endpoint.delay(performance.now()), 650, 'the third 1,050 ms after the first');
});

void t.test('a response that arrives byte by byte is aborted at the timeout', async (t) => {
  const { ask } = await endpointOf(
    t,
    (_, response) => {
      response.writeHead(200);
      const drip = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(drip));
      return HANDLED;
    },
    { timeoutMs: 200 },
  );
  t.match(await ask(), { fault: 'timeout' });
});

void t.test(
  'an unreadable response counts as an endpoint failure, an exception of the caller’s parser does not',
  async (t) => {
    const { endpoint, ask } = await endpointOf(t, () => 1);
    const malformed = await ask(() => {
      throw new EndpointFailure('malformed', 'no slot');
    });
    t.match(malformed, { fault: 'malformed', endpoint: endpoint.name });
    t.equal(endpoint.health().failures, 1);
    const bug = await ask(() => {
      throw new TypeError('a bug');
    });
    t.ok(bug instanceof TypeError);
  },
);

void t.test('a URL that is not http or https is refused', (t) => {
  t.throws(() => new RpcEndpoint('ws://127.0.0.1', { timeoutMs: 1 }), TypeError);
  t.throws(() => new RpcEndpoint('nonsense', { timeoutMs: 1 }), TypeError);
  t.end();
});
