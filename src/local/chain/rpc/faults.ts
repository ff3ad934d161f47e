// Faults that tests switch on over RPC; all start switched off.
import { type AnswerFault, type Chain, MAX_LAG, type RateLimit } from '../state.ts';
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

function answerFault(from: Settings, status: AnswerFault['status']): AnswerFault {
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
 * localnet_setFault [{kind, ...}]; each lasts until its count is used up, or until it is cleared:
 * - `{kind: 'drop', count?}` accepts that many transactions and never runs them;
 * - `{kind: 'hold', blocks, count?}` runs them this number of blocks later, if their blockhash is
 *   still valid then;
 * - `{kind: 'status', status: 429 | 500, count?, methods?, retryAfter?, endpoint?}` answers
 *   requests with that HTTP status;
 * - `{kind: 'silence', count?, methods?, endpoint?}` does not answer them at all;
 * - `{kind: 'rate', sends?, requests?, per?}` responds with 429 above these rates of sends and
 *   requests per second, counted for the whole
 *   endpoint or, with per: 'connection', for each connection;
 * - `{kind: 'lag', slots}` sets the lagging endpoint back by that many blocks (0..160);
 * - `{kind: 'height', blocks, endpoint?}` tells block heights this much too high, or too low where
 *   it is negative. Requests of the surfnet_ and localnet_ methods always get through.
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
      faults.answers.push(answerFault(from, status));
      break;
    }
    case 'silence':
      faults.answers.push(answerFault(from, null));
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
 * Clears every fault. Held transactions keep waiting; connections of requests without a response
 * are closed.
 */
export function clearFaults(chain: Chain): void {
  Object.assign(chain.faults, {
    drop: 0,
    hold: null,
    lag: 0,
    height: null,
    rate: null,
    answers: [],
  });
  chain.events.emit('faultsCleared');
}

const isAt = ({ endpoint }: Pick<AnswerFault, 'endpoint'>, lagging: boolean) =>
  endpoint === 'both' || (endpoint === 'lagging') === lagging;

/** The block height that an endpoint tells in place of this one. */
export function toldHeight({ chain, lagging }: LocalEndpoint, height: number): number {
  const fault = chain.faults.height;
  return fault !== null && isAt(fault, lagging) ? Math.max(0, height + fault.blocks) : height;
}

/** The fault that a request of these methods meets, counted down, or undefined. */
export function answerFaultFor(
  { chain, lagging }: LocalEndpoint,
  methodsOf: () => readonly string[],
): AnswerFault | undefined {
  const { faults } = chain;
  if (faults.answers.length === 0) return undefined;
  const methods = methodsOf();
  if (methods.some((name) => name.startsWith('localnet_') || name.startsWith('surfnet_')))
    return undefined;
  const found = faults.answers.find(
    (fault) =>
      isAt(fault, lagging) &&
      (fault.methods === null || methods.some((name) => fault.methods?.has(name))),
  );
  if (found === undefined) return undefined;
  found.count -= 1;
  faults.answers = faults.answers.filter(({ count }) => count > 0);
  return found;
}

/** The methods that set faults, by name. */
export const faultMethods = {
  localnet_setFault: setFault,
  localnet_clearFaults: (_: readonly unknown[], { chain }: LocalEndpoint) => {
    clearFaults(chain);
    return null;
  },
};
