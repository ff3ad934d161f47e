import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { CLOCK_SYSVAR, SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { signTransaction } from '../../../src/chain/transactions/subscriptions.ts';
import { memo } from '../../../src/chain/transactions/system-instructions.ts';
import { stopClock } from '../../fixtures/clock.ts';
import {
  answer,
  type Behaviour,
  HANDLED,
  rpcError,
  startRpcServer,
} from '../../fixtures/rpc-server.ts';

const setup = (t: Test, ...behaviours: Behaviour[]) => setupWithin(60_000, t, ...behaviours);

async function setupWithin(timeoutMs: number, t: Test, ...behaviours: Behaviour[]) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  const log = pino({ level: 'silent' });
  const rpc = createRpc({
    urls: servers.map(({ url }) => url),
    timeoutMs,
    probeMs: Infinity,
    log,
  });
  t.teardown(async () => {
    await rpc.close();
    servers.forEach((server) => server.close());
  });
  return { rpc, servers, calls: servers[0]!.calls };
}

const wallets = (count: number) => Array.from({ length: count }, () => generateKeypair().address);
const account = (data: string, owner = SUBSCRIPTIONS_PROGRAM, lamports = 5) => ({
  data: [Buffer.from(data).toString('base64'), 'base64'],
  owner,
  lamports,
  executable: false,
  rentEpoch: 18446744073709552000,
  space: data.length,
});
const inContext = (slot: number, value: unknown) => ({
  context: { apiVersion: '2.2.0', slot },
  value,
});

void t.test(
  'accounts are returned in the requested order, in batches of 100, with the oldest slot',
  async (t) => {
    let slot = 1000;
    const { rpc, calls } = await setup(t, ({ params }) =>
      inContext(
        slot--,
        (params[0] as string[]).map((address) =>
          address === SYSTEM_PROGRAM ? null : account(address),
        ),
      ),
    );
    const addresses = wallets(250);
    addresses[130] = SYSTEM_PROGRAM;
    const { slot: oldest, accounts } = await rpc.getMultipleAccounts(addresses);
    t.equal(oldest, 998n);
    t.same(
      calls.map(({ params }) => (params[0] as string[]).length),
      [100, 100, 50],
    );
    t.same(calls[0]?.params[1], { commitment: 'confirmed', encoding: 'base64' });
    t.equal(accounts[130], null);
    t.same(
      accounts.map((one) => one?.data.toString() ?? SYSTEM_PROGRAM),
      addresses,
    );
    t.match(accounts[0], { owner: SUBSCRIPTIONS_PROGRAM, lamports: 5n });
    t.same(await rpc.getMultipleAccounts([]), { slot: 0n, accounts: [] });
    t.equal(calls.length, 3, 'nothing is asked for nothing');
  },
);

void t.test('a response older than minSlot is not used', async (t) => {
  const { rpc, servers } = await setup(
    t,
    () => inContext(99, [null]),
    () => inContext(100, [account('fresh')]),
  );
  const { slot, accounts } = await rpc.getMultipleAccounts(wallets(1), {
    minSlot: 100n,
    commitment: 'finalized',
  });
  t.equal(slot, 100n);
  t.equal(accounts[0]?.data.toString(), 'fresh');
  t.same(servers[0]!.calls[0]?.params[1], {
    commitment: 'finalized',
    encoding: 'base64',
    minContextSlot: 100,
  });
  servers[1]!.behave(() => inContext(99, [null]));
  await t.rejects(rpc.getMultipleAccounts(wallets(1), { minSlot: 100n }), {
    constructor: RpcUnreachable,
    message: /at slot 99, not yet at 100/,
  });
  t.equal(rpc.health()[0]?.failures, 0, 'being a slot behind is no sickness');
});

