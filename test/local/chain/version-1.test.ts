// Version 1 transactions: @solana/kit builds and sends them, @solana/web3.js decodes the responses.
import { Connection, Keypair, PublicKey, VersionedTransaction } from '@solana/web3.js';
import fc from 'fast-check';
import {
  AccountRole,
  address,
  appendTransactionMessageInstructions,
  assertIsTransactionWithBlockhashLifetime,
  blockhash,
  createKeyPairSignerFromBytes,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  getCompiledTransactionMessageEncoder,
  compileTransactionMessage,
  getSignatureFromTransaction,
  type Instruction,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageConfig,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
  type V1TransactionConfig,
} from 'kit8';
import t, { type Test } from 'tap';
import { offerOf } from '../../../src/local/chain/fee.ts';
import {
  decodeMessage,
  decodeTransaction,
  namesKey,
} from '../../../src/local/chain/wire/decode.ts';
import { signaturesOf } from '../../../src/local/chain/wire/message.ts';
import { WireError } from '../../../src/local/chain/wire/reader.ts';
import { verifiedTransactions } from '../../../src/local/chain/wire/verify.ts';
import { type RpcFailure, startTestChain, type TestChain } from '../../fixtures/localnet.ts';

const LIMITS = { computeUnitLimit: 20_000, loadedAccountsDataSizeLimit: 1_000_000 };
const SYSTEM = address('11111111111111111111111111111111');
const MEMO = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const FEATURE = 'txv1aq4pp281K9um3tnPgkfX8UqtFT6wcVW3hNezGLL';

function transfer(from: string, to: string, lamports: bigint): Instruction {
  const data = Buffer.alloc(12);
  data.writeUInt32LE(2, 0);
  data.writeBigUInt64LE(lamports, 4);
  return {
    programAddress: SYSTEM,
    accounts: [
      { address: address(from), role: AccountRole.WRITABLE_SIGNER },
      { address: address(to), role: AccountRole.WRITABLE },
    ],
    data,
  };
}

/** A signed version 1 transaction. */
async function build(
  payer: Keypair,
  lifetime: { blockhash: string; lastValidBlockHeight: bigint },
  instructions: readonly Instruction[],
  config: V1TransactionConfig = LIMITS,
) {
  const signer = await createKeyPairSignerFromBytes(payer.secretKey);
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(signer, m),
    (m) =>
      setTransactionMessageLifetimeUsingBlockhash(
        { ...lifetime, blockhash: blockhash(lifetime.blockhash) },
        m,
      ),
    (m) => setTransactionMessageConfig(config, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
  );
  const transaction = await signTransactionMessageWithSigners(message);
  assertIsTransactionWithBlockhashLifetime(transaction);
  const wire = Buffer.from(getBase64EncodedWireTransaction(transaction), 'base64');
  return { message, transaction, wire, id: getSignatureFromTransaction(transaction) };
}

async function latest(chain: TestChain) {
  const { value } = await chain.rpc<{
    value: { blockhash: string; lastValidBlockHeight: number };
  }>('getLatestBlockhash', { commitment: 'confirmed' });
  return { ...value, lastValidBlockHeight: BigInt(value.lastValidBlockHeight) };
}

const encoded = { encoding: 'base64', preflightCommitment: 'confirmed' };
const refusal = async (promise: Promise<unknown>) => {
  try {
    await promise;
  } catch (error) {
    return (error as RpcFailure).code;
  }
  return undefined;
};

/** A chain on demand with a payer, and a version 1 transfer to a new address that has landed. */
async function landed(t: Test, options: { dataDir?: string } = {}) {
  const chain = await startTestChain(t, { blockMs: 0, ...options });
  const { keypair } = chain.wallet();
  const to = Keypair.generate().publicKey.toBase58();
  const payer = keypair.publicKey.toBase58();
  const built = await build(
    keypair,
    await latest(chain),
    [transfer(payer, to, 2_000_000n), { programAddress: MEMO, data: Buffer.from('hello') }],
    { ...LIMITS, priorityFeeLamports: 777n },
  );
  t.equal(await chain.rpc('sendTransaction', built.wire.toString('base64'), encoded), built.id);
  chain.mineBlocks();
  return { chain, keypair, payer, to, ...built };
}

