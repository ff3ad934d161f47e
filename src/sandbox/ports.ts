// Ports for servers that are told theirs, and are to find it free again when they come back after a kill.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

// Below what systems give to outgoing connections and to whoever asks for any port (Linux from 32768, RFC 6335 from 49152): nobody comes upon one by chance.
const [first, last] = [10_000, 32_000];

/** So many ports in a row that nothing listens on at 127.0.0.1. Throws what the system says when none can be listened on at all. */
export async function freePorts(count: number): Promise<number[]> {
  const start = randomInt(first, last - count);
  const ports = Array.from({ length: count }, (_, index) => start + index);
  const probes = ports.map((port) => createServer().listen(port, '127.0.0.1'));
  try {
    await Promise.all(probes.map((probe) => once(probe, 'listening')));
    return ports;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return await freePorts(count);
  } finally {
    await Promise.all(probes.map((probe) => new Promise((resolve) => probe.close(resolve))));
  }
}