void t.test('a malformed response throws an endpoint failure, never a TypeError', async (t) => {
  const good = account('x');
  const wrong: unknown[] = [
    null,
    7,
    [],
    {},
    { context: {}, value: [good] },
    { context: { slot: 'x' }, value: [good] },
    { context: { slot: 1.5 }, value: [good] },
    inContext(1, null),
    inContext(1, []),
    inContext(1, [good, good]),
    inContext(1, [{ ...good, data: 'x' }]),
    inContext(1, [{ ...good, data: ['x', 'base58'] }]),
    inContext(1, [{ ...good, data: [7, 'base64'] }]),
    inContext(1, [{ ...good, owner: null }]),
    inContext(1, [{ ...good, lamports: '5' }]),
  ];
  let next: unknown;
  const { rpc } = await setup(t, () => next);
  const [address] = wallets(1);
  for (next of wrong) {
    const error: unknown = await rpc
      .getMultipleAccounts([address!])
      .catch((reason: unknown) => reason);
    t.ok(
      error instanceof RpcUnreachable && error.failures[0]?.fault === 'malformed',
      JSON.stringify(next),
    );
  }
});

void t.test('every method refuses a response of another shape', async (t) => {
  const { rpc } = await setup(t, () => ({ surprise: true }));
  const keeper = generateKeypair();
  const { bytes } = signTransaction(keeper, [memo('')], SYSTEM_PROGRAM);
  const methods: (() => Promise<unknown>)[] = [
    () => rpc.getClock(),
    () => rpc.getSignatureStatuses(['x']),
    () => rpc.sendTransaction(bytes),
    () => rpc.simulateTransaction(bytes),
    () => rpc.getLatestBlockhash(),
    () => rpc.getHeight(),
    () => rpc.getBlockHeight(),
    () => rpc.getSlot(),
    () => rpc.getBlockTime(1n),
    () => rpc.getSignaturesForAddress('x'),
    () => rpc.getBalance('x'),
    () => rpc.getGenesisHash(),
    () => rpc.getRecentPrioritizationFees([]),
    () => rpc.getMinimumBalanceForRentExemption(165),
    () => rpc.getFeeForMessage(bytes),
  ];
  for (const method of methods) {
    const error: unknown = await method().catch((reason: unknown) => reason);
    t.ok(
      error instanceof RpcUnreachable && error.failures[0]?.fault === 'malformed',
      method.toString(),
    );
  }
});

void t.test('the chain’s time is read from the Clock sysvar', async (t) => {
  const bytes = Buffer.alloc(40);
  bytes.writeBigUInt64LE(77n, 0);
  bytes.writeBigInt64LE(1_700_000_123n, 32);
  let value: unknown = [{ ...account(''), data: [bytes.toString('base64'), 'base64'] }];
  const { rpc, calls } = await setup(t, () => inContext(78, value));
  t.same(await rpc.getClock(), { slot: 77n, unixTimestamp: 1_700_000_123n });
  t.same(calls[0]?.params[0], [CLOCK_SYSVAR]);
  for (value of [[null], [account('short')]]) await t.rejects(rpc.getClock(), RpcUnreachable);
});