void t.test('a kit client sends a version 1 transaction and reads it back', async (t) => {
  const chain = await startTestChain(t, { blockMs: 100 });
  const rpc = createSolanaRpc(chain.rpcUrl);
  const rpcSubscriptions = createSolanaRpcSubscriptions(chain.wsUrl);
  const { keypair, address: payer } = chain.wallet();
  const to = Keypair.generate().publicKey.toBase58();
  const { value } = await rpc.getLatestBlockhash({ commitment: 'confirmed' }).send();
  const { transaction, id } = await build(keypair, value, [transfer(payer, to, 2_000_000n)]);
  const send = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
  await send(transaction, { commitment: 'confirmed' });
  const read = await rpc
    .getTransaction(id, {
      commitment: 'confirmed',
      encoding: 'json',
      maxSupportedTransactionVersion: 1,
    })
    .send();
  t.equal(read?.version, 1);
  t.equal(read?.meta?.err, null);
  t.equal(read?.meta?.fee, 5_000n);
  t.equal((await rpc.getBalance(address(to)).send()).value, 2_000_000n);
  t.same(
    (await rpc.getSignaturesForAddress(address(to), { commitment: 'confirmed' }).send()).map(
      ({ signature }) => signature,
    ),
    [id],
  );
});

void t.test('web3.js decodes a version 1 transaction in every encoding', async (t) => {
  const { chain, id, wire, to, payer } = await landed(t);
  const connection = new Connection(chain.rpcUrl, 'confirmed');
  const read = await connection.getTransaction(id, { maxSupportedTransactionVersion: 1 });
  t.equal(read?.version, 1);
  const config = { ...LIMITS, priorityFee: 777, heapSize: null };
  t.match(read?.transaction.message, { version: 1, transactionConfig: config });
  t.same(read?.transaction.message.staticAccountKeys.slice(0, 2), [
    new PublicKey(payer),
    new PublicKey(to),
  ]);
  t.equal(read?.meta?.fee, 5_777);
  const parsed = await connection.getParsedTransaction(id, { maxSupportedTransactionVersion: 1 });
  t.equal(parsed?.version, 1);
  t.match(parsed?.transaction.message.instructions[0], { parsed: { type: 'transfer' } });
  for (const encoding of ['base64', 'base58'] as const) {
    const answer = await chain.rpc<{ transaction: [string]; version: number }>(
      'getTransaction',
      id,
      { encoding, commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
    );
    t.equal(answer.version, 1);
    if (encoding === 'base64') {
      t.equal(answer.transaction[0], wire.toString('base64'));
      t.equal(VersionedTransaction.deserialize(wire).message.version, 1);
    }
  }
});

void t.test(
  'a client without support of version 1 gets an error for it, and sees it in lists',
  async (t) => {
    const { chain, id, payer } = await landed(t);
    const get = (settings: object) =>
      refusal(chain.rpc('getTransaction', id, { commitment: 'confirmed', ...settings }));
    t.equal(await get({ maxSupportedTransactionVersion: 0 }), -32015);
    t.equal(await get({}), -32015);
    t.equal(await get({ maxSupportedTransactionVersion: 1 }), undefined);
    const [first] = await chain.rpc<object[]>('getSignaturesForAddress', payer, {
      commitment: 'confirmed',
    });
    t.match(first, { signature: id, err: null, memo: '[5] hello' });
    const { value } = await chain.rpc<{ value: object[] }>('getSignatureStatuses', [id]);
    t.match(value, [{ confirmationStatus: 'confirmed', err: null }]);
  },
);

void t.test(
  'a version 1 transaction without compute limits never lands, because missing limits count as zero',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 0 });
    const { keypair, address: payer } = chain.wallet();
    const send = async (config: V1TransactionConfig) => {
      const { wire } = await build(
        keypair,
        await latest(chain),
        [transfer(payer, payer, 1n)],
        config,
      );
      return chain.rpc('sendTransaction', wire.toString('base64'), encoded);
    };
    for (const config of [{}, { computeUnitLimit: 20_000 }])
      await t.rejects(send(config), {
        code: -32002,
        data: { err: 'MaxLoadedAccountsDataSizeExceeded' },
      });
    await t.rejects(send({ loadedAccountsDataSizeLimit: 1_000_000 }), { code: -32002 });
  },
);

