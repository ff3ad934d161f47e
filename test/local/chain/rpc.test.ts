// Every HTTP method answers in a validator's shape, and refuses with a validator's errors.
import { getAssociatedTokenAddressSync } from '@solana/spl-token';
import {
  Keypair,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { MAX_BODY_BYTES } from '../../../src/local/chain/rpc/http-server.ts';
import { BLOCKHASH_AGE, FINALITY_BLOCKS } from '../../../src/local/chain/state.ts';
import {
  post,
  type RpcFailure,
  startTestChain,
  type TestChain,
  type Wallet,
} from '../../fixtures/localnet.ts';

const FEE = 5_000;
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const BASE64 = { encoding: 'base64' };
const CONTEXT = { apiVersion: 'string', slot: 'number' };
const TOKEN_AMOUNT = {
  amount: 'string',
  decimals: 'number',
  uiAmount: 'number',
  uiAmountString: 'string',
};

interface Latest {
  value: { blockhash: string; lastValidBlockHeight: number };
}
interface Sent {
  text: string;
  bytes: Buffer;
  signature: string;
}
interface Status {
  confirmationStatus: string;
  confirmations: number | null;
  err: unknown;
  slot: number;
}

/**
 * The types of a value by field; the elements of an array are one list of the different forms they
 * have.
 */
function typesOf(value: unknown): unknown {
  if (value === null) return 'null';
  if (Array.isArray(value)) {
    const forms = new Map(
      value.map((element: unknown) => [JSON.stringify(typesOf(element)), typesOf(element)]),
    );
    return [...forms.values()];
  }
  if (typeof value !== 'object') return typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, typesOf(member)]));
}

const latest = (chain: TestChain, commitment = 'confirmed') =>
  chain.rpc<Latest>('getLatestBlockhash', { commitment }).then(({ value }) => value);

/** A signed transfer of lamports. Each amount makes other bytes. */
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
  const bytes = transaction.serialize();
  return {
    bytes,
    text: bytes.toString('base64'),
    signature: bs58.encode(transaction.signature ?? new Uint8Array()),
  };
}

const sendOf = (chain: TestChain, { text }: Sent, settings: object = {}) =>
  chain.rpc<string>('sendTransaction', text, {
    ...BASE64,
    preflightCommitment: 'confirmed',
    ...settings,
  });

const statusOf = (chain: TestChain, { signature }: Sent) =>
  chain
    .rpc<{ value: (Status | null)[] }>('getSignatureStatuses', [signature])
    .then(({ value }) => value[0]);

const balanceOf = (chain: TestChain, key: PublicKey, commitment = 'processed') =>
  chain
    .rpc<{ value: number }>('getBalance', key.toBase58(), { commitment })
    .then(({ value }) => value);

/**
 * A chain whose blocks come on demand, a wallet with money in a confirmed block, and a stranger.
 */
async function setup(t: Test) {
  const chain = await startTestChain(t, { blockMs: 0 });
  const payer = chain.wallet();
  chain.mineBlocks();
  return { chain, payer, stranger: Keypair.generate().publicKey };
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    (result) => ({ code: null, message: JSON.stringify(result), data: undefined }),
    (error: unknown) => error as RpcFailure,
  );

void t.test(
  "responses about slots, blockhashes, epochs and fees have the shape of a validator's",
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    chain.mineBlocks(40);
    const blockhash = await latest(chain);
    const transfer = signedTransfer(payer, stranger, 1_000_000, blockhash.blockhash);
    const message = Transaction.from(transfer.bytes).serializeMessage().toString('base64');
    const shapes: [method: string, params: unknown[], types: unknown][] = [
      ['getHealth', [], 'string'],
      ['getVersion', [], { 'feature-set': 'number', 'solana-core': 'string' }],
      ['getGenesisHash', [], 'string'],
      ['getSlot', [{ commitment: 'confirmed' }], 'number'],
      ['getBlockHeight', [], 'number'],
      ['getBlockTime', [chain.slot() - 1], 'number'],
      [
        'getLatestBlockhash',
        [],
        { context: CONTEXT, value: { blockhash: 'string', lastValidBlockHeight: 'number' } },
      ],
      [
        'isBlockhashValid',
        [blockhash.blockhash, { commitment: 'confirmed' }],
        { context: CONTEXT, value: 'boolean' },
      ],
      [
        'getEpochInfo',
        [],
        {
          absoluteSlot: 'number',
          blockHeight: 'number',
          epoch: 'number',
          slotIndex: 'number',
          slotsInEpoch: 'number',
          transactionCount: 'number',
        },
      ],
      ['getMinimumBalanceForRentExemption', [165], 'number'],
      [
        'getFeeForMessage',
        [message, { commitment: 'confirmed' }],
        { context: CONTEXT, value: 'number' },
      ],
      [
        'getFeeForMessage',
        [message, { commitment: 'finalized' }],
        { context: CONTEXT, value: 'null' },
      ],
      [
        'getRecentPrioritizationFees',
        [[payer.address]],
        [{ slot: 'number', prioritizationFee: 'number' }],
      ],
    ];
    for (const [method, params, types] of shapes)
      t.strictSame(typesOf(await chain.rpc(method, ...params)), types, method);
    t.equal(await chain.rpc('getHealth'), 'ok');
    t.equal(bs58.decode(await chain.rpc('getGenesisHash')).length, 32);
    t.equal(
      await chain.rpc('getMinimumBalanceForRentExemption', 165),
      1_488_440,
      'the rent of a token account on every cluster',
    );
    t.match(await chain.rpc('getFeeForMessage', message, { commitment: 'confirmed' }), {
      value: FEE,
    });
    const [processed, confirmed, finalized] = await Promise.all(
      ['processed', 'confirmed', 'finalized'].map((commitment) =>
        chain.rpc<number>('getSlot', { commitment }),
      ),
    );
    t.strictSame(
      [processed, confirmed, finalized],
      [chain.slot(), chain.slot() - 1, chain.slot() - FINALITY_BLOCKS],
    );
    t.equal(await chain.rpc('getSlot'), finalized, 'finalized is the default');
    t.equal(await chain.rpc('getBlockTime', chain.slot()), Math.floor(chain.now() / 1000));
  },
);