void t.test('signature statuses are read, and merged from several endpoints', async (t) => {
  const landed = { slot: 5, err: null, confirmationStatus: 'confirmed', confirmations: 3 };
  const failedOne = {
    slot: 6,
    err: { InstructionError: [2, { Custom: 400 }] },
    confirmationStatus: 'finalized',
    confirmations: null,
  };
  const old = { slot: 4, err: null, confirmations: null };
  const young = { slot: 4, err: null, confirmations: 2 };

  await t.test(
    'landed, failed, unknown and historical signatures have distinct statuses',
    async (t) => {
      const { rpc, calls } = await setup(t, () => inContext(50, [landed, failedOne, null, old]));
      t.same(await rpc.getSignatureStatuses(['a', 'b', 'c', 'd'], { history: true }), {
        slot: 50n,
        witnesses: 1,
        statuses: [
          { slot: 5n, err: null, commitment: 'confirmed' },
          { slot: 6n, err: failedOne.err, commitment: 'finalized' },
          null,
          { slot: 4n, err: null, commitment: 'finalized' },
        ],
      });
      t.same(calls[0]?.params, [['a', 'b', 'c', 'd'], { searchTransactionHistory: true }]);
    },
  );
  await t.test(
    'a status without a commitment is final only if its confirmations are null',
    async (t) => {
      const { rpc } = await setup(t, () => inContext(50, [old, young]));
      t.same(
        (await rpc.getSignatureStatuses(['a', 'b'])).statuses.map((status) => status?.commitment),
        ['finalized', 'processed'],
      );
    },
  );
  await t.test('a status request with more than 256 signatures is refused', async (t) => {
    const { rpc, calls } = await setup(t, ({ params }) =>
      inContext(
        1,
        (params[0] as string[]).map(() => null),
      ),
    );
    t.equal((await rpc.getSignatureStatuses(wallets(256))).statuses.length, 256);
    await t.rejects(rpc.getSignatureStatuses(wallets(257)), RangeError);
    t.same(await rpc.getSignatureStatuses([]), { slot: 0n, witnesses: 0, statuses: [] });
    t.equal(calls.length, 1);
  });
  await t.test(
    'statuses from all endpoints are those of the most advanced one, with the slot of the slowest',
    async (t) => {
      const { rpc } = await setupWithin(
        2000,
        t,
        () => inContext(50, [null, { ...landed, confirmationStatus: 'processed' }, null, landed]),
        () => inContext(48, [landed, landed, null, { ...landed, confirmationStatus: 'processed' }]),
        () => HANDLED,
      );
      const { slot, witnesses, statuses } = await rpc.getSignatureStatuses(['a', 'b', 'c', 'd'], {
        everywhere: true,
      });
      t.equal(slot, 48n);
      t.equal(witnesses, 2);
      t.same(
        statuses.map((status) => status?.commitment),
        ['confirmed', 'confirmed', undefined, 'confirmed'],
      );
    },
  );
  await t.test(
    'a final failure that only one of several endpoints reports is marked as uncertain',
    async (t) => {
      const final = { ...landed, confirmationStatus: 'finalized' };
      const doubted = { slot: 6n, err: failedOne.err, commitment: 'processed', isDoubted: true };
      const cases: [string, unknown[], unknown][] = [
        ['the only endpoint', [failedOne], { commitment: 'finalized', err: failedOne.err }],
        ['two report it', [failedOne, failedOne, null], { commitment: 'finalized' }],
        ['the others lack it', [failedOne, null, null], doubted],
        [
          'another shows a success',
          [failedOne, null, final],
          { commitment: 'finalized', err: null },
        ],
        [
          'another has it in a new block',
          [failedOne, { ...landed, confirmationStatus: 'processed' }],
          { commitment: 'processed', err: null },
        ],
      ];
      for (const [what, ofEach, expected] of cases)
        for (const everywhere of [false, true]) {
          const { rpc, calls } = await setup(t, ...ofEach.map((one) => () => inContext(50, [one])));
          const { statuses } = await rpc.getSignatureStatuses(['a'], { everywhere });
          t.match(statuses[0], expected, what);
          t.equal(statuses[0]?.isDoubted, expected === doubted ? true : undefined, what);
          if (!everywhere && ofEach.length > 1)
            t.match(calls.at(-1)?.params, [['a'], { searchTransactionHistory: true }]);
        }
      const { rpc, calls } = await setup(
        t,
        () => inContext(50, [final]),
        () => inContext(50, [null]),
      );
      await rpc.getSignatureStatuses(['a']);
      t.equal(calls.length, 1, 'a success is believed from one');
    },
  );
  await t.test(
    'statuses from an endpoint that has not reached the requested slot are ignored',
    async (t) => {
      const { rpc } = await setup(
        t,
        () => inContext(50, [null]),
        () => inContext(60, [landed]),
      );
      t.equal(
        (await rpc.getSignatureStatuses(['a'], { minSlot: 55n })).statuses[0]?.commitment,
        'confirmed',
      );
    },
  );
});

