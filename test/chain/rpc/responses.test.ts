// Responses of nodes are either decoded or refused as a fault of the endpoint: never a TypeError,
// never a value of another type.
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { EndpointFailure } from '../../../src/chain/rpc/errors.ts';
import * as responses from '../../../src/chain/rpc/responses.ts';

const readers: Record<string, (value: unknown) => unknown> = {
  object: (value) => responses.object(value, 'it'),
  array: (value) => responses.array(value, 'it'),
  text: (value) => responses.text(value, 'it'),
  integer: (value) => responses.integer(value, 'it'),
  big: (value) => responses.big(value, 'it'),
  account: responses.account,
  accounts: (value) => responses.accounts(value, 2),
  statuses: (value) => responses.statuses(value, 2),
  signatureInfos: responses.signatureInfos,
  confirmedTransaction: responses.confirmedTransaction,
  simulation: responses.simulation,
  inContext: (value) => responses.inContext(value, 5n, (inner) => inner),
};

/** A transaction as a node sends it; each part can be replaced. */
const transaction = (replaced: Record<string, unknown> = {}) => ({
  slot: 9,
  blockTime: 1_800_000_000,
  transaction: {
    signatures: ['first', 'second'],
    message: {
      accountKeys: ['payer', 'program'],
      instructions: [{ programIdIndex: 1, accounts: [0, 2, 3], data: bs58.encode([1, 2, 3]) }],
    },
  },
  meta: {
    err: null,
    fee: 5000,
    logMessages: ['log'],
    loadedAddresses: { writable: ['of a table, writable'], readonly: ['of a table'] },
    innerInstructions: [
      { index: 0, instructions: [{ programIdIndex: 3, accounts: [1], data: '', stackHeight: 2 }] },
    ],
  },
  ...replaced,
});

const samples: Record<string, unknown> = {
  account: { owner: 'x', lamports: 1, data: ['aGk=', 'base64'] },
  accounts: [null, { owner: 'x', lamports: 1, data: ['aGk=', 'base64'] }],
  statuses: [null, { slot: 1, err: null, confirmations: null, confirmationStatus: 'finalized' }],
  signatureInfos: [{ signature: 's', slot: 1, err: null, blockTime: null }],
  confirmedTransaction: transaction(),
  simulation: { err: null, logs: ['a'], unitsConsumed: 5 },
  inContext: { context: { slot: 7 }, value: 1 },
};

/** A copy in which one part, anywhere, is another value. */
function corrupted(value: unknown, path: number[], by: unknown): unknown {
  const [at, ...rest] = path;
  if (at === undefined || typeof value !== 'object' || value === null) return by;
  const keys = Object.keys(value);
  const key = keys[at % Math.max(1, keys.length)];
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...value }) as Record<
    string,
    unknown
  >;
  copy[key] = corrupted(copy[key], rest, by);
  return copy;
}

const isFault = (run: () => unknown) => {
  try {
    run();
    return true;
  } catch (error) {
    return (
      error instanceof EndpointFailure && (error.fault === 'malformed' || error.fault === 'behind')
    );
  }
};

void t.test('random responses are either parsed or thrown as an endpoint failure', async (t) => {
  for (const [name, read] of Object.entries(readers)) {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => isFault(() => read(value))),
      { numRuns: 200 },
    );
    const sample = samples[name];
    if (sample === undefined) continue;
    t.doesNotThrow(() => read(sample), name);
    fc.assert(
      fc.property(
        fc.array(fc.nat(20), { maxLength: 6 }),
        fc.jsonValue({ maxDepth: 1 }),
        (path, by) => isFault(() => read(corrupted(sample, path, by))),
      ),
      { numRuns: 500 },
    );
  }
});

void t.test(
  'a response with an older slot than requested marks the endpoint as behind',
  async (t) => {
    const at = (slot: number, minSlot?: bigint) =>
      responses.inContext({ context: { slot }, value: 'x' }, minSlot, (value) => value);
    t.same(at(5), { slot: 5n, value: 'x' });
    t.same(at(5, 5n), { slot: 5n, value: 'x' });
    t.throws(() => at(4, 5n), { fault: 'behind', message: 'at slot 4, not yet at 5' });
  },
);