void t.test(
  "responses about accounts have the shape of a validator's, in every encoding",
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const ata = getAssociatedTokenAddressSync(
      new PublicKey(chain.mint),
      payer.keypair.publicKey,
    ).toBase58();
    const at = { commitment: 'confirmed' };
    const account = (data: unknown) => ({
      data,
      executable: 'boolean',
      lamports: 'number',
      owner: 'string',
      rentEpoch: 'number',
      space: 'number',
    });
    const parsed = {
      program: 'string',
      parsed: {
        type: 'string',
        info: {
          isNative: 'boolean',
          mint: 'string',
          owner: 'string',
          state: 'string',
          tokenAmount: TOKEN_AMOUNT,
        },
      },
      space: 'number',
    };
    const shapes: [method: string, params: unknown[], types: unknown][] = [
      [
        'getAccountInfo',
        [payer.address, { ...at, encoding: 'base58' }],
        { context: CONTEXT, value: account(['string']) },
      ],
      [
        'getAccountInfo',
        [ata, { ...at, ...BASE64 }],
        { context: CONTEXT, value: account(['string']) },
      ],
      [
        'getAccountInfo',
        [ata, { ...at, encoding: 'jsonParsed' }],
        { context: CONTEXT, value: account(parsed) },
      ],
      ['getAccountInfo', [stranger.toBase58(), at], { context: CONTEXT, value: 'null' }],
      [
        'getMultipleAccounts',
        [[ata, stranger.toBase58()], at],
        { context: CONTEXT, value: [account(['string']), 'null'] },
      ],
      [
        'getProgramAccounts',
        [TOKEN_PROGRAM, { ...at, ...BASE64 }],
        [{ account: account(['string']), pubkey: 'string' }],
      ],
      [
        'getTokenAccountsByOwner',
        [payer.address, { mint: chain.mint }, { ...at, encoding: 'jsonParsed' }],
        { context: CONTEXT, value: [{ account: account(parsed), pubkey: 'string' }] },
      ],
      ['getBalance', [payer.address, at], { context: CONTEXT, value: 'number' }],
      ['getTokenAccountBalance', [ata, at], { context: CONTEXT, value: TOKEN_AMOUNT }],
    ];
    for (const [method, params, types] of shapes)
      t.strictSame(typesOf(await chain.rpc(method, ...params)), types, method);
    t.match(await chain.rpc('getTokenAccountBalance', ata, at), {
      value: { amount: '1000000000', decimals: 6, uiAmount: 1000, uiAmountString: '1000' },
    });
    t.match(await chain.rpc('getAccountInfo', ata, { ...at, encoding: 'jsonParsed' }), {
      value: {
        owner: TOKEN_PROGRAM,
        data: {
          program: 'spl-token',
          parsed: { info: { owner: payer.address, mint: chain.mint } },
          space: 165,
        },
      },
    });
  },
);