void t.test(
  'sendTransaction sends base64 with fixed options to every endpoint or to a chosen endpoint',
  async (t) => {
    const keeper = generateKeypair();
    const instruction = memo('a');
    const { bytes, signature } = signTransaction(keeper, [instruction], SYSTEM_PROGRAM);
    await t.test(
      'a transaction is sent to every endpoint, without preflight and retries by the node',
      async (t) => {
        const { rpc, servers } = await setup(
          t,
          () => signature,
          () => signature,
          () => HANDLED,
        );
        t.equal(await rpc.sendTransaction(bytes), signature);
        for (const { calls } of servers) {
          while (calls.length === 0) await new Promise(setImmediate);
          t.same(calls[0]?.params, [
            bytes.toString('base64'),
            { encoding: 'base64', skipPreflight: true, maxRetries: 0 },
          ]);
        }
      },
    );
    await t.test('a transaction is sent to one endpoint on request', async (t) => {
      const { rpc, servers } = await setup(
        t,
        () => signature,
        () => signature,
      );
      t.equal(await rpc.sendTransaction(bytes, { to: 'one' }), signature);
      t.same(
        servers.map(({ calls }) => calls.length),
        [1, 0],
      );
    });
    await t.test('a send fails if the endpoint returns another signature', async (t) => {
      const { rpc } = await setup(
        t,
        () => 'another',
        () => 'another',
      );
      await t.rejects(rpc.sendTransaction(bytes), {
        constructor: RpcUnreachable,
        message: /signature of another transaction/,
      });
    });
  },
);

void t.test('a simulation returns error, logs and compute units', async (t) => {
  const { rpc, calls } = await setup(t, () =>
    inContext(9, {
      err: { InstructionError: [2, { Custom: 1 }] },
      logs: ['a'],
      unitsConsumed: 1234,
      loadedAccountsDataSize: 5678,
    }),
  );
  t.same(await rpc.simulateTransaction(Buffer.from('x')), {
    err: { InstructionError: [2, { Custom: 1 }] },
    logs: ['a'],
    unitsConsumed: 1234n,
    loadedDataBytes: 5678n,
    slot: 9n,
  });
  t.same(calls[0]?.params[1], {
    encoding: 'base64',
    commitment: 'confirmed',
    sigVerify: false,
    replaceRecentBlockhash: true,
  });
  await rpc.simulateTransaction(Buffer.from('x'), { ownBlockhash: true });
  t.match(calls[1]?.params[1], { replaceRecentBlockhash: false });
});

void t.test(
  'a simulation result lacks compute units and loaded bytes if the endpoint does not report them',
  async (t) => {
    const { rpc } = await setup(t, () => inContext(9, { err: null, logs: null }));
    t.same(await rpc.simulateTransaction(Buffer.from('x')), {
      err: null,
      logs: [],
      unitsConsumed: null,
      loadedDataBytes: null,
      slot: 9n,
    });
  },
);

void t.test(
  'a blockhash is returned with its last valid block height and the current block height',
  async (t) => {
    const { rpc } = await setup(t, () =>
      inContext(9, { blockhash: SYSTEM_PROGRAM, lastValidBlockHeight: 3150 }),
    );
    t.same(await rpc.getLatestBlockhash(), {
      blockhash: SYSTEM_PROGRAM,
      lastValidBlockHeight: 3150n,
      blockHeight: 3000n,
      slot: 9n,
    });
  },
);