void t.test(
  'a response must contain as many accounts and statuses as were requested',
  async (t) => {
    t.throws(() => responses.accounts([null], 2), {
      fault: 'malformed',
      message: /1 accounts instead of 2/,
    });
    t.throws(() => responses.statuses([null, null, null], 2), {
      fault: 'malformed',
      message: /3 statuses instead of 2/,
    });
    t.throws(() => responses.account({ owner: 'x', lamports: 1, data: ['hi', 'base58'] }), {
      message: /not base64/,
    });
  },
);

void t.test('a status gets a commitment even if the node omits confirmationStatus', async (t) => {
  const commitmentOf = (status: Record<string, unknown>) =>
    responses.statuses([{ slot: 1, err: null, ...status }], 1)[0]?.commitment;
  for (const commitment of ['processed', 'confirmed', 'finalized'])
    t.equal(commitmentOf({ confirmations: 3, confirmationStatus: commitment }), commitment);
  t.equal(commitmentOf({ confirmations: 12 }), 'processed', 'never taken for more than is certain');
  t.equal(commitmentOf({ confirmations: null }), 'finalized', 'rooted has no count');
  t.equal(commitmentOf({ confirmations: 5, confirmationStatus: null }), 'processed');
  t.throws(() => commitmentOf({ confirmationStatus: 'rooted' }), {
    fault: 'malformed',
    message: /./,
  });
  t.throws(
    () => commitmentOf({}),
    { fault: 'malformed', message: /./ },
    'a status without both is not final',
  );
  t.throws(() => commitmentOf({ confirmationStatus: null }), { fault: 'malformed', message: /./ });
});

void t.test('a transaction without an `err` field is malformed, not successful', async (t) => {
  const status = { slot: 1, confirmations: null, confirmationStatus: 'finalized' };
  const info = { signature: 's', slot: 1, blockTime: null };
  const meta = { fee: 5000, innerInstructions: [] };
  const malformed = { fault: 'malformed', message: /./ };
  t.throws(() => responses.statuses([status], 1), malformed);
  t.throws(() => responses.signatureInfos([info]), malformed);
  t.throws(() => responses.confirmedTransaction(transaction({ meta })), malformed);
  t.throws(() => responses.simulation({ logs: [] }), malformed);
  t.equal(responses.statuses([{ ...status, err: null }], 1)[0]?.err, null);
});

void t.test('a successful transaction without inner instructions data is malformed', async (t) => {
  for (const innerInstructions of [null, undefined])
    t.throws(
      () =>
        responses.readableTransaction(
          transaction({ meta: { err: null, fee: 5000, innerInstructions } }),
        ),
      { fault: 'undecodable', message: /./ },
      'its pulls would be missed',
    );
});

void t.test(
  'account keys are ordered: static keys, then writable keys of lookup tables, then read-only keys',
  async (t) => {
    const found = responses.confirmedTransaction(transaction());
    t.match(found, {
      signature: 'first',
      slot: 9n,
      blockTime: 1_800_000_000n,
      fee: 5000n,
      err: null,
      logs: ['log'],
    });
    t.same(found.instructions, [
      {
        programId: 'program',
        accounts: ['payer', 'of a table, writable', 'of a table'],
        data: Buffer.from([1, 2, 3]),
        stackHeight: 1,
      },
    ]);
    t.same(
      [...found.inner],
      [
        [
          0,
          [
            {
              programId: 'of a table',
              accounts: ['program'],
              data: Buffer.alloc(0),
              stackHeight: 2,
            },
          ],
        ],
      ],
    );
    t.throws(
      () => responses.readableTransaction(null),
      new EndpointFailure('missing', 'it does not have the transaction'),
    );
    t.throws(() => responses.readableTransaction({ slot: 1 }), { message: /another shape/ });
    const meta = { err: { InstructionError: [0, { Custom: 1 }] }, fee: 5000 };
    t.match(
      responses.confirmedTransaction(
        transaction({
          blockTime: null,
          meta,
          transaction: { signatures: ['s'], message: { accountKeys: ['p'], instructions: [] } },
        }),
      ),
      {
        blockTime: null,
        err: meta.err,
        logs: null,
      },
    );
  },
);
