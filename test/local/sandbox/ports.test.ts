import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import { freePorts } from '../../../src/local/sandbox/ports.ts';

void t.test('free ports are consecutive and below the ephemeral range', async (t) => {
  for (let round = 0; round < 20; round += 1) {
    const ports = await freePorts(6);
    t.same(
      ports,
      ports.map((_, index) => ports[0]! + index),
    );
    t.ok(ports[0]! >= 10_000 && ports.at(-1)! < 32_768);
    const servers = ports.map((port) => createServer().listen(port, '127.0.0.1'));
    await Promise.all(servers.map((server) => once(server, 'listening')));
    for (const server of servers) server.close();
  }
});