void t.test(
  'heights, times, balances, fees and histories are read from their responses',
  async (t) => {
    const responses: Record<string, unknown> = {
      getEpochInfo: { absoluteSlot: 20, blockHeight: 15, epoch: 0 },
      getBlockHeight: 15,
      getSlot: 20,
      getBlockTime: 1_700_000_000,
      getBalance: inContext(20, 5_000_000_000),
      getGenesisHash: 'hash',
      getRecentPrioritizationFees: [
        { slot: 1, prioritizationFee: 0 },
        { slot: 2, prioritizationFee: 500 },
      ],
      getMinimumBalanceForRentExemption: 2_039_280,
      getFeeForMessage: inContext(20, 5000),
      getSignaturesForAddress: [
        {
          signature: 's',
          slot: 3,
          err: null,
          blockTime: null,
          memo: null,
          confirmationStatus: 'confirmed',
        },
      ],
    };
    const { rpc, calls } = await setup(t, ({ method }) => responses[method]);
    t.same(await rpc.getHeight({ commitment: 'finalized' }), { slot: 20n, blockHeight: 15n });
    t.same(calls.at(-1)?.params, [{ commitment: 'finalized' }]);
    t.equal(await rpc.getBlockHeight({ commitment: 'finalized' }), 15n);
    t.equal(await rpc.getSlot(), 20n);
    t.equal(await rpc.getBlockTime(20n), 1_700_000_000n);
    t.same(calls.at(-1)?.params, [20]);
    t.equal(await rpc.getBalance('a'), 5_000_000_000n);
    t.equal(await rpc.getGenesisHash(), 'hash');
    t.same(await rpc.getRecentPrioritizationFees(['a']), [0n, 500n]);
    t.same(calls.at(-1)?.params, [['a']]);
    t.equal(await rpc.getMinimumBalanceForRentExemption(165), 2_039_280n);
    t.equal(await rpc.getFeeForMessage(Buffer.from('x')), 5000n);
    t.same(await rpc.getSignaturesForAddress('a', { until: 'u', limit: 10 }), [
      { signature: 's', slot: 3n, err: null, blockTime: null },
    ]);
    t.same(calls.at(-1)?.params, ['a', { commitment: 'confirmed', limit: 10, until: 'u' }]);
    Object.assign(responses, { getFeeForMessage: inContext(20, null), getBlockTime: null });
    t.equal(await rpc.getFeeForMessage(Buffer.from('x')), null);
    t.equal(await rpc.getBlockTime(1n), null);
  },
);

void t.test(
  'a transaction’s accounts are resolved to addresses, including those of lookup tables',
  async (t) => {
    const [payer, program, writable, readable] = wallets(4);
    const found = {
      slot: 8,
      blockTime: 1_700_000_000,
      version: 0,
      transaction: {
        signatures: ['sig'],
        message: {
          accountKeys: [payer, program],
          header: {},
          recentBlockhash: SYSTEM_PROGRAM,
          instructions: [{ programIdIndex: 1, accounts: [0, 2, 3], data: '2', stackHeight: null }],
        },
      },
      meta: {
        err: null,
        fee: 5000,
        logMessages: ['log'],
        loadedAddresses: { writable: [writable], readonly: [readable] },
        innerInstructions: [
          {
            index: 0,
            instructions: [{ programIdIndex: 3, accounts: [], data: '3', stackHeight: 2 }],
          },
        ],
      },
    };
    let result: unknown = found;
    const { rpc, calls } = await setup(t, () => result);
    t.same(await rpc.getTransaction('sig'), {
      signature: 'sig',
      blockhash: '11111111111111111111111111111111',
      slot: 8n,
      blockTime: 1_700_000_000n,
      err: null,
      fee: 5000n,
      logs: ['log'],
      instructions: [
        {
          programId: program,
          accounts: [payer, writable, readable],
          data: Buffer.from([1]),
          stackHeight: 1,
        },
      ],
      inner: new Map([
        [0, [{ programId: readable, accounts: [], data: Buffer.from([2]), stackHeight: 2 }]],
      ]),
    });
    t.same(calls[0]?.params, [
      'sig',
      { commitment: 'confirmed', encoding: 'json', maxSupportedTransactionVersion: 1 },
    ]);
    result = null;
    t.same(await rpc.getTransaction('sig'), { signature: 'sig', unreadable: 'missing' });
    result = {
      ...found,
      meta: {
        ...found.meta,
        err: 'AccountInUse',
        loadedAddresses: undefined,
        innerInstructions: null,
      },
    };
    t.same(await rpc.getTransaction('sig'), { signature: 'sig', unreadable: 'undecodable' });
    result = {
      ...found,
      meta: {
        ...found.meta,
        innerInstructions: [
          { index: 0, instructions: [{ programIdIndex: 0, accounts: [], data: '0' }] },
        ],
      },
    };
    t.same(await rpc.getTransaction('sig'), { signature: 'sig', unreadable: 'undecodable' });
    // A failed transaction may have cost nothing and have no logs (SIMD-0290).
    result = {
      ...found,
      version: 1,
      meta: { err: 'AccountInUse', fee: 0, loadedAddresses: found.meta.loadedAddresses },
    };
    t.match(await rpc.getTransaction('sig'), {
      err: 'AccountInUse',
      fee: 0n,
      logs: null,
      inner: new Map(),
    });
  },
);

