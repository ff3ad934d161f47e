// Faults of an RPC node, such as lost transactions and failing requests. Tests switch these faults
// on and off over RPC.
import { type ResponseFault, type Chain, type Faults, MAX_LAG, type RateLimit } from '../state.ts';
import {
  choice,
  integer,
  type LocalEndpoint,
  required,
  settings,
  type Settings,
} from './params.ts';
import { invalidParams } from './rpc-error.ts';

const MAX_HOLD = 100_000;
const MAX_HEIGHT = 1_000_000_000;

const countOf = (from: Settings) =>
  from['count'] === undefined ? Infinity : integer(from['count'], 'count', 1);

const endpointOf = (from: Settings) =>
  choice(from['endpoint'], 'endpoint', ['main', 'lagging', 'both'] as const, 'both');

function responseFault(from: Settings, status: ResponseFault['status']): ResponseFault {
  const methods = from['methods'];
  if (
    methods !== undefined &&
    (!Array.isArray(methods) || !methods.every((name) => typeof name === 'string'))
  ) {
    throw invalidParams('Invalid params: methods should be an array of method names');
  }
  return {
    status,
    retryAfter:
      from['retryAfter'] === undefined ? 1 : integer(from['retryAfter'], 'retryAfter', 0, 3600),
    methods: methods === undefined ? null : new Set(methods),
    endpoint: endpointOf(from),
    count: countOf(from),
  };
}

function rateLimit(from: Settings): RateLimit {
  const limit = (name: string) =>
    from[name] === undefined ? Infinity : integer(from[name], name, 0);
  const [sends, requests] = [limit('sends'), limit('requests')];
  if (sends === Infinity && requests === Infinity)
    throw invalidParams('Invalid params: give sends or requests, per second');
  const per = choice(from['per'], 'per', ['endpoint', 'connection'] as const, 'endpoint');
  return { sends, requests, per };
}

/**
 * localnet_setFault [{kind, ...}] switches a fault on. With `count`, the fault ends after this
 * number of requests, otherwise when the fault is cleared. Requests that call a surfnet_ or
 * localnet_ method are not affected. The faults are:
 * - `{kind: 'drop', count?}`: the node accepts transactions and never runs them.
 * - `{kind: 'hold', blocks, count?}`: transactions run `blocks` blocks later, if their blockhash is
 *   then still valid. Sending one again does not change that.
 * - `{kind: 'status', status: 429 | 500, count?, methods?, retryAfter?, endpoint?}`: requests get
 *   this HTTP status.
 * - `{kind: 'silence', count?, methods?, endpoint?}`: requests get no response.
 * - `{kind: 'rate', sends?, requests?, per?}`: a request gets the HTTP status 429 if more than
 *   `requests` requests, or `sends` sendTransaction requests, arrive per second. Each endpoint has
 *   its own limit. With `per: 'connection'`, each connection has its own limit.
 * - `{kind: 'lag', slots}`: the second endpoint shows a state that is `slots` blocks old. `slots`
 *   is a number from 0 to 160.
 * - `{kind: 'height', blocks, endpoint?}`: an endpoint adds `blocks`, which may be negative, to the
 *   block heights that it reports.
 */
function setFault(params: readonly unknown[], { chain }: LocalEndpoint) {
  const from = settings([required(params, 0)], 0);
  const { faults } = chain;
  switch (
    choice(
      from['kind'],
      'kind',
      ['drop', 'hold', 'status', 'silence', 'rate', 'lag', 'height', ''] as const,
      '',
    )
  ) {
    case 'drop':
      faults.drop = countOf(from);
      break;
    case 'hold':
      faults.hold = {
        blocks: integer(from['blocks'], 'blocks', 1, MAX_HOLD),
        count: countOf(from),
      };
      break;
    case 'status': {
      const status = integer(from['status'], 'status', 429, 500);
      if (status !== 429 && status !== 500)
        throw invalidParams('Invalid params: status should be 429 or 500');
      faults.responses.push(responseFault(from, status));
      break;
    }
    case 'silence':
      faults.responses.push(responseFault(from, null));
      break;
    case 'rate':
      faults.rate = rateLimit(from);
      break;
    case 'lag':
      faults.lag = integer(from['slots'], 'slots', 0, MAX_LAG);
      break;
    case 'height':
      faults.height = {
        blocks: integer(from['blocks'], 'blocks', -MAX_HEIGHT, MAX_HEIGHT),
        endpoint: endpointOf(from),
      };
      break;
    case '':
      throw invalidParams(
        'Invalid params: kind should be one of drop, hold, status, silence, rate, lag, height',
      );
  }
  return null;
}

/**
 * Ends every fault. Transactions that the fault 'hold' delayed remain delayed. Connections that got
 * no response because of the fault 'silence' are closed.
 */
export function clearFaults(chain: Chain): void {
  Object.assign(chain.faults, {
    drop: 0,
    hold: null,
    lag: 0,
    height: null,
    rate: null,
    responses: [],
  } satisfies Faults);
  chain.events.emit('faultsCleared');
}

const isAt = ({ endpoint }: Pick<ResponseFault, 'endpoint'>, lagging: boolean) =>
  endpoint === 'both' || (endpoint === 'lagging') === lagging;

/**
 * Returns the block height that an endpoint reports when the true height is `height`. The reported
 * height differs only while the fault 'height' is on.
 */
export function reportedHeight({ chain, lagging }: LocalEndpoint, height: number): number {
  const fault = chain.faults.height;
  return fault !== null && isAt(fault, lagging) ? Math.max(0, height + fault.blocks) : height;
}

/**
 * Returns the first fault that applies to a request with these methods, and decrements the fault's
 * remaining count. Returns undefined if no fault applies.
 */
export function responseFaultFor(
  { chain, lagging }: LocalEndpoint,
  methodsOf: () => readonly string[],
): ResponseFault | undefined {
  const { faults } = chain;
  if (faults.responses.length === 0) return undefined;
  const methods = methodsOf();
  if (methods.some((name) => name.startsWith('localnet_') || name.startsWith('surfnet_')))
    return undefined;
  const found = faults.responses.find(
    (fault) =>
      isAt(fault, lagging) &&
      (fault.methods === null || methods.some((name) => fault.methods?.has(name))),
  );
  if (found === undefined) return undefined;
  found.count -= 1;
  faults.responses = faults.responses.filter(({ count }) => count > 0);
  return found;
}

export const faultMethods = {
  localnet_setFault: setFault,
  localnet_clearFaults: (_: readonly unknown[], { chain }: LocalEndpoint) => {
    clearFaults(chain);
    return null;
  },
};
