import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';

export interface Proxy {
  readonly url: string;
  /** Returns the number of bytes received from the chain. */
  bytes(): number;
  close(): void;
}

/** Starts a proxy that forwards a WebSocket connection and counts the bytes. */
export async function countingProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  let bytes = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    upstream.on('data', (chunk) => (bytes += chunk.length));
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream])
      socket.on('error', () => [client, upstream].forEach((one) => one.destroy()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytes: () => bytes,
    close: () => server.close(),
  };
}