void t.test(
  'getProgramAccounts filters by memcmp and dataSize, and cuts data with dataSlice',
  async (t) => {
    const { chain, payer } = await setup(t);
    const [other] = [chain.wallet()];
    chain.mineBlocks();
    const at = { commitment: 'confirmed', ...BASE64 };
    const list = (...filters: unknown[]) =>
      chain.rpc<{ pubkey: string; account: { data: [string, string]; space: number } }[]>(
        'getProgramAccounts',
        TOKEN_PROGRAM,
        {
          ...at,
          filters,
          dataSlice: { offset: 64, length: 8 },
        },
      );
    const ata = (owner: PublicKey) =>
      getAssociatedTokenAddressSync(new PublicKey(chain.mint), owner).toBase58();
    const memcmp = { offset: 32, bytes: payer.address };
    t.strictSame(
      (await list({ memcmp })).map(({ pubkey }) => pubkey),
      [ata(payer.keypair.publicKey)],
    );
    const inBase64 = {
      offset: 32,
      bytes: payer.keypair.publicKey.toBuffer().toString('base64'),
      encoding: 'base64',
    };
    t.strictSame(
      (await list({ memcmp: inBase64 })).map(({ pubkey }) => pubkey),
      [ata(payer.keypair.publicKey)],
    );
    const accounts = await list({ dataSize: 165 });
    t.strictSame(
      accounts.map(({ pubkey }) => pubkey).sort(),
      [ata(payer.keypair.publicKey), ata(other.keypair.publicKey)].sort(),
    );
    for (const { account } of accounts) {
      t.equal(
        Buffer.from(account.data[0], 'base64').readBigUInt64LE(),
        1_000_000_000n,
        'the slice is the amount',
      );
      t.equal(account.space, 165, 'space is that of the whole account');
    }
    t.strictSame(
      (await list({ dataSize: 82 })).map(({ pubkey }) => pubkey),
      [chain.mint],
    );
    t.strictSame(
      await list({ dataSize: 165 }, { memcmp: { offset: 32, bytes: chain.mint } }),
      [],
      'all filters have to match',
    );
  },
);

void t.test("responses about transactions have the shape of a validator's", async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
  const simulated = await chain.rpc<{ value: object }>('simulateTransaction', transfer.text, {
    ...BASE64,
    commitment: 'confirmed',
  });
  t.match(typesOf(simulated), {
    context: CONTEXT,
    value: {
      accounts: 'null',
      err: 'null',
      innerInstructions: 'null',
      logs: ['string'],
      returnData: 'null',
      unitsConsumed: 'number',
    },
  });
  t.equal(await balanceOf(chain, stranger), 0, 'a simulation changes nothing');
  t.equal(await sendOf(chain, transfer), transfer.signature);
  const airdrop = await chain.rpc<string>('requestAirdrop', stranger.toBase58(), 5_000_000);
  t.equal(bs58.decode(airdrop).length, 64);
  chain.mineBlocks();
  t.equal(await balanceOf(chain, stranger, 'confirmed'), 6_000_000);
  const status = {
    confirmationStatus: 'string',
    confirmations: 'number',
    err: 'null',
    slot: 'number',
    status: { Ok: 'null' },
  };
  const statuses = await chain.rpc(
    'getSignatureStatuses',
    [transfer.signature, bs58.encode(Buffer.alloc(64, 7))],
    {
      searchTransactionHistory: true,
    },
  );
  t.strictSame(typesOf(statuses), { context: CONTEXT, value: [status, 'null'] });
  const history = await chain.rpc<{ signature: string }[]>(
    'getSignaturesForAddress',
    stranger.toBase58(),
    { commitment: 'confirmed' },
  );
  t.strictSame(
    history.map(({ signature }) => signature),
    [airdrop, transfer.signature],
    'the newest is first',
  );
  const past = {
    blockTime: 'number',
    confirmationStatus: 'string',
    err: 'null',
    signature: 'string',
    slot: 'number',
  };
  t.strictSame(typesOf(history), [
    { ...past, memo: 'string' },
    { ...past, memo: 'null' },
  ]);
  t.match(
    await chain.rpc('getSignaturesForAddress', stranger.toBase58(), {
      commitment: 'confirmed',
      before: airdrop,
      limit: 1,
    }),
    [{ signature: transfer.signature }],
  );
  t.strictSame(
    (
      await chain.rpc<{ signature: string }[]>('getSignaturesForAddress', stranger.toBase58(), {
        commitment: 'confirmed',
        until: transfer.signature,
      })
    ).map(({ signature }) => signature),
    [airdrop],
  );
});