void t.test(
  'a transaction or history that the first endpoint lacks is requested from the other endpoints',
  async (t) => {
    const info = (signature: string, slot: number) => ({
      signature,
      slot,
      err: null,
      blockTime: null,
    });
    const found = {
      slot: 8,
      blockTime: null,
      transaction: { signatures: ['sig'], message: { accountKeys: [], instructions: [] } },
      meta: { err: null, fee: 5000, logMessages: null, innerInstructions: [] },
    };
    const { rpc } = await setup(
      t,
      ({ method }) => (method === 'getTransaction' ? null : [info('c', 3), info('a', 1)]),
      ({ method }) => (method === 'getTransaction' ? found : [info('c', 3), info('b', 2)]),
    );
    t.match(await rpc.getTransaction('sig'), { slot: 8n });
    const signatures = async (everywhere: boolean) =>
      (await rpc.getSignaturesForAddress('x', { everywhere })).map(({ signature }) => signature);
    t.same(await signatures(true), ['c', 'b', 'a'], 'each once, newest first');
    const newest = await rpc.getSignaturesForAddress('x', { everywhere: true, limit: 2 });
    t.same(
      newest.map(({ signature }) => signature),
      ['c', 'b'],
      'what is older than a full list may have gaps, and is asked for with the next page',
    );
    t.equal((await signatures(false)).length, 2);
  },
);

void t.test(
  'merged histories show a transaction as successful, and its block time, if any endpoint does',
  async (t) => {
    const entry = (signature: string, err: unknown, blockTime: number | null) => ({
      signature,
      slot: 3,
      err,
      blockTime,
    });
    const { rpc } = await setup(
      t,
      () => [entry('a', 'x', null), entry('b', null, 7), entry('c', 'x', 7)],
      () => [entry('a', null, 7), entry('b', 'x', null), entry('c', 'x', 7)],
    );
    t.match(await rpc.getSignaturesForAddress('x', { everywhere: true }), [
      { signature: 'a', err: null, blockTime: 7n },
      { signature: 'b', err: null, blockTime: 7n },
      { signature: 'c', err: 'x', blockTime: 7n },
    ]);
  },
);

const TRANSACTION = {
  slot: 8,
  blockTime: null,
  version: 1,
  transaction: { signatures: ['sig'], message: { accountKeys: [], instructions: [] } },
  meta: { err: null, fee: 0, logMessages: null, innerInstructions: [] },
};

