// Faults activated over RPC have their documented effect, and requests succeed while none is
// active.
import { Keypair, type PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import type { LocalnetOptions } from '../../../../src/local/chain/start.ts';
import { BLOCKHASH_AGE, FINALITY_BLOCKS, MAX_LAG } from '../../../../src/local/chain/state.ts';
import {
  call,
  post,
  type RpcFailure,
  startTestChain,
  type TestChain,
  type Wallet,
} from '../../../fixtures/localnet.ts';

interface Sent {
  text: string;
  signature: string;
}

const latestHash = (chain: TestChain) =>
  chain
    .rpc<{ value: { blockhash: string } }>('getLatestBlockhash', { commitment: 'confirmed' })
    .then(({ value }) => value.blockhash);

function signedTransfer(from: Wallet, to: PublicKey, lamports: number, blockhash: string): Sent {
  const transaction = new Transaction({
    feePayer: from.keypair.publicKey,
    blockhash,
    lastValidBlockHeight: 0,
  });
  transaction.add(
    SystemProgram.transfer({ fromPubkey: from.keypair.publicKey, toPubkey: to, lamports }),
  );
  transaction.sign(from.keypair);
  return {
    text: transaction.serialize().toString('base64'),
    signature: bs58.encode(transaction.signature ?? new Uint8Array()),
  };
}

const send = (chain: TestChain, { text }: Sent, settings: object = {}) =>
  chain.rpc<string>('sendTransaction', text, {
    encoding: 'base64',
    preflightCommitment: 'confirmed',
    ...settings,
  });

const statusOf = (chain: TestChain, { signature }: Sent, url = chain.rpcUrl) =>
  call<{ value: ({ slot: number } | null)[] }>(url, 'getSignatureStatuses', [signature], {
    searchTransactionHistory: true,
  }).then(({ value }) => value[0]);

const balanceOf = (
  chain: TestChain,
  key: PublicKey,
  commitment = 'processed',
  url = chain.rpcUrl,
) =>
  call<{ value: number }>(url, 'getBalance', key.toBase58(), { commitment }).then(
    ({ value }) => value,
  );

const fault = (chain: TestChain, settings: object) => chain.rpc('localnet_setFault', settings);
const clear = (chain: TestChain) => chain.rpc('localnet_clearFaults');
const bodyOf = (...methods: string[]) =>
  JSON.stringify(methods.map((method, id) => ({ jsonrpc: '2.0', id, method })));

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error as RpcFailure,
  );

async function setup(t: Test, options: LocalnetOptions = {}) {
  const chain = await startTestChain(t, { blockMs: 0, ...options });
  const payer = chain.wallet();
  chain.mineBlocks();
  const stranger = Keypair.generate().publicKey;
  const blockhash = await latestHash(chain);
  return {
    chain,
    payer,
    stranger,
    blockhash,
    transfer: (lamports: number) => signedTransfer(payer, stranger, lamports, blockhash),
  };
}

void t.test(
  'without faults transactions run at once, requests are answered, and the second port is up to date',
  async (t) => {
    const { chain, stranger, transfer } = await setup(t, { lagPort: 0 });
    for (let lamports = 1_000_000; lamports < 1_000_020; lamports += 1)
      await send(chain, transfer(lamports));
    t.equal(await balanceOf(chain, stranger), 20_000_190);
    for (const url of [chain.rpcUrl, chain.lagUrl ?? '']) {
      for (let request = 0; request < 20; request += 1)
        t.equal((await post(url, bodyOf('getHealth'))).status, 200);
      t.equal(await call(url, 'getSlot', { commitment: 'processed' }), chain.slot());
    }
  },
);

void t.test('the fault "drop" discards the next transactions silently', async (t) => {
  const { chain, stranger, transfer } = await setup(t);
  await fault(chain, { kind: 'drop', count: 2 });
  const [first, second, third] = [transfer(1_000_000), transfer(2_000_000), transfer(4_000_000)];
  for (const sent of [first, second, third]) t.equal(await send(chain, sent), sent.signature);
  chain.mineBlocks(5);
  t.strictSame(await Promise.all([first, second].map((sent) => statusOf(chain, sent))), [
    null,
    null,
  ]);
  t.ok(await statusOf(chain, third));
  t.equal(await balanceOf(chain, stranger), 4_000_000);
  t.equal(await send(chain, first), first.signature, 'the same bytes can still land');
  t.equal(await balanceOf(chain, stranger), 5_000_000);
});

