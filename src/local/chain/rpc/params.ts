// Reads the parameters of a request as a validator does. The positional parameters come first, then
// an object of settings.
import { type Commitment, blockAt, heightOf } from '../accounts.ts';
import { type Key, parseBase58 } from '../keys.ts';
import type { Block, Chain } from '../state.ts';
import { invalidParams, RpcError } from './rpc-error.ts';

/**
 * An HTTP endpoint of the chain. `lagging` is true for the second endpoint, which the fault 'lag'
 * puts some blocks behind the main endpoint.
 */
export interface LocalEndpoint {
  readonly chain: Chain;
  readonly lagging: boolean;
}

/** The settings object of a request. Its values are not validated yet. */
export type Settings = Readonly<Record<string, unknown>>;

/**
 * Returns the parameter at `index`. Throws -32602 (invalid params) when the parameter is missing.
 */
export function required(params: readonly unknown[], index: number): unknown {
  const value = params[index];
  if (value === undefined || value === null)
    throw invalidParams(`\`params\` should have at least ${index + 1} argument(s)`);
  return value;
}

/**
 * Returns the settings object at `index`, or an empty object when the parameter is missing. Throws
 * -32602 when the parameter is not an object.
 */
export function settings(params: readonly unknown[], index: number): Settings {
  const value = params[index];
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value))
    throw invalidParams(`Invalid params: parameter ${index + 1} should be an object`);
  return value as Settings;
}

/** Reads a public key from Base58 text. Throws -32602 for any other value. */
export function publicKey(value: unknown): Key {
  if (typeof value !== 'string')
    throw invalidParams('Invalid params: invalid type, expected a string');
  return base58Of(value, 32);
}

/** Reads a signature from Base58 text. Throws -32602 for any other value. */
export function signature(value: unknown): Key {
  if (typeof value !== 'string')
    throw invalidParams('Invalid params: invalid type, expected a string');
  return base58Of(value, 64);
}

function base58Of(text: string, length: number): Key {
  const key = parseBase58(text, length);
  if (key !== undefined) return key;
  throw invalidParams(
    /^[1-9A-HJ-NP-Za-km-z]+$/.test(text) ? 'Invalid param: WrongSize' : 'Invalid param: Invalid',
  );
}

/**
 * Reads a whole number from `min` to `max`. Throws -32602 with the parameter's name for any other
 * value.
 */
export function integer(
  value: unknown,
  name: string,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max) {
    throw invalidParams(`Invalid params: ${name} should be an integer from ${min} to ${max}`);
  }
  return value;
}

/**
 * Reads a u64 from a JSON number up to 2^53 - 1 or from a string of digits. Throws -32602 with the
 * parameter's name for any other value.
 */
export function u64(value: unknown, name: string): bigint {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) {
    const number = BigInt(value);
    if (number < 2n ** 64n) return number;
  }
  throw invalidParams(
    `Invalid params: ${name} should be a u64: a JSON number up to 2^53 - 1, or a string of digits`,
  );
}

/**
 * Reads a boolean. Returns `fallback` when the parameter is missing. Throws -32602 with the
 * parameter's name for any other value.
 */
export function flag(value: unknown, name: string, fallback: boolean): boolean {
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'boolean')
    throw invalidParams(`Invalid params: ${name} should be true or false`);
  return value;
}

/**
 * Reads one of the words in `options`. Returns `fallback` when the parameter is missing. Throws
 * -32602 with the parameter's name for any other value.
 */
export function choice<T extends string>(
  value: unknown,
  name: string,
  options: readonly T[],
  fallback: T,
): T {
  if (value === undefined || value === null) return fallback;
  const found = options.find((option) => option === value);
  if (found === undefined) {
    throw invalidParams(
      `Invalid params: unknown variant ${JSON.stringify(value)} of ${name}, expected one of ${options.join(', ')}`,
    );
  }
  return found;
}

const COMMITMENTS = ['processed', 'confirmed', 'finalized'] as const;

/** Reads the commitment from a settings object. The default is finalized. */
export function commitmentOf(from: Settings): Commitment {
  return choice(from['commitment'], 'commitment', COMMITMENTS, 'finalized');
}

/**
 * The state that a request reads: the state at the end of `block`, whose height is `height`.
 * `context` is part of the response.
 */
export interface View {
  readonly block: Block;
  readonly height: number;
  readonly context: { readonly apiVersion: string; readonly slot: number };
}

/** The Agave release that the chain reports to clients. Responses have the form of this release. */
export const API_VERSION = '3.1.0';

/**
 * Returns the newest state that an endpoint shows at a commitment. The lagging endpoint shows an
 * older state while the fault 'lag' is on.
 */
export function viewAt({ chain, lagging }: LocalEndpoint, commitment: Commitment): View {
  const height = heightOf(chain, commitment, lagging ? chain.faults.lag : 0);
  const block = blockAt(chain, height);
  if (block === undefined) throw new Error(`the block at height ${height} is not kept`);
  return { block, height, context: { apiVersion: API_VERSION, slot: block.slot } };
}

/**
 * Returns the state at the commitment in a request's settings object. Throws -32016 when the slot
 * of that state is below the setting minContextSlot. Throws -32602 for invalid settings.
 */
export function viewOf(endpoint: LocalEndpoint, from: Settings): View {
  const view = viewAt(endpoint, commitmentOf(from));
  const least = from['minContextSlot'];
  if (
    least !== undefined &&
    least !== null &&
    integer(least, 'minContextSlot', 0) > view.block.slot
  ) {
    throw new RpcError(-32016, 'Minimum context slot has not been reached', {
      contextSlot: view.block.slot,
    });
  }
  return view;
}

/**
 * Returns the state that a request reads, for methods that do not support the commitment
 * `processed`. Throws -32602 if the request asks for `processed`.
 */
export function confirmedViewOf(endpoint: LocalEndpoint, from: Settings): View {
  if (commitmentOf(from) === 'processed')
    throw invalidParams('Method does not support commitment below `confirmed`');
  return viewOf(endpoint, from);
}