void t.test(
  'a failed version 1 transaction lands, is listed, and reaches the streams with its logs',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 0 });
    const { keypair, address: payer } = chain.wallet();
    chain.mineBlocks();
    const stop = new AbortController();
    t.teardown(() => stop.abort());
    const notifications = await createSolanaRpcSubscriptions(chain.wsUrl)
      .logsNotifications({ mentions: [address(payer)] }, { commitment: 'confirmed' })
      .subscribe({ abortSignal: stop.signal });
    const { wire, id } = await build(keypair, await latest(chain), [
      transfer(payer, payer, 10n ** 15n),
    ]);
    const err = { InstructionError: [0, { Custom: 1 }] };
    const text = wire.toString('base64');
    const settings = { ...encoded, sigVerify: true };
    const { value: simulated } = await chain.rpc<{ value: object }>(
      'simulateTransaction',
      text,
      settings,
    );
    t.match(simulated, { err });
    await chain.rpc('sendTransaction', text, { ...encoded, skipPreflight: true });
    chain.mineBlocks();
    for await (const { value } of notifications) {
      t.equal(value.signature, id);
      t.match(value.err, { InstructionError: [0n, { Custom: 1n }] });
      t.match(value.logs.at(-1), /failed: custom program error: 0x1/);
      break;
    }
    const read = await new Connection(chain.rpcUrl, 'confirmed').getTransaction(id, {
      maxSupportedTransactionVersion: 1,
    });
    t.same(read?.meta?.err, err);
    t.equal(read?.meta?.fee, 5_000);
  },
);

void t.test('logs of a version 1 transaction are cut at 10,000 bytes', async (t) => {
  const chain = await startTestChain(t, { blockMs: 0 });
  const { keypair } = chain.wallet();
  const memos = Array.from({ length: 20 }, (_, i) => ({
    programAddress: MEMO,
    data: Buffer.from(String(i).padStart(150, 'x')),
  }));
  const noisy = memos.flatMap((memo) => [memo, memo]).slice(0, 22);
  const { wire, id } = await build(keypair, await latest(chain), noisy, {
    computeUnitLimit: 1_400_000,
    loadedAccountsDataSizeLimit: 1_000_000,
  });
  t.ok(wire.length > 1232 && wire.length <= 4096, `${wire.length} bytes`);
  t.equal(await chain.rpc('sendTransaction', wire.toString('base64'), encoded), id);
  chain.mineBlocks();
  const { meta } = await chain.rpc<{ meta: { logMessages: string[] } }>('getTransaction', id, {
    commitment: 'confirmed',
    maxSupportedTransactionVersion: 1,
  });
  t.ok(Buffer.byteLength(meta.logMessages.join('')) <= 10_000 + 'Log truncated'.length);
});

void t.test(
  'the feature account has the slot of the activation, and without it version 1 is refused',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 0 });
    const { keypair, address: payer } = chain.wallet();
    const feature = async () =>
      (
        await chain.rpc<{ value: { owner: string; data: [string] } | null }>(
          'getAccountInfo',
          FEATURE,
          { ...encoded, commitment: 'processed' },
        )
      ).value;
    const owner = 'Feature111111111111111111111111111111111111';
    t.match(await feature(), {
      owner,
      data: [Buffer.from([1, ...Buffer.alloc(8)]).toString('base64')],
    });
    const send = async (lamports: bigint) => {
      const { wire } = await build(keypair, await latest(chain), [
        transfer(payer, payer, lamports),
      ]);
      return refusal(chain.rpc('sendTransaction', wire.toString('base64'), encoded));
    };
    t.equal(await send(1n), undefined);
    chain.mineBlocks();
    await chain.rpc('localnet_setTransactionV1', false);
    t.equal(await feature(), null);
    t.equal(await send(2n), -32602, 'as bytes that are no transaction');
    chain.mineBlocks(3);
    await chain.rpc('localnet_setTransactionV1', true);
    const data = Buffer.from((await feature())?.data[0] ?? '', 'base64');
    t.equal(Number(data.readBigUInt64LE(1)), chain.slot());
    t.equal(await send(3n), undefined);
  },
);

