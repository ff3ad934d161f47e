// Finds ports for servers that the sandbox kills and starts again on the same port.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

// When a process asks for any free port, the system gives it an ephemeral port. Ephemeral ports
// begin at 32768 on Linux and at 49152 in RFC 6335, so the range from FIRST to LAST has none. A
// port of this range therefore stays free until the sandbox has started its server again.
const FIRST = 10_000;
const LAST = 32_000;

/**
 * Finds consecutive free ports on 127.0.0.1. Throws the system's error when the system does not
 * allow this process to listen.
 */
export async function freePorts(count: number): Promise<number[]> {
  const start = randomInt(FIRST, LAST - count);
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