void t.test(
  'getTransaction shows message, balances, logs and inner instructions in every encoding',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const at = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 };
    const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
    await sendOf(chain, transfer);
    chain.mineBlocks();
    const shown = await chain.rpc<{ slot: number }>('getTransaction', transfer.signature, {
      ...at,
      encoding: 'json',
    });
    const lamports = 10_000_000_000;
    t.match(shown, {
      slot: chain.slot() - 1,
      version: 'legacy',
      transaction: {
        signatures: [transfer.signature],
        message: {
          accountKeys: [payer.address, stranger.toBase58(), SystemProgram.programId.toBase58()],
          header: {
            numReadonlySignedAccounts: 0,
            numReadonlyUnsignedAccounts: 1,
            numRequiredSignatures: 1,
          },
          instructions: [{ accounts: [0, 1], programIdIndex: 2, data: String }],
        },
      },
      meta: {
        err: null,
        fee: FEE,
        preBalances: [lamports, 0, 1],
        postBalances: [lamports - FEE - 1_000_000, 1_000_000, 1],
        innerInstructions: [],
        logMessages: [
          `Program ${SystemProgram.programId.toBase58()} invoke [1]`,
          `Program ${SystemProgram.programId.toBase58()} success`,
        ],
        preTokenBalances: [],
        postTokenBalances: [],
        loadedAddresses: { readonly: [], writable: [] },
        rewards: [],
        status: { Ok: null },
        computeUnitsConsumed: 150,
      },
    });
    for (const [encoding, encoded] of Object.entries({
      base64: transfer.text,
      base58: bs58.encode(transfer.bytes),
    })) {
      t.match(await chain.rpc('getTransaction', transfer.signature, { ...at, encoding }), {
        transaction: [encoded, encoding],
      });
    }
    t.match(
      await chain.rpc('getTransaction', transfer.signature, { ...at, encoding: 'jsonParsed' }),
      {
        transaction: {
          message: {
            accountKeys: [
              { pubkey: payer.address, signer: true, writable: true, source: 'transaction' },
              {},
              {},
            ],
            instructions: [
              {
                program: 'system',
                parsed: { type: 'transfer', info: { source: payer.address, lamports: 1_000_000 } },
              },
            ],
          },
        },
      },
    );
    const [newest] = await chain.rpc<{ signature: string }[]>(
      'getSignaturesForAddress',
      getAssociatedTokenAddressSync(new PublicKey(chain.mint), payer.keypair.publicKey).toBase58(),
      { commitment: 'confirmed' },
    );
    const minted = await chain.rpc<{
      meta: {
        innerInstructions: { index: number; instructions: object[] }[];
        preTokenBalances: object[];
      };
    }>('getTransaction', newest?.signature, at);
    t.match(minted.meta, {
      preTokenBalances: [],
      postTokenBalances: [
        {
          mint: chain.mint,
          owner: payer.address,
          programId: TOKEN_PROGRAM,
          uiTokenAmount: { amount: '1000000000', decimals: 6 },
        },
      ],
    });
    t.equal(
      minted.meta.innerInstructions[0]?.index,
      0,
      'the token account was made by calls of the first instruction',
    );
    t.match(minted.meta.innerInstructions[0]?.instructions[0], {
      accounts: [Number],
      data: String,
      programIdIndex: Number,
      stackHeight: 2,
    });
  },
);

void t.test('each request of a batch gets a response, and notifications get none', async (t) => {
  const { chain } = await setup(t);
  const request = (id: unknown, method: string, params: unknown[] = []) => ({
    jsonrpc: '2.0',
    id,
    method,
    params,
  });
  const batch = [
    request(1, 'getHealth'),
    request('two', 'getSlot', [{ commitment: 'processed' }]),
    { jsonrpc: '2.0', method: 'getHealth' },
    request(null, 'getNothing'),
    7,
    request(5, 'getBalance'),
  ];
  const { status, text, headers } = await post(chain.rpcUrl, JSON.stringify(batch));
  t.equal(status, 200);
  t.match(headers.get('content-type'), /^application\/json/);
  t.strictSame(JSON.parse(text), [
    { jsonrpc: '2.0', result: 'ok', id: 1 },
    { jsonrpc: '2.0', result: chain.slot(), id: 'two' },
    { jsonrpc: '2.0', error: { code: -32601, message: 'Method not found' }, id: null },
    { jsonrpc: '2.0', error: { code: -32600, message: 'Invalid request' }, id: null },
    {
      jsonrpc: '2.0',
      error: { code: -32602, message: '`params` should have at least 1 argument(s)' },
      id: 5,
    },
  ]);
  t.match(await post(chain.rpcUrl, '[{"jsonrpc":"2.0","method":"getHealth"}]'), {
    status: 200,
    text: '',
  });
});