void t.test('a version 1 transaction survives forks and restarts', async (t) => {
  const dataDir = t.testdir();
  const { chain, id, wire, to } = await landed(t, { dataDir });
  await chain.rpc('localnet_forgetBlocks', 1, { replay: true });
  chain.mineBlocks(2);
  const balance = await chain.rpc<{ value: number }>('getBalance', to, { commitment: 'confirmed' });
  t.equal(balance.value, 2_000_000, 'replayed on the other fork');
  const settings = { commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
  t.match(await chain.rpc('getTransaction', id, settings), { version: 1 });
  await chain.rpc('localnet_forgetBlocks', 2, { replay: false });
  t.equal(await chain.rpc('getTransaction', id, settings), null);
  const again = await build((await landedWallet(chain)).keypair, await latest(chain), [], LIMITS);
  t.ok(again.wire.length < wire.length);
  t.equal(await chain.rpc('sendTransaction', again.wire.toString('base64'), encoded), again.id);
  chain.mineBlocks();
  await chain.close();
  const reopened = await startTestChain(t, { blockMs: 0, dataDir });
  t.match(await reopened.rpc('getTransaction', again.id, settings), {
    version: 1,
    meta: { err: null },
  });
});

async function landedWallet(chain: TestChain) {
  const wallet = chain.wallet();
  chain.mineBlocks();
  return wallet;
}

// --- the decoder ---

function isRefused(bytes: Buffer, takesV1 = true): boolean {
  try {
    decodeTransaction(bytes, takesV1);
    return false;
  } catch (error) {
    if (error instanceof WireError) return true;
    throw error;
  }
}

const key = Keypair.generate();
const lifetime = {
  blockhash: Keypair.generate().publicKey.toBase58(),
  lastValidBlockHeight: 1n,
};

void t.test('the decoder of version 1 agrees with web3.js and kit', async (t) => {
  const to = Keypair.generate().publicKey;
  const payer = key.publicKey.toBase58();
  const config = { ...LIMITS, priorityFeeLamports: 9n, heapSize: 65_536 };
  const { wire, message } = await build(
    key,
    lifetime,
    [transfer(payer, to.toBase58(), 5n), { programAddress: MEMO, data: Buffer.from('x') }],
    config,
  );
  const mine = decodeTransaction(wire);
  const theirs = VersionedTransaction.deserialize(wire);
  t.equal(mine.message.version, 1);
  t.same(
    signaturesOf(mine).map((one) => [...one]),
    theirs.signatures.map((one) => [...one]),
  );
  t.equal(mine.message.keys.length, theirs.message.staticAccountKeys.length);
  t.equal(offerOf(mine.message).fee, 5_009);
  t.equal(offerOf(mine.message).price, 450n, 'micro-lamports per unit');
  t.ok(namesKey(wire, to.toBuffer()));
  t.notOk(namesKey(wire, Keypair.generate().publicKey.toBuffer()));
  const bare = getCompiledTransactionMessageEncoder().encode(compileTransactionMessage(message));
  t.same(decodeMessage(Buffer.from(bare)).keys, mine.message.keys);
  t.same(decodeTransaction(Buffer.concat([wire, Buffer.alloc(3)])).bytes, wire);
  t.equal((await verifiedTransactions([mine, mine, mine, mine])).length, 4);
  const forged = Buffer.from(wire);
  forged.writeUInt8(forged.readUInt8(200) ^ 1, 200);
  t.equal((await verifiedTransactions([decodeTransaction(forged)])).length, 0);
});

void t.test(
  'version 1 transactions with a malformed encoding are refused before LiteSVM',
  async (t) => {
    const payer = key.publicKey.toBase58();
    const { wire } = await build(key, lifetime, [
      transfer(payer, Keypair.generate().publicKey.toBase58(), 5n),
    ]);
    const refused = (bytes: Buffer, name: string) => t.ok(isRefused(bytes), name);
    const changed = (at: number, value: number) => {
      const bytes = Buffer.from(wire);
      bytes.writeUInt8(value, at);
      return bytes;
    };
    refused(changed(0, 0x82), 'version 2');
    refused(changed(1, 0), 'no signature');
    refused(changed(1, 13), 'thirteen signatures');
    refused(changed(2, 1), 'a read-only payer');
    refused(changed(4, 0x0d), 'half of the fee bits');
    refused(changed(4, 0x2c), 'an unknown config bit');
    refused(changed(40, 65), 'sixty-five instructions');
    refused(changed(41, 65), 'sixty-five keys');
    refused(wire.subarray(0, -1), 'a byte is missing');
    refused(Buffer.concat([wire, Buffer.alloc(4096)]), 'over 4,096 bytes');
    const twice = Buffer.from(wire);
    twice.copy(twice, 42 + 32, 42, 42 + 32);
    refused(twice, 'a key twice');
    t.ok(isRefused(wire, false), 'feature off');
    fc.assert(
      fc.property(fc.nat(wire.length - 1), fc.nat(255), (at, value) => {
        isRefused(changed(at, value)); // throws any other error
      }),
      { numRuns: 2_000 },
    );
  },
);