void t.test(
  'the fault "drop" without a count lasts until it is cleared, and preflight still reports failures',
  async (t) => {
    const { chain, stranger, transfer } = await setup(t);
    await fault(chain, { kind: 'drop' });
    for (let lamports = 1_000_000; lamports < 1_000_010; lamports += 1)
      await send(chain, transfer(lamports), { skipPreflight: true });
    t.match(await failure(send(chain, transfer(20_000_000_000))), {
      code: -32002,
      data: { err: { InstructionError: [0, { Custom: 1 }] } },
    });
    chain.mineBlocks();
    t.equal(await balanceOf(chain, stranger), 0);
    await clear(chain);
    await send(chain, transfer(3_000_000));
    t.equal(await balanceOf(chain, stranger), 3_000_000);
  },
);

void t.test(
  'the fault "hold" runs a transaction once, the given number of blocks later',
  async (t) => {
    const { chain, stranger, transfer } = await setup(t);
    await fault(chain, { kind: 'hold', blocks: 3, count: 1 });
    const [held, other] = [transfer(1_000_000), transfer(2_000_000)];
    const slot = chain.slot();
    t.equal(await send(chain, held), held.signature);
    await send(chain, other);
    t.equal((await statusOf(chain, other))?.slot, slot, 'the one after it is not held');
    chain.mineBlocks(2);
    t.equal(await send(chain, held), held.signature, 'sent again');
    t.equal(await statusOf(chain, held), null);
    t.equal(await balanceOf(chain, stranger), 2_000_000);
    chain.mineBlocks();
    t.equal((await statusOf(chain, held))?.slot, slot + 3);
    chain.mineBlocks(5);
    t.equal(await balanceOf(chain, stranger), 3_000_000);
  },
);

void t.test(
  'a transaction held until its blockhash expires never lands, even if the faults are cleared',
  async (t) => {
    const { chain, stranger, transfer } = await setup(t);
    const [late, inTime] = [transfer(1_000_000), transfer(2_000_000)];
    await fault(chain, { kind: 'hold', blocks: BLOCKHASH_AGE, count: 1 });
    await send(chain, late);
    await fault(chain, { kind: 'hold', blocks: BLOCKHASH_AGE - 1 });
    await send(chain, inTime);
    await clear(chain);
    t.equal(await statusOf(chain, inTime), null);
    chain.mineBlocks(BLOCKHASH_AGE + 5);
    t.ok(await statusOf(chain, inTime));
    t.equal(await statusOf(chain, late), null);
    t.equal(await balanceOf(chain, stranger), 2_000_000);
  },
);

void t.test(
  'faults of status 429 and 500 apply to the given number of requests, in the order they were set',
  async (t) => {
    const { chain } = await setup(t);
    await fault(chain, { kind: 'status', status: 429, count: 2, retryAfter: 7 });
    await fault(chain, { kind: 'status', status: 500, count: 1 });
    const answers = [];
    for (let request = 0; request < 5; request += 1)
      answers.push(await post(chain.rpcUrl, bodyOf('getHealth')));
    t.strictSame(
      answers.map(({ status, headers }) => [status, headers.get('retry-after')]),
      [
        [429, '7'],
        [429, '7'],
        [500, null],
        [200, null],
        [200, null],
      ],
    );
  },
);

void t.test('a refused request has no effect', async (t) => {
  const { chain, stranger, transfer } = await setup(t);
  const { text } = transfer(1_000_000);
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'sendTransaction',
    params: [text, { encoding: 'base64', skipPreflight: true }],
  });
  await fault(chain, { kind: 'status', status: 500, count: 1 });
  t.equal((await post(chain.rpcUrl, body)).status, 500);
  t.equal(await balanceOf(chain, stranger), 0);
  t.equal((await post(chain.rpcUrl, body)).status, 200);
  t.equal(await balanceOf(chain, stranger), 1_000_000);
});

void t.test(
  'a status fault without a count lasts until it is cleared, and never affects cheatcodes',
  async (t) => {
    const { chain } = await setup(t);
    await fault(chain, { kind: 'status', status: 429 });
    for (let request = 0; request < 10; request += 1) {
      const { status, headers } = await post(chain.rpcUrl, bodyOf('getHealth'));
      t.strictSame([status, headers.get('retry-after')], [429, '1']);
    }
    t.type(await chain.rpc('localnet_mineBlocks'), 'number');
    t.type(await chain.rpc('surfnet_timeTravel', { absoluteSlot: chain.slot() + 5 }), 'object');
    await clear(chain);
    t.equal((await post(chain.rpcUrl, bodyOf('getHealth'))).status, 200);
  },
);

