import type { Socket } from 'node:net';
import websocket, { type WebSocket } from '@fastify/websocket';
import fastify, { type FastifyInstance } from 'fastify';
import type { Chain } from '../state.ts';
import { MAX_BODY_BYTES } from './http-server.ts';
import { errorResponse, parseBody, positional, readCall, resultResponse } from './json-rpc.ts';
import { invalidRequest, methodNotFound } from './rpc-error.ts';
import { Subscriptions } from './subscriptions.ts';

/**
 * Maximum number of bytes that wait to be sent to a client. A client that reads too slowly exceeds
 * this limit and is disconnected.
 */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;

/**
 * Milliseconds that a client has to close its side of the connection when the chain stops. After
 * this time the server ends the connection.
 */
const CLOSE_GRACE_MS = 500;

function serveClient(chain: Chain, socket: WebSocket, stream: Socket): void {
  let corked = false;
  // A block may cause hundreds of messages to one client. The messages of one tick are collected,
  // then written to the socket together.
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
    if (method === null) return errorResponse(id, invalidRequest());
    // In JSON-RPC a request without an id is a notification and gets no response. web3.js keeps its
    // connection alive with the notification `ping`.
    if (id === undefined) return null;
    try {
      const result = subscriptions.call(method, positional(params));
      if (result === undefined) throw methodNotFound();
      return resultResponse(id, result);
    } catch (error) {
      return errorResponse(id, error);
    }
  }

  function onMessage(text: string): void {
    let parsed: unknown;
    try {
      parsed = parseBody(text);
    } catch (error) {
      send(errorResponse(null, error));
      return;
    }
    if (Array.isArray(parsed) && parsed.length === 0) {
      send(errorResponse(null, invalidRequest()));
      return;
    }
    const responses = (Array.isArray(parsed) ? parsed : [parsed])
      .map(handle)
      .filter((one) => one !== null);
    if (responses.length > 0)
      send(Array.isArray(parsed) ? `[${responses.join(',')}]` : (responses[0] ?? ''));
  }

  socket.on('message', (data) => onMessage((data as Buffer).toString('utf8')));
  socket.on('close', () => subscriptions.close());
  // An `error` event needs no handling, because a broken connection also emits `close`.
  socket.on('error', () => undefined);
}

/**
 * Builds the WebSocket server of a chain. The server serves subscriptions on the path /. The caller
 * makes the server listen.
 */
export async function buildWs(chain: Chain): Promise<FastifyInstance> {
  const app = fastify({ forceCloseConnections: true });
  const preClose = (done: () => void) => {
    const { clients } = app.websocketServer;
    // The close code 1000 keeps web3.js from connecting again.
    for (const client of clients) client.close(1000);
    setTimeout(() => clients.forEach((client) => client.terminate()), CLOSE_GRACE_MS).unref();
    app.websocketServer.close(done);
  };
  await app.register(websocket, { options: { maxPayload: MAX_BODY_BYTES }, preClose });
  app.get('/', { websocket: true }, (socket, request) =>
    serveClient(chain, socket, request.raw.socket),
  );
  return app;
}
