import type { Socket } from 'node:net';
import websocket, { type WebSocket } from '@fastify/websocket';
import fastify, { type FastifyInstance } from 'fastify';
import type { Chain } from '../state.ts';
import { MAX_BODY_BYTES } from './http-server.ts';
import { errorAnswer, parseBody, positional, readCall, resultAnswer } from './json-rpc.ts';
import { invalidRequest, methodNotFound } from './rpc-error.ts';
import { Subscriptions } from './subscriptions.ts';

/** Bytes that may wait for a client that does not read before it is cut off. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;

/** ms that a client has to close its side when the chain stops. */
const CLOSE_GRACE_MS = 500;

function connect(chain: Chain, socket: WebSocket, stream: Socket): void {
  let corked = false;
  // A block causes hundreds of messages: they are written to the socket together.
  const cork = () => {
    if (corked) return;
    corked = true;
    stream.cork();
    process.nextTick(() => {
      corked = false;
      stream.uncork();
    });
  };
  const send = (text: string) => {
    if (socket.readyState !== socket.OPEN) return;
    cork();
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) socket.terminate();
    else socket.send(text);
  };
  const subscriptions = new Subscriptions(chain, (kind, subscription, result) =>
    send(
      `{"jsonrpc":"2.0","method":"${kind}Notification","params":{"result":${result},"subscription":${subscription}}}`,
    ),
  );

  function handle(value: unknown): string | null {
    const { id, method, params } = readCall(value);
    if (method === null) return errorAnswer(id, invalidRequest());
    // Notifications get no answer; web3.js keeps its connection alive with one called ping.
    if (id === undefined) return null;
    try {
      const result = subscriptions.call(method, positional(params));
      if (result === undefined) throw methodNotFound();
      return resultAnswer(id, result);
    } catch (error) {
      return errorAnswer(id, error);
    }
  }

  function onMessage(text: string): void {
    let parsed: unknown;
    try {
      parsed = parseBody(text);
    } catch (error) {
      send(errorAnswer(null, error));
      return;
    }
    if (Array.isArray(parsed) && parsed.length === 0) {
      send(errorAnswer(null, invalidRequest()));
      return;
    }
    const answers = (Array.isArray(parsed) ? parsed : [parsed])
      .map(handle)
      .filter((one) => one !== null);
    if (answers.length > 0)
      send(Array.isArray(parsed) ? `[${answers.join(',')}]` : (answers[0] ?? ''));
  }

  socket.on('message', (data) => onMessage((data as Buffer).toString('utf8')));
  socket.on('close', () => subscriptions.close());
  // A broken connection also emits close.
  socket.on('error', () => undefined);
}

/** Builds the WebSocket side of a chain: subscriptions on /. It does not listen. */
export async function buildWs(chain: Chain): Promise<FastifyInstance> {
  const app = fastify({ forceCloseConnections: true });
  const preClose = (done: () => void) => {
    const { clients } = app.websocketServer;
    // 1000 tells web3.js that this is an end and not a fault to reconnect after.
    for (const client of clients) client.close(1000);
    setTimeout(() => clients.forEach((client) => client.terminate()), CLOSE_GRACE_MS).unref();
    app.websocketServer.close(done);
  };
  await app.register(websocket, { options: { maxPayload: MAX_BODY_BYTES }, preClose });
  app.get('/', { websocket: true }, (socket, request) =>
    connect(chain, socket, request.raw.socket),
  );
  return app;
}