void t.test(
  'a response fault can be limited to methods, for single requests and in a batch',
  async (t) => {
    const { chain } = await setup(t);
    await fault(chain, {
      kind: 'status',
      status: 500,
      count: 2,
      methods: ['getSlot', 'getVersion'],
    });
    const statusOfBody = async (...methods: string[]) =>
      (await post(chain.rpcUrl, bodyOf(...methods))).status;
    t.equal(await statusOfBody('getHealth'), 200);
    t.equal(await statusOfBody('getHealth', 'getSlot'), 500);
    t.equal(await statusOfBody('getBlockHeight'), 200);
    t.equal(await statusOfBody('getVersion'), 500);
    t.equal(await statusOfBody('getSlot'), 200);
  },
);

void t.test('a response fault can be limited to one port', async (t) => {
  const { chain } = await setup(t, { lagPort: 0 });
  const statuses = async () =>
    Promise.all(
      [chain.rpcUrl, chain.lagUrl ?? ''].map(
        async (url) => (await post(url, bodyOf('getHealth'))).status,
      ),
    );
  await fault(chain, { kind: 'status', status: 500, endpoint: 'main' });
  t.strictSame(await statuses(), [500, 200]);
  await clear(chain);
  await fault(chain, { kind: 'status', status: 429, endpoint: 'lagging' });
  t.strictSame(await statuses(), [200, 429]);
  await clear(chain);
  await fault(chain, { kind: 'status', status: 429 });
  t.strictSame(await statuses(), [429, 429]);
});

void t.test(
  'the fault "silence" leaves N requests unanswered, and clearing it closes their connections',
  async (t) => {
    const { chain } = await setup(t);
    await fault(chain, { kind: 'silence', count: 2, methods: ['getSlot'] });
    const unanswered = [0, 1].map(() => {
      const seen = { settled: false };
      const cut = post(chain.rpcUrl, bodyOf('getSlot')).then(
        () => 'answered',
        () => 'cut',
      );
      void cut.then(() => (seen.settled = true));
      return { seen, cut };
    });
    // The third answer comes when both of the others have arrived and been passed over.
    let answered = 0;
    while (answered < 20) {
      const { status } = await post(chain.rpcUrl, bodyOf('getHealth'));
      t.equal(status, 200, 'other methods are answered');
      answered += 1;
    }
    t.equal((await post(chain.rpcUrl, bodyOf('getSlot'))).status, 200, 'the third one is answered');
    t.strictSame(
      unanswered.map(({ seen }) => seen.settled),
      [false, false],
    );
    await clear(chain);
    t.strictSame(await Promise.all(unanswered.map(({ cut }) => cut)), ['cut', 'cut']);
  },
);

void t.test('a chain with the fault "silence" can be stopped', async (t) => {
  const { chain } = await setup(t);
  await fault(chain, { kind: 'silence' });
  const cut = post(chain.rpcUrl, bodyOf('getSlot')).then(
    () => 'answered',
    () => 'cut',
  );
  await chain.rpc('localnet_info');
  await chain.close();
  t.equal(await cut, 'cut');
});

void t.test('the fault "lag" delays the second port by the given number of slots', async (t) => {
  const { chain, stranger, transfer } = await setup(t, { lagPort: 0 });
  const url = chain.lagUrl ?? '';
  chain.mineBlocks(FINALITY_BLOCKS + 5);
  await fault(chain, { kind: 'lag', slots: 5 });
  for (const commitment of ['processed', 'confirmed', 'finalized']) {
    const [ahead, behind] = await Promise.all(
      [chain.rpcUrl, url].map((one) => call<number>(one, 'getSlot', { commitment })),
    );
    t.equal(behind, (ahead ?? 0) - 5, commitment);
  }
  const sent = transfer(1_000_000);
  await send(chain, sent);
  chain.mineBlocks(4);
  t.ok(await statusOf(chain, sent));
  t.equal(await statusOf(chain, sent, url), null);
  t.equal(await balanceOf(chain, stranger, 'confirmed'), 1_000_000);
  t.equal(await balanceOf(chain, stranger, 'processed', url), 0);
  t.match(
    await failure(call(url, 'getSlot', { commitment: 'processed', minContextSlot: chain.slot() })),
    { code: -32016 },
  );
  chain.mineBlocks();
  t.match(await statusOf(chain, sent, url), { confirmationStatus: 'processed' });
  t.equal(await balanceOf(chain, stranger, 'processed', url), 1_000_000);
  t.equal(await balanceOf(chain, stranger, 'confirmed', url), 0);
  chain.mineBlocks();
  t.match(await statusOf(chain, sent, url), { confirmationStatus: 'confirmed' });
  t.match(await call(url, 'getTransaction', sent.signature, { commitment: 'confirmed' }), {
    slot: Number,
  });
  await clear(chain);
  t.equal(await call(url, 'getSlot', { commitment: 'processed' }), chain.slot());
});

