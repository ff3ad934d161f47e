// A node's WebSocket with scripted messages.
import type { AddressInfo } from 'node:net';
import websocket from '@fastify/websocket';
import Fastify from 'fastify';
import type { Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';

/** Resolves when it holds. */
export const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
};

export interface Socket {
  send: (text: string) => void;
  terminate: () => void;
  close: () => void;
}

const SUBSCRIPTIONS: Record<string, number> = {
  programSubscribe: 100,
  slotSubscribe: 200,
  logsSubscribe: 300,
};

/** A node's WebSocket: confirms subscriptions (program 100, slots 200, logs 300) and sends scripted messages. */
export async function startNode(t: Test, port = 0) {
  const sockets: Socket[] = [];
  const requests: { id: number; method: string; params: unknown[] }[] = [];
  let reply = (socket: Socket, { id, method }: (typeof requests)[number]) =>
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, result: SUBSCRIPTIONS[method] }));
  const app = Fastify();
  await app.register(websocket);
  app.get('/', { websocket: true }, (socket) => {
    sockets.push(socket);
    socket.on('message', (data: Buffer) => {
      const request = JSON.parse(data.toString()) as (typeof requests)[number];
      requests.push(request);
      reply(socket, request);
    });
  });
  await app.listen({ port, host: '127.0.0.1' });
  const close = async () => {
    sockets.forEach((socket) => socket.terminate());
    await app.close();
  };
  t.teardown(close);
  const notify = (method: string, subscription: number, result: unknown) =>
    sockets
      .at(-1)
      ?.send(JSON.stringify({ jsonrpc: '2.0', method, params: { subscription, result } }));
  return {
    url: `ws://127.0.0.1:${(app.server.address() as AddressInfo).port}`,
    port: (app.server.address() as AddressInfo).port,
    sockets,
    requests,
    close,
    notify,
    onRequest: (next: typeof reply) => (reply = next),
    account: (address: string, slot: number, data = 'data') =>
      notify('programNotification', 100, {
        context: { slot },
        value: {
          pubkey: address,
          account: {
            data: [Buffer.from(data).toString('base64'), 'base64'],
            owner: SUBSCRIPTIONS_PROGRAM,
            lamports: 5,
            executable: false,
          },
        },
      }),
    logs: (signature: string, slot: number, logs: string[], err: unknown = null) =>
      notify('logsNotification', 300, { context: { slot }, value: { signature, err, logs } }),
    slot: (slot: number) =>
      notify('slotNotification', 200, { slot, parent: slot - 1, root: slot - 32 }),
  };
}
