import { Registry } from 'prom-client';
import t from 'tap';
import {
  EndpointFailure,
  type EndpointFault,
  RpcError,
  RpcUnreachable,
} from '../../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { watchRpc } from '../../../src/chain/rpc/watched.ts';
import { createMetrics } from '../../../src/keeper/base/metrics.ts';
import type { Log } from '../../../src/log.ts';

const unreachable = (...faults: EndpointFault[]) =>
  new RpcUnreachable(
    'getSlot',
    faults.map(
      (fault, index) => new EndpointFailure(fault, fault, { endpoint: `http://${index}` }),
    ),
  );

/** A client whose getSlot returns the given results one after the other. */
function watched(...responses: (bigint | Error | Promise<bigint>)[]) {
  const said: string[] = [];
  const log = {
    error: (_: unknown, text: string) => said.push(text),
    info: (text: string) => said.push(text),
  } as unknown as Log;
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const getSlot = async () => {
    const response = responses.shift();
    if (response instanceof Error) throw response;
    return response!;
  };
  const watch = watchRpc(
    { getSlot, health: () => [], close: async () => undefined } as unknown as Rpc,
    log,
    metrics,
  );
  const ask = () => watch.rpc.getSlot().catch((error: unknown) => error);
  const reachable = async () => (await metrics.rpcReachable.get()).values[0]?.value;
  return { ask, outage: () => watch.outage(), said, reachable };
}

void t.test('a call that fails after a later call succeeded starts no outage', async (t) => {
  let fail: (error: Error) => void = () => undefined;
  const slow = new Promise<bigint>((_, reject) => (fail = reject));
  const { ask, outage, said } = watched(unreachable('http'), slow, 1n);
  await ask();
  const earlier = ask();
  await ask();
  fail(unreachable('http'));
  await earlier;
  t.equal(outage(), undefined);
  t.same(said, ['no Solana RPC endpoint answers; the keeper waits', 'the Solana RPC is back']);
});

void t.test('the start and the end of an outage are logged once each', async (t) => {
  const { ask, outage, said, reachable } = watched(
    unreachable('timeout'),
    unreachable('http', 'timeout'),
    1n,
    2n,
    unreachable('http'),
  );
  await ask();
  await ask();
  t.match(outage(), /http:\/\/1: timeout/, 'the latest reason');
  t.equal(await reachable(), 0);
  t.equal(await ask(), 1n);
  t.equal(outage(), undefined);
  t.equal(await reachable(), 1);
  await ask();
  await ask();
  t.equal(said.length, 3);
  t.match(said, [/no Solana RPC endpoint answers/, /is back/, /no Solana RPC endpoint answers/]);
});

void t.test(
  'an endpoint that has not reached the requested slot neither starts nor ends an outage',
  async (t) => {
    const behind = unreachable('behind');
    const { ask, outage, said } = watched(
      behind,
      unreachable('timeout', 'behind'),
      unreachable('timeout'),
      behind,
    );
    t.equal(await ask(), behind, 'thrown as it is: the caller tries again');
    await ask();
    t.equal(outage(), undefined);
    t.same(said, []);
    await ask();
    await ask();
    t.type(outage(), 'string', 'who is out of reach for everything else');
    t.equal(said.length, 1);
  },
);

void t.test('an endpoint without the method starts no outage', async (t) => {
  const { ask, outage, said } = watched(unreachable('unsupported'));
  await ask();
  t.equal(outage(), undefined);
  t.same(said, []);
});

void t.test('a refusal is a response and starts no outage', async (t) => {
  const refusal = new RpcError('http://0', 'getSlot', -32602, 'Invalid params');
  const { ask, outage, said } = watched(unreachable('unreachable'), refusal, refusal);
  await ask();
  t.equal(await ask(), refusal);
  t.equal(outage(), undefined);
  await ask();
  t.match(said, [/no Solana RPC endpoint answers/, /is back/]);
});