void t.test('malformed requests are refused with the codes of JSON-RPC 2.0', async (t) => {
  const { chain } = await setup(t);
  const bodies: [body: string, code: number, id: unknown][] = [
    ['', -32700, null],
    ['{"jsonrpc":"2.0","id":1,"method":"getHealth"', -32700, null],
    ['[]', -32600, null],
    ['7', -32600, null],
    ['null', -32600, null],
    ['"getHealth"', -32600, null],
    ['{"id":1,"method":"getHealth"}', -32600, 1],
    ['{"jsonrpc":"1.0","id":1,"method":"getHealth"}', -32600, 1],
    ['{"jsonrpc":"2.0","id":1}', -32600, 1],
    ['{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1],
    ['{"jsonrpc":"2.0","id":{},"method":"getHealth"}', -32600, null],
    ['{"jsonrpc":"2.0","id":1,"method":"getNothing"}', -32601, 1],
    ['{"jsonrpc":"2.0","id":1,"method":"constructor"}', -32601, 1],
    ['{"jsonrpc":"2.0","id":1,"method":"getSlot","params":{"commitment":"processed"}}', -32602, 1],
  ];
  for (const [body, code, id] of bodies) {
    const { status, text } = await post(chain.rpcUrl, body);
    t.equal(status, 200, body);
    const answer = JSON.parse(text) as { error: { code: number; message: string }; id: unknown };
    t.strictSame(
      [answer.error.code, answer.id, typeof answer.error.message],
      [code, id, 'string'],
      body,
    );
  }
});

void t.test(
  'a body over the limit, another content type and another HTTP method are refused',
  async (t) => {
    const { chain } = await setup(t);
    const request = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getHealth' });
    t.equal(
      (await post(chain.rpcUrl, request.padEnd(MAX_BODY_BYTES))).status,
      200,
      'a body of the limit',
    );
    t.match(await post(chain.rpcUrl, request.padEnd(MAX_BODY_BYTES + 1)), {
      status: 413,
      text: /too large/,
    });
    t.match(await post(chain.rpcUrl, request, { 'content-type': 'text/plain' }), { status: 415 });
    t.equal((await fetch(chain.rpcUrl)).status, 405);
    t.equal(await (await fetch(`${chain.rpcUrl}/health`)).text(), 'ok');
  },
);

void t.test('calls with wrong parameters are refused with -32602', async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const key = payer.address;
  const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
  const wrong: [method: string, ...params: unknown[]][] = [
    ['getSlot', 'confirmed'],
    ['getSlot', { commitment: 'sure' }],
    ['getSlot', { minContextSlot: -1 }],
    ['getBalance'],
    ['getBalance', 5],
    ['getBalance', 'not Base58: 0OIl'],
    ['getBalance', key.slice(0, 20)],
    ['getBalance', `${key}1111`],
    ['getAccountInfo', key, { encoding: 'utf8' }],
    ['getAccountInfo', key, { dataSlice: { offset: -1, length: 8 } }],
    ['getAccountInfo', key, []],
    ['getMultipleAccounts', key],
    ['getMultipleAccounts', Array<string>(101).fill(key)],
    ['getProgramAccounts', TOKEN_PROGRAM, { filters: {} }],
    ['getProgramAccounts', TOKEN_PROGRAM, { filters: [{}] }],
    ['getProgramAccounts', TOKEN_PROGRAM, { filters: [{ memcmp: { offset: 0, bytes: '0' } }] }],
    ['getProgramAccounts', TOKEN_PROGRAM, { filters: Array<object>(5).fill({ dataSize: 165 }) }],
    ['getTokenAccountBalance', key],
    ['getTokenAccountBalance', stranger.toBase58()],
    ['getTokenAccountsByOwner', key],
    ['getTokenAccountsByOwner', key, {}],
    ['getTokenAccountsByOwner', key, { mint: key }],
    ['getTokenAccountsByOwner', key, { programId: key }],
    ['getBlockTime'],
    ['getBlockTime', '5'],
    ['isBlockhashValid', 'short'],
    ['getMinimumBalanceForRentExemption', -1],
    ['getMinimumBalanceForRentExemption', 1.5],
    ['getFeeForMessage', 'AAAA'],
    ['getRecentPrioritizationFees', Array<string>(129).fill(key)],
    ['getSignatureStatuses', transfer.signature],
    ['getSignatureStatuses', [key]],
    ['getSignatureStatuses', Array<string>(257).fill(transfer.signature)],
    ['getSignaturesForAddress', key, { limit: 0 }],
    ['getSignaturesForAddress', key, { limit: 1001 }],
    ['getSignaturesForAddress', key, { commitment: 'processed' }],
    ['getTransaction', key],
    ['getTransaction', transfer.signature, { commitment: 'processed' }],
    ['getTransaction', transfer.signature, { encoding: 'xml' }],
    ['requestAirdrop', key],
    ['requestAirdrop', key, -1],
    ['requestAirdrop', key, 1.5],
    ['sendTransaction'],
    ['sendTransaction', 5],
    ['sendTransaction', transfer.text, { encoding: 'base58' }],
    ['sendTransaction', 'AAAA', BASE64],
    ['sendTransaction', transfer.text.slice(0, -8), BASE64],
    ['sendTransaction', '####', BASE64],
    ['sendTransaction', Buffer.alloc(1300).toString('base64'), BASE64],
    ['sendTransaction', transfer.text, { ...BASE64, skipPreflight: 'yes' }],
    [
      'simulateTransaction',
      transfer.text,
      { ...BASE64, sigVerify: true, replaceRecentBlockhash: true },
    ],
  ];
  for (const [method, ...params] of wrong) {
    const { code, message } = await failure(chain.rpc(method, ...params));
    t.equal(code, -32602, `${method} ${JSON.stringify(params).slice(0, 100)}: ${message}`);
  }
  t.equal(await balanceOf(chain, stranger), 0);
});