void t.test('the fault "height" changes reported block heights and nothing else', async (t) => {
  const { chain } = await setup(t, { lagPort: 0 });
  const url = chain.lagUrl ?? '';
  const heightsAt = async (one: string) => {
    const { blockHeight, absoluteSlot } = await call<{ blockHeight: number; absoluteSlot: number }>(
      one,
      'getEpochInfo',
    );
    const { value } = await call<{ value: { lastValidBlockHeight: number; blockhash: string } }>(
      one,
      'getLatestBlockhash',
    );
    return {
      blockHeight,
      absoluteSlot,
      alone: await call<number>(one, 'getBlockHeight'),
      last: value.lastValidBlockHeight,
      blockhash: value.blockhash,
    };
  };
  chain.mineBlocks(FINALITY_BLOCKS + 5);
  const truth = await heightsAt(url);
  t.same(await heightsAt(chain.rpcUrl), truth);
  await fault(chain, { kind: 'height', blocks: 1000, endpoint: 'main' });
  const { blockHeight, alone, last } = truth;
  const raised = { blockHeight: blockHeight + 1000, alone: alone + 1000, last: last + 1000 };
  t.same(await heightsAt(chain.rpcUrl), { ...truth, ...raised });
  t.same(await heightsAt(url), truth);
  await fault(chain, { kind: 'height', blocks: -1_000_000 });
  t.match(await heightsAt(url), { blockHeight: 0, last: 0 });
  await clear(chain);
  t.same(await heightsAt(chain.rpcUrl), truth);
});

void t.test('a fresh blockhash is not valid at finalized before its slot is rooted', async (t) => {
  const { chain } = await setup(t);
  chain.mineBlocks(FINALITY_BLOCKS + 5);
  const { context, value } = await chain.rpc<{
    context: { slot: number };
    value: { blockhash: string };
  }>('getLatestBlockhash', { commitment: 'confirmed' });
  const final = { commitment: 'finalized' };
  const ask = (options: object) =>
    chain.rpc<{ value: boolean }>('isBlockhashValid', value.blockhash, options);
  const since = { ...final, minContextSlot: context.slot };
  t.equal((await ask({ commitment: 'confirmed' })).value, true);
  t.equal((await ask(final)).value, false, 'not rooted yet');
  const refused = await failure(ask(since));
  t.match(refused, { code: -32016, data: { contextSlot: Number } });
  chain.mineBlocks(FINALITY_BLOCKS);
  t.equal((await ask(since)).value, true, 'rooted');
  chain.mineBlocks(150);
  t.equal((await ask(since)).value, false, 'too old');
});

void t.test('an endpoint with the maximum lag still responds at every commitment', async (t) => {
  const { chain, payer, stranger, transfer } = await setup(t, { lagPort: 0 });
  await send(chain, transfer(1_000_000));
  chain.mineBlocks(FINALITY_BLOCKS + MAX_LAG - 1);
  await fault(chain, { kind: 'lag', slots: MAX_LAG });
  const url = chain.lagUrl ?? '';
  t.equal(await balanceOf(chain, stranger, 'finalized', url), 0);
  chain.mineBlocks();
  t.equal(await balanceOf(chain, stranger, 'finalized', url), 1_000_000);
  t.equal(
    await balanceOf(chain, payer.keypair.publicKey, 'finalized', url),
    10_000_000_000 - 1_000_000 - 5_000,
  );
});

