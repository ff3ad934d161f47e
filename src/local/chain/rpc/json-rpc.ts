// JSON-RPC 2.0: parses requests and batches, calls the methods and encodes responses and errors.
import { messageOf } from '../../../errors.ts';
import { accountMethods } from './account-methods.ts';
import { blockMethods } from './block-methods.ts';
import { cheatMethods } from './cheat-methods.ts';
import { faultMethods } from './faults.ts';
import { historyMethods } from './history-methods.ts';
import { toJson } from './json.ts';
import type { LocalEndpoint } from './params.ts';
import {
  internalError,
  invalidParams,
  invalidRequest,
  methodNotFound,
  parseError,
  RpcError,
} from './rpc-error.ts';
import { sendMethods, verifyAhead } from './send-methods.ts';

/**
 * The implementation of an RPC method: takes the positional parameters of a request and returns the
 * result. Throws RpcError.
 */
export type Method = (params: readonly unknown[], endpoint: LocalEndpoint) => unknown;

const METHODS: ReadonlyMap<string, Method> = new Map(
  Object.entries<Method>({
    ...accountMethods,
    ...blockMethods,
    ...historyMethods,
    ...sendMethods,
    ...cheatMethods,
    ...faultMethods,
  }),
);

/**
 * Parses the body of an HTTP request, which is a single request or a batch. Throws -32700 (parse
 * error) for invalid JSON.
 */
export function parseBody(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    throw parseError();
  }
}

/** The fields of a JSON-RPC request. An invalid request has the method null. */
export interface Call {
  readonly id: unknown;
  readonly method: string | null;
  readonly params: unknown;
}

/**
 * Reads one JSON-RPC request. Returns the method null when the value is not a JSON-RPC 2.0 request.
 */
export function readCall(value: unknown): Call {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { id: null, method: null, params: undefined };
  const { jsonrpc, id, method, params } = value as Record<string, unknown>;
  const soundId =
    id === undefined || id === null || typeof id === 'string' || typeof id === 'number';
  const sound = jsonrpc === '2.0' && typeof method === 'string' && soundId;
  return { id: soundId ? id : null, method: sound ? method : null, params };
}

const callsOf = (body: unknown) => (Array.isArray(body) ? body : [body]).map(readCall);

/** Verifies the signatures of all transactions in a batch together, before any request runs. */
export async function verifySignatures(body: unknown, { chain }: LocalEndpoint): Promise<void> {
  if (!Array.isArray(body)) return;
  const sends: (readonly unknown[])[] = [];
  for (const { method, params } of callsOf(body))
    if (method === 'sendTransaction' && Array.isArray(params)) sends.push(params);
  await verifyAhead(chain, sends);
}

/** Returns the names of the RPC methods that a request body calls. */
export const methodsOf = (body: unknown): string[] =>
  callsOf(body).flatMap(({ method }) => method ?? []);

export function errorResponse(id: unknown, error: unknown): string {
  const { code, message, data } =
    error instanceof RpcError ? error : internalError(`Internal error: ${messageOf(error)}`);
  return `{"jsonrpc":"2.0","error":${toJson({ code, message, data })},"id":${toJson(id ?? null)}}`;
}

export const resultResponse = (id: unknown, result: unknown) =>
  `{"jsonrpc":"2.0","result":${toJson(result)},"id":${toJson(id)}}`;

/**
 * Returns the positional parameters of a request. Throws -32602 (invalid params) for named
 * parameters, which no method takes.
 */
export function positional(params: unknown): readonly unknown[] {
  if (params === undefined || params === null) return [];
  if (!Array.isArray(params))
    throw invalidParams('Invalid params: expected an array of positional parameters');
  return params;
}

/**
 * Returns the response to one request as JSON text. Returns null for a notification, because a
 * notification gets no response.
 */
function respondToCall(value: unknown, endpoint: LocalEndpoint): string | null {
  const { id, method, params } = readCall(value);
  if (method === null) return errorResponse(id, invalidRequest());
  try {
    const run = METHODS.get(method);
    if (run === undefined) throw methodNotFound();
    const result = run(positional(params), endpoint);
    return id === undefined ? null : resultResponse(id, result);
  } catch (error) {
    return id === undefined ? null : errorResponse(id, error);
  }
}

/**
 * Returns the response to a parsed request body as JSON text. Returns '' when the body has only
 * notifications.
 */
export function respond(body: unknown, endpoint: LocalEndpoint): string {
  if (!Array.isArray(body)) return respondToCall(body, endpoint) ?? '';
  if (body.length === 0) return errorResponse(null, invalidRequest());
  const responses = body
    .map((value: unknown) => respondToCall(value, endpoint))
    .filter((one) => one !== null);
  return responses.length === 0 ? '' : `[${responses.join(',')}]`;
}
