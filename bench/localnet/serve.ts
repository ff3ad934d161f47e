// The chain in a process of its own, for the benchmark: tells its addresses and, when asked, its resident memory.
import { startLocalnet } from '../../src/localnet/start.ts';

const net = await startLocalnet();
process.send?.({ rpcUrl: net.rpcUrl });
process.on('message', () => {
  globalThis.gc?.();
  process.send?.({ rss: process.memoryUsage().rss });
});
process.on('disconnect', () => process.exit(0));