void t.test(
  'a transaction that none of the endpoints returns is reported as unreadable with the reason',
  async (t) => {
    const refused = [-32602, -32603, -32004, -32011, -32601, -32000].map(
      (code) => [rpcError(code, 'no'), 'refused'] as const,
    );
    const responses = [
      ...refused,
      [rpcError(-32015, 'Transaction version (2) is not supported'), 'version'],
      [null, 'missing'],
      [{ ...TRANSACTION, meta: null }, 'undecodable'],
      [{ ...TRANSACTION, transaction: 'base64' }, 'undecodable'],
    ] as const;
    for (const [given, unreadable] of responses) {
      const alone = await setup(t, () => given);
      t.same(await alone.rpc.getTransaction('sig'), { signature: 'sig', unreadable });
      t.match(alone.rpc.health(), [{ failures: 0, lastFault: null }]);
      const { rpc, calls } = await setup(
        t,
        () => given,
        () => TRANSACTION,
      );
      t.match(await rpc.getTransaction('sig'), { slot: 8n, fee: 0n, logs: null });
      t.equal(calls.length, 1, 'the good one is asked within the same read');
      t.match(rpc.health(), [{ failures: 0 }, { failures: 0 }]);
    }
    const worse = await setup(
      t,
      () => null,
      () => rpcError(-32015, 'no'),
    );
    t.match(await worse.rpc.getTransaction('sig'), { unreadable: 'version' });
  },
);

void t.test(
  'an endpoint that refuses requests for version 1 still returns other versions',
  async (t) => {
    const { rpc, calls } = await setup(t, ({ params }) => {
      const { maxSupportedTransactionVersion: most } = params[1] as Record<string, number>;
      return most === 0 ? TRANSACTION : rpcError(-32602, 'Invalid params');
    });
    t.match(await rpc.getTransaction('sig'), { slot: 8n });
    t.equal(calls.length, 2);
  },
);

void t.test(
  'a transaction is unknown if all endpoints are down; a dead endpoint does not delay the others',
  async (t) => {
    stopClock(t);
    const silence = () => HANDLED;
    const broken: Behaviour = (_seen, response) => answer(response, 'down', 502);
    const { rpc } = await setupWithin(2000, t, silence, broken);
    await t.rejects(rpc.getTransaction('sig'), RpcUnreachable);
    const {
      rpc: half,
      servers: [down],
    } = await setupWithin(2000, t, silence, () => null);
    t.match(await half.getTransaction('sig'), { unreadable: 'missing' }, 'both were asked');
    const asked = down!.calls.length;
    t.match(await half.getTransaction('sig'), { unreadable: 'missing' });
    t.equal(down!.calls.length, asked);
  },
);

void t.test(
  'every endpoint’s copy of a transaction is read, and URLs of one host count once',
  async (t) => {
    const copy = (blockTime: number) => ({ ...TRANSACTION, blockTime });
    const cases: [unknown, unknown, number[], number][] = [
      [copy(1), copy(2), [1, 2], 2],
      [copy(1), null, [1], 1],
      [{ ...copy(1), meta: null }, copy(2), [2], 1],
      [rpcError(-32011, 'no'), rpcError(-32603, 'no'), [], 0],
    ];
    for (const [one, other, times, witnesses] of cases) {
      const { rpc } = await setup(
        t,
        () => one,
        () => other,
      );
      const read = await rpc.getTransactionEverywhere('sig');
      t.same(
        read.copies.map(({ blockTime }) => Number(blockTime)),
        times,
      );
      t.equal(read.witnesses, witnesses);
    }
    const { rpc } = await setup(t, ({ params }) =>
      (params[1] as { maxSupportedTransactionVersion: number }).maxSupportedTransactionVersion === 1
        ? rpcError(-32602, 'Invalid params')
        : copy(1),
    );
    t.match(await rpc.getTransactionEverywhere('sig'), { witnesses: 1 }, 'an endpoint of old');
    const away = await setup(t, (_seen, response) => answer(response, '', 429));
    await t.rejects(away.rpc.getTransactionEverywhere('sig'), RpcUnreachable);
  },
);