void t.test(
  'a fork reverts the last confirmed blocks with state and signatures, and the same bytes can land again',
  async (t) => {
    const { chain, payer, stranger, transfer } = await setup(t);
    chain.mineBlocks(FINALITY_BLOCKS);
    const keep = transfer(1_000_000);
    await send(chain, keep);
    chain.mineBlocks();
    const lost = [transfer(2_000_000), transfer(4_000_000)];
    for (const sent of lost) {
      await send(chain, sent);
      chain.mineBlocks();
    }
    const processed = transfer(8_000_000);
    await send(chain, processed);
    const goneHash = await latestHash(chain);
    t.equal(await balanceOf(chain, stranger, 'confirmed'), 7_000_000);
    const slot = chain.slot();
    t.match(await chain.rpc('localnet_forgetBlocks', 2), { forgotten: 3, slot: Number });
    t.ok(chain.slot() > slot, 'slots go on');
    t.equal(await balanceOf(chain, stranger, 'processed'), 1_000_000);
    t.equal(await balanceOf(chain, payer.keypair.publicKey), 10_000_000_000 - 1_000_000 - 5_000);
    for (const sent of [...lost, processed]) {
      t.equal(await statusOf(chain, sent), null);
      t.equal(await chain.rpc('getTransaction', sent.signature, { commitment: 'confirmed' }), null);
    }
    t.ok(await statusOf(chain, keep));
    t.match(
      await chain.rpc('getSignaturesForAddress', stranger.toBase58(), { commitment: 'confirmed' }),
      [{ signature: keep.signature }],
    );
    t.match(await chain.rpc('isBlockhashValid', goneHash, { commitment: 'processed' }), {
      value: false,
    });
    const [again] = lost;
    t.equal(await send(chain, again ?? keep), again?.signature);
    chain.mineBlocks();
    t.match(await statusOf(chain, again ?? keep), { confirmationStatus: 'confirmed' });
    t.equal(await balanceOf(chain, stranger, 'confirmed'), 3_000_000);
    t.match(
      await failure(send(chain, keep)),
      { data: { err: 'AlreadyProcessed' } },
      'what was kept is still known',
    );
  },
);

void t.test(
  'a fork can run the forgotten transactions again, except those that name a forgotten blockhash',
  async (t) => {
    const { chain, payer, stranger, transfer } = await setup(t);
    const survivor = transfer(1_000_000);
    await send(chain, survivor);
    chain.mineBlocks();
    const orphan = signedTransfer(payer, stranger, 2_000_000, await latestHash(chain));
    await send(chain, orphan);
    chain.mineBlocks();
    t.match(await chain.rpc('localnet_forgetBlocks', 2, { replay: true }), { forgotten: 2 });
    t.match(await statusOf(chain, survivor), { slot: chain.slot() });
    t.equal(await statusOf(chain, orphan), null);
    t.equal(await balanceOf(chain, stranger), 1_000_000);
  },
);

void t.test('a fork never reverts a finalized block', async (t) => {
  const { chain, stranger, transfer } = await setup(t);
  const sent = transfer(1_000_000);
  await send(chain, sent);
  chain.mineBlocks(FINALITY_BLOCKS);
  t.match(await statusOf(chain, sent), { confirmationStatus: 'finalized' });
  const refused = await failure(chain.rpc('localnet_forgetBlocks', FINALITY_BLOCKS));
  t.equal(refused?.code, -32602);
  t.match(refused?.message, new RegExp(`at most ${FINALITY_BLOCKS - 1}`));
  await chain.rpc('localnet_forgetBlocks', FINALITY_BLOCKS - 1);
  t.match(
    await statusOf(chain, sent),
    { confirmationStatus: 'finalized' },
    'the deepest fork there is',
  );
  t.equal(await balanceOf(chain, stranger, 'finalized'), 1_000_000);
  t.equal(
    (await failure(chain.rpc('localnet_forgetBlocks', 1)))?.code,
    -32602,
    'the new fork has nothing yet that is not final',
  );
  t.equal(await balanceOf(chain, stranger), 1_000_000);
});

void t.test('an invalid fault is refused and not activated', async (t) => {
  const { chain, stranger, transfer } = await setup(t);
  const wrong: unknown[][] = [
    [],
    ['drop'],
    [{}],
    [{ kind: 'sabotage' }],
    [{ kind: 'drop', count: 0 }],
    [{ kind: 'drop', count: 1.5 }],
    [{ kind: 'hold' }],
    [{ kind: 'hold', blocks: 0 }],
    [{ kind: 'status' }],
    [{ kind: 'status', status: 430 }],
    [{ kind: 'status', status: 429, retryAfter: -1 }],
    [{ kind: 'silence', methods: 'getSlot' }],
    [{ kind: 'silence', endpoint: 'third' }],
    [{ kind: 'lag' }],
    [{ kind: 'lag', slots: MAX_LAG + 1 }],
    [{ kind: 'height' }],
    [{ kind: 'height', blocks: 1, endpoint: 'third' }],
  ];
  for (const params of wrong)
    t.equal(
      (await failure(chain.rpc('localnet_setFault', ...params)))?.code,
      -32602,
      JSON.stringify(params),
    );
  t.equal((await post(chain.rpcUrl, bodyOf('getHealth'))).status, 200);
  await send(chain, transfer(1_000_000));
  t.equal(await balanceOf(chain, stranger), 1_000_000);
});