void t.test('no transaction with a changed byte stops the chain', async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const { bytes } = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
  const inBatches = async (all: object[]) => {
    const answers: { error?: { code: number } }[] = [];
    for (let from = 0; from < all.length; from += 3) {
      const { text } = await post(chain.rpcUrl, JSON.stringify(all.slice(from, from + 3)));
      answers.push(...(JSON.parse(text) as { error?: { code: number } }[]));
    }
    return answers;
  };
  const requests = (settings: object) =>
    Array.from(bytes, (byte, id) => {
      const wrong = Buffer.from(bytes);
      wrong[id] = byte ^ 0xff;
      return {
        jsonrpc: '2.0',
        id,
        method: 'sendTransaction',
        params: [wrong.toString('base64'), { ...BASE64, ...settings }],
      };
    });
  await inBatches(requests({ skipPreflight: true }));
  const answers = await inBatches(requests({ preflightCommitment: 'confirmed' }));
  t.equal(answers.length, bytes.length);
  const codes = new Set(answers.map(({ error }) => error?.code ?? null));
  t.notOk(codes.has(null), 'with preflight each of them is refused');
  t.ok(
    [...codes].every((code) => code === -32602 || code === -32002 || code === -32003),
    [...codes].join(),
  );
  t.equal(await balanceOf(chain, stranger), 0);
});

void t.test(
  'a transaction that fails is refused by preflight with -32002, its error and its logs, and pays nothing',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const before = await balanceOf(chain, payer.keypair.publicKey);
    const tooMuch = signedTransfer(
      payer,
      stranger,
      20_000_000_000,
      (await latest(chain)).blockhash,
    );
    const { code, message, data } = await failure(sendOf(chain, tooMuch));
    t.equal(code, -32002);
    t.equal(
      message,
      'Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1',
    );
    t.strictSame(typesOf(data), {
      accounts: 'null',
      err: { InstructionError: ['number', { Custom: 'number' }] },
      innerInstructions: 'null',
      logs: ['string'],
      returnData: 'null',
      unitsConsumed: 'number',
    });
    t.match(data, {
      err: { InstructionError: [0, { Custom: 1 }] },
      logs: [/invoke \[1\]$/, /insufficient lamports/, /failed/],
    });
    t.equal(await balanceOf(chain, payer.keypair.publicKey), before);
    t.equal(await statusOf(chain, tooMuch), null);
    t.equal(
      await sendOf(chain, tooMuch, { skipPreflight: true }),
      tooMuch.signature,
      'without preflight it lands',
    );
    chain.mineBlocks();
    t.match(await statusOf(chain, tooMuch), { err: { InstructionError: [0, { Custom: 1 }] } });
    t.equal(await balanceOf(chain, payer.keypair.publicKey), before - FEE, 'and pays its fee');
  },
);

void t.test(
  'a transaction with a wrong signature is refused with -32003 and does not land',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const { bytes } = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
    const forged = Buffer.from(bytes);
    forged[20] = (forged[20] ?? 0) ^ 1;
    const sent: Sent = {
      bytes: forged,
      text: forged.toString('base64'),
      signature: bs58.encode(forged.subarray(1, 65)),
    };
    t.match(await failure(sendOf(chain, sent)), {
      code: -32003,
      message: 'Transaction signature verification failure',
    });
    await failure(sendOf(chain, sent, { skipPreflight: true }));
    t.match(
      await failure(
        chain.rpc('simulateTransaction', sent.text, {
          ...BASE64,
          commitment: 'confirmed',
          sigVerify: true,
        }),
      ),
      {
        code: -32003,
      },
    );
    const batch = JSON.stringify([
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'sendTransaction',
        params: [sent.text, { ...BASE64, preflightCommitment: 'confirmed' }],
      },
      {
        jsonrpc: '2.0',
        id: 2,
        method: 'sendTransaction',
        params: [sent.text, { ...BASE64, skipPreflight: true }],
      },
    ]);
    t.match(JSON.parse((await post(chain.rpcUrl, batch)).text), [
      { error: { code: -32003 } },
      { id: 2 },
    ]);
    chain.mineBlocks();
    t.equal(await statusOf(chain, sent), null);
    t.equal(await balanceOf(chain, stranger), 0);
  },
);

