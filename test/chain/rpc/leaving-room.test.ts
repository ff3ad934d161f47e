// Work that anyone can cause leaves a quarter of the rate to the client itself.
import t from 'tap';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { leavingRoom } from '../../../src/chain/rpc/leaving-room.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { createLog } from '../../../src/log.ts';
import { startRpcServer } from '../../fixtures/rpc-server.ts';

void t.test(
  'calls through the leaving-room wrapper wait at the rate limit, direct calls of the client do not',
  async (t) => {
    const server = await startRpcServer(() => 7);
    const log = createLog('test', { level: 'silent', pretty: false, stream: 'stderr' });
    const rate = 4;
    const rpc = createRpc({ urls: [server.url], requestsPerSecond: rate, timeoutMs: 60_000, log });
    t.teardown(async () => {
      await rpc.close();
      server.close();
    });
    const others = leavingRoom(rpc, () => rate);
    const calls = Array.from({ length: 7 }, () => others.getSlot());
    await Promise.race(calls);
    t.equal(rpc.readDelay(), 0, 'three have taken their turn, four wait');
    t.equal(await rpc.getSlot(), 7n);
    t.same(await Promise.all(calls), Array(7).fill(7n), 'all get theirs');
    t.equal(others.endpoints(), rpc.endpoints());
  },
);

void t.test('an unlimited rate queues nothing, and a rate of 1 leaves no reserve', async (t) => {
  const asked: number[] = [];
  const rpc = { getSlot: async () => BigInt(asked.push(1)) } as unknown as Rpc;
  const slots = (rate: number, count: number) => {
    const others = leavingRoom(rpc, () => rate);
    return Promise.all(Array.from({ length: count }, () => others.getSlot()));
  };
  await slots(Infinity, 1000);
  t.equal(asked.length, 1000);
  await slots(1, 1);
  t.equal(asked.length, 1001);
});
