import t from 'tap';
import { EndpointFailure, RpcError, RpcUnreachable } from '../../../src/chain/rpc/errors.ts';

void t.test(
  'an RpcError message names the endpoint and the method, and the error has the response’s data',
  (t) => {
    const data = { err: 'AccountNotFound', logs: [] };
    const error = new RpcError(
      'https://rpc.example',
      'sendTransaction',
      -32002,
      'Transaction simulation failed',
      data,
    );
    t.equal(
      error.message,
      'https://rpc.example refused sendTransaction: Transaction simulation failed (-32002)',
    );
    t.equal(error.name, 'RpcError');
    t.equal(error.data, data);
    t.end();
  },
);

void t.test(
  'RpcUnreachable lists each endpoint’s failure in request order, in its message and as data',
  (t) => {
    const cause = new Error('connect ECONNREFUSED');
    const failures = [
      new EndpointFailure('timeout', 'no response within 10000 ms', {
        endpoint: 'https://one.example',
      }),
      new EndpointFailure('rate_limited', 'too many requests (429)', {
        endpoint: 'https://two.example',
        pauseMs: 500,
      }),
      new EndpointFailure('unreachable', 'refused', { endpoint: 'https://three.example', cause }),
    ];
    const outage = new RpcUnreachable('getSlot', failures);
    t.equal(
      outage.message,
      'no Solana RPC endpoint answered getSlot: https://one.example: no response within 10000 ms; ' +
        'https://two.example: too many requests (429); https://three.example: refused',
    );
    t.same(
      outage.failures.map(({ endpoint, fault }) => [endpoint, fault]),
      [
        ['https://one.example', 'timeout'],
        ['https://two.example', 'rate_limited'],
        ['https://three.example', 'unreachable'],
      ],
    );
    t.equal(failures[1]?.pauseMs, 500);
    t.equal(failures[2]?.cause, cause);
    t.end();
  },
);