void t.test(
  'each forged transaction of a large batch is refused, and each valid one runs once',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const { blockhash } = await latest(chain);
    const sent = Array.from({ length: 24 }, (_, index) =>
      signedTransfer(payer, stranger, 1_000_000 + index, blockhash),
    );
    const isForged = (index: number) => index % 3 === 1;
    const texts = sent.map(({ bytes, text }, index) => {
      if (!isForged(index)) return text;
      const forged = Buffer.from(bytes);
      forged[20] = (forged[20] ?? 0) ^ 1;
      return forged.toString('base64');
    });
    const settings = { ...BASE64, preflightCommitment: 'confirmed' };
    const batch = [...texts, 'no transaction', texts[0]].map((text, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'sendTransaction',
      params: [text, settings],
    }));
    const answers = JSON.parse((await post(chain.rpcUrl, JSON.stringify(batch))).text) as {
      id: number;
    }[];
    t.match(answers, [
      ...sent.map(({ signature }, id) =>
        isForged(id) ? { id, error: { code: -32003 } } : { id, result: signature },
      ),
      { id: 24, error: { code: -32602 } },
      { id: 25, error: { code: -32002, data: { err: 'AlreadyProcessed' } } },
    ]);
    chain.mineBlocks();
    const good = sent.map((_, index) => index).filter((index) => !isForged(index));
    t.equal(
      await balanceOf(chain, stranger),
      good.length * 1_000_000 + good.reduce((sum, index) => sum + index, 0),
    );
  },
);

void t.test(
  'a request for a slot that the chain has not reached is refused with -32016',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    const ahead = { commitment: 'confirmed', minContextSlot: chain.slot() };
    const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
    const requests: [method: string, ...params: unknown[]][] = [
      ['getSlot', ahead],
      ['getBalance', payer.address, ahead],
      ['getLatestBlockhash', ahead],
      [
        'sendTransaction',
        transfer.text,
        { ...BASE64, preflightCommitment: 'confirmed', minContextSlot: chain.slot() },
      ],
    ];
    for (const [method, ...params] of requests) {
      t.match(
        await failure(chain.rpc(method, ...params)),
        { code: -32016, data: { contextSlot: chain.slot() - 1 } },
        method,
      );
    }
    t.equal(await balanceOf(chain, stranger), 0);
    chain.mineBlocks();
    t.match(await chain.rpc('getBalance', payer.address, ahead), {
      context: { slot: ahead.minContextSlot },
    });
  },
);

void t.test('a client without support of version 0 gets -32015', async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const message = new TransactionMessage({
    payerKey: payer.keypair.publicKey,
    recentBlockhash: (await latest(chain)).blockhash,
    instructions: [
      SystemProgram.transfer({
        fromPubkey: payer.keypair.publicKey,
        toPubkey: stranger,
        lamports: 1_000_000,
      }),
    ],
  }).compileToV0Message();
  const transaction = new VersionedTransaction(message);
  transaction.sign([payer.keypair]);
  const text = Buffer.from(transaction.serialize()).toString('base64');
  const signature = await chain.rpc<string>('sendTransaction', text, {
    ...BASE64,
    preflightCommitment: 'confirmed',
  });
  chain.mineBlocks();
  t.match(await failure(chain.rpc('getTransaction', signature, { commitment: 'confirmed' })), {
    code: -32015,
  });
  t.match(
    await chain.rpc('getTransaction', signature, {
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
    }),
    { version: 0 },
  );
});

void t.test(
  'getBlockTime of a slot without a block fails with -32007 if skipped, -32004 if in the future',
  async (t) => {
    const { chain } = await setup(t);
    const slot = chain.slot();
    chain.timeTravel({ absoluteSlot: slot + 100 });
    t.match(await failure(chain.rpc('getBlockTime', slot + 1)), { code: -32007 });
    t.match(await failure(chain.rpc('getBlockTime', slot + 101)), { code: -32004 });
    t.type(await chain.rpc('getBlockTime', slot), 'number');
  },
);

void t.test('a transaction that is sent again is not executed again', async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
  await Promise.all(
    Array.from({ length: 5 }, () => sendOf(chain, transfer, { skipPreflight: true })),
  );
  t.match(await failure(sendOf(chain, transfer)), {
    code: -32002,
    message: 'Transaction simulation failed: This transaction has already been processed',
    data: { err: 'AlreadyProcessed' },
  });
  const again = {
    jsonrpc: '2.0',
    id: 1,
    method: 'sendTransaction',
    params: [transfer.text, { ...BASE64, skipPreflight: true }],
  };
  await post(chain.rpcUrl, JSON.stringify([again, again]));
  chain.mineBlocks(100);
  t.equal(await sendOf(chain, transfer, { skipPreflight: true }), transfer.signature);
  chain.mineBlocks();
  t.equal(await balanceOf(chain, stranger), 1_000_000);
  t.equal(await balanceOf(chain, payer.keypair.publicKey), 10_000_000_000 - 1_000_000 - FEE);
  t.equal(
    (
      await chain.rpc<unknown[]>('getSignaturesForAddress', stranger.toBase58(), {
        commitment: 'confirmed',
      })
    ).length,
    1,
  );
});

void t.test(
  'a transaction is processed, confirmed with the next block, and finalized 32 blocks after its own',
  async (t) => {
    t.equal(FINALITY_BLOCKS, 32);
    const { chain, payer, stranger } = await setup(t);
    chain.mineBlocks(FINALITY_BLOCKS);
    const transfer = signedTransfer(payer, stranger, 1_000_000, (await latest(chain)).blockhash);
    await sendOf(chain, transfer);
    const slot = chain.slot();
    const balances = async () => [
      await balanceOf(chain, stranger, 'processed'),
      await balanceOf(chain, stranger, 'confirmed'),
      await balanceOf(chain, stranger, 'finalized'),
    ];
    const transaction = (commitment: string) =>
      chain.rpc('getTransaction', transfer.signature, { commitment });
    t.match(await statusOf(chain, transfer), {
      confirmationStatus: 'processed',
      confirmations: 0,
      slot,
    });
    t.strictSame(await balances(), [1_000_000, 0, 0]);
    t.equal(await transaction('confirmed'), null);
    chain.mineBlocks();
    t.match(await statusOf(chain, transfer), {
      confirmationStatus: 'confirmed',
      confirmations: 1,
      slot,
    });
    t.strictSame(await balances(), [1_000_000, 1_000_000, 0]);
    t.match(await transaction('confirmed'), { slot });
    t.equal(await transaction('finalized'), null);
    chain.mineBlocks(FINALITY_BLOCKS - 2);
    t.match(await statusOf(chain, transfer), {
      confirmationStatus: 'confirmed',
      confirmations: FINALITY_BLOCKS - 1,
      slot,
    });
    t.strictSame(await balances(), [1_000_000, 1_000_000, 0]);
    chain.mineBlocks();
    t.match(await statusOf(chain, transfer), {
      confirmationStatus: 'finalized',
      confirmations: null,
      slot,
    });
    t.strictSame(await balances(), [1_000_000, 1_000_000, 1_000_000]);
    t.match(await transaction('finalized'), { slot });
  },
);

void t.test('a blockhash is valid for 150 blocks and not one more', async (t) => {
  const { chain, payer, stranger } = await setup(t);
  const { blockhash, lastValidBlockHeight } = await latest(chain);
  const height = () => chain.rpc<number>('getBlockHeight', { commitment: 'processed' });
  const isValid = () =>
    chain
      .rpc<{ value: boolean }>('isBlockhashValid', blockhash, { commitment: 'processed' })
      .then(({ value }) => value);
  t.equal(
    lastValidBlockHeight,
    (await chain.rpc<number>('getBlockHeight', { commitment: 'confirmed' })) + BLOCKHASH_AGE,
  );
  t.equal(BLOCKHASH_AGE, 150);
  chain.mineBlocks(lastValidBlockHeight - (await height()));
  t.equal(await height(), lastValidBlockHeight);
  t.equal(await isValid(), true);
  await sendOf(chain, signedTransfer(payer, stranger, 1_000_000, blockhash));
  chain.mineBlocks();
  t.equal(await isValid(), false);
  t.match(await failure(sendOf(chain, signedTransfer(payer, stranger, 1_000_001, blockhash))), {
    code: -32002,
    message: 'Transaction simulation failed: Blockhash not found',
    data: { err: 'BlockhashNotFound' },
  });
  const late = signedTransfer(payer, stranger, 1_000_002, blockhash);
  t.equal(
    await sendOf(chain, late, { skipPreflight: true }),
    late.signature,
    'without preflight there is no error',
  );
  chain.mineBlocks();
  t.equal(await statusOf(chain, late), null);
  t.equal(await balanceOf(chain, stranger), 1_000_000, 'only the one in time has moved money');
  t.equal(await isValid(), false);
});

void t.test(
  'preflight checks the blockhash at its own commitment, finalized by default',
  async (t) => {
    const { chain, payer, stranger } = await setup(t);
    chain.mineBlocks(FINALITY_BLOCKS + 1);
    const fresh = signedTransfer(
      payer,
      stranger,
      1_000_000,
      (await latest(chain, 'confirmed')).blockhash,
    );
    t.match(await failure(chain.rpc('sendTransaction', fresh.text, BASE64)), {
      code: -32002,
      data: { err: 'BlockhashNotFound' },
    });
    const old = signedTransfer(
      payer,
      stranger,
      1_000_001,
      (await latest(chain, 'finalized')).blockhash,
    );
    t.equal(await chain.rpc('sendTransaction', old.text, BASE64), old.signature);
    t.equal(await balanceOf(chain, stranger), 1_000_001);
  },
);
