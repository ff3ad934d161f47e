// @solana/web3.js's Connection and @solana/spl-token, unchanged, over HTTP and WebSocket.
import {
  getAccount,
  getAssociatedTokenAddressSync,
  getMint,
  getOrCreateAssociatedTokenAccount,
  transferChecked,
} from '@solana/spl-token';
import {
  type Commitment,
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  sendAndConfirmTransaction,
  SendTransactionError,
  type SignatureResult,
  SystemProgram,
  type TokenBalance,
  Transaction,
  TransactionExpiredBlockheightExceededError,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import {
  authorityAddress,
  planAddress,
  subscriptionAddress,
  TOKEN_PROGRAM,
} from '../../../src/chain/program/addresses.ts';
import {
  type Instruction,
  cancelSubscription,
  initAuthority,
  resumeSubscription,
  revokeAuthority,
  revokeDelegation,
  subscribe,
  transferSubscription,
} from '../../../src/chain/program/instructions.ts';
import {
  AUTHORITY_LENGTH,
  decodeAuthority,
  decodePlan,
  decodeSubscription,
  PLAN_LENGTH,
} from '../../../src/chain/program/layouts.ts';
import { createPlan } from '../../../src/chain/program/plan-instructions.ts';
import type { LocalnetOptions } from '../../../src/local/chain/start.ts';
import { FINALITY_BLOCKS } from '../../../src/local/chain/state.ts';
import { startTestChain, type TestChain } from '../../fixtures/localnet.ts';

const AMOUNT = 10_000_000n;
const FEE = 100_000n;
const HOURS = 720n;
const FEE_LAMPORTS = 5_000;

const transactionOf = (connection: Connection, signature: string) =>
  connection.getTransaction(signature, {
    commitment: 'confirmed',
    maxSupportedTransactionVersion: 0,
  });

// web3.js takes a finalized blockhash, 32 blocks old, and goes on using it for 30 s: the 118 blocks
// that are left of it last for 59 s at least.
async function setup(
  t: Test,
  options: LocalnetOptions = { blockMs: 500 },
  commitment: Commitment = 'confirmed',
) {
  const chain = await startTestChain(t, options);
  // Asked twice for the same, web3.js waits for another finalized blockhash: a chain this old has a
  // new one each block.
  chain.mineBlocks(FINALITY_BLOCKS);
  // Without a wsEndpoint web3.js expects the WebSocket one port up.
  const connection = new Connection(chain.rpcUrl, commitment);
  const send = (
    signers: readonly [Keypair, ...Keypair[]],
    ...instructions: readonly Instruction[]
  ) => sendAndConfirmTransaction(connection, new Transaction().add(...instructions), [...signers]);
  const ata = (owner: string) =>
    getAssociatedTokenAddressSync(new PublicKey(chain.mint), new PublicKey(owner));
  const dataOf = async (address: string) =>
    (await connection.getAccountInfo(new PublicKey(address)))?.data ?? Buffer.alloc(0);
  return { chain, connection, send, ata, dataOf, mint: new PublicKey(chain.mint) };
}

/** A merchant's plan, and a subscriber with five periods' money who has subscribed to it. */
async function subscribed({ chain, send, dataOf }: Awaited<ReturnType<typeof setup>>) {
  const { programId, mint } = chain;
  const [merchant, treasury] = [chain.wallet({ usdc: 1n }), chain.wallet({ usdc: 1n })];
  const [keeper, subscriber] = [chain.wallet({ usdc: 0n }), chain.wallet({ usdc: 5n * AMOUNT })];
  await send([subscriber.keypair], initAuthority(programId, { user: subscriber.address, mint }));
  const authority = authorityAddress(programId, subscriber.address, mint).address;
  const { initId } = decodeAuthority(await dataOf(authority));

  const planId = 7n;
  const { address: plan, bump: planBump } = planAddress(programId, merchant.address, planId);
  const terms = {
    planId,
    mint,
    amount: AMOUNT,
    periodHours: HOURS,
    endTs: 0n,
    destinations: [merchant.address, treasury.address],
    pullers: [keeper.address],
    metadataUri: 'https://example.org/plan',
  };
  await send(
    [merchant.keypair],
    createPlan(programId, { merchant: merchant.address, plan, terms }),
  );
  const { createdAt } = decodePlan(await dataOf(plan));

  const { address: subscription } = subscriptionAddress(programId, plan, subscriber.address);
  const parties = { subscriber: subscriber.address, plan, subscription };
  const agreed = { planId, planBump, mint, amount: AMOUNT, periodHours: HOURS, createdAt, initId };
  const opened = await send(
    [subscriber.keypair],
    subscribe(programId, { ...parties, merchant: merchant.address, terms: agreed }),
  );
  const pull = (amount: bigint, receiver: string) =>
    transferSubscription(programId, { ...parties, caller: keeper.address, mint, receiver, amount });
  return {
    merchant,
    treasury,
    keeper,
    subscriber,
    authority,
    plan,
    planId,
    subscription,
    parties,
    opened,
    pull,
  };
}

/** Waits for a promise to be refused and returns why. */
const refusalOf = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => new Error('it was not refused'),
    (error: unknown) => error,
  );

async function customError(sent: Promise<unknown>): Promise<SendTransactionError> {
  const error = await refusalOf(sent);
  if (!(error instanceof SendTransactionError)) throw error;
  return error;
}

void t.test(
  'a subscription is opened, pulled, cancelled, resumed, revoked and its authority closed',
  async (t) => {
    const all = await setup(t);
    const { chain, connection, send, ata, dataOf } = all;
    const { merchant, treasury, keeper, subscriber, authority, plan, subscription, parties, pull } =
      await subscribed(all);
    const { programId, mint } = chain;
    t.match(decodeAuthority(await dataOf(authority)), { user: subscriber.address, mint });
    t.match(decodePlan(await dataOf(plan)), {
      owner: merchant.address,
      amount: AMOUNT,
      periodHours: HOURS,
      pullers: [keeper.address],
    });

    await send([keeper.keypair], pull(AMOUNT - FEE, merchant.address), pull(FEE, treasury.address));
    const balance = async (owner: string) =>
      BigInt((await connection.getTokenAccountBalance(ata(owner))).value.amount);
    const balances = async () => [
      await balance(subscriber.address),
      await balance(merchant.address),
      await balance(treasury.address),
    ];
    const collected = [4n * AMOUNT, AMOUNT - FEE + 1n, FEE + 1n];
    t.same(await balances(), collected);
    t.equal(decodeSubscription(await dataOf(subscription)).amountPulled, AMOUNT);

    const refused = await customError(send([keeper.keypair], pull(1n, merchant.address)));
    t.match(refused.message, /Simulation failed.*\n?.*custom program error: 0x190/);
    t.ok(
      refused.logs?.includes(`Program ${programId} failed: custom program error: 0x190`),
      'the error carries the logs',
    );
    t.same(await balances(), collected, 'and nothing moved');

    const expiresAt = async () => decodeSubscription(await dataOf(subscription)).expiresAt;
    await send([subscriber.keypair], cancelSubscription(programId, parties));
    const end = await expiresAt();
    t.equal(end, decodeSubscription(await dataOf(subscription)).periodStart + HOURS * 3600n);
    await send(
      [subscriber.keypair],
      resumeSubscription(programId, { ...parties, mint, expiresAt: end }),
    );
    t.equal(await expiresAt(), 0n);
    await send([subscriber.keypair], cancelSubscription(programId, parties));

    const revoke = revokeDelegation(programId, {
      authority: subscriber.address,
      plan,
      subscription,
    });
    await customError(send([subscriber.keypair], revoke));
    t.equal((await dataOf(subscription)).length, 155, 'it cannot be revoked before it has run out');
    chain.passSeconds(Number(HOURS) * 3600 + 1);
    await send([subscriber.keypair], revoke);
    t.equal(await connection.getAccountInfo(new PublicKey(subscription)), null);

    await send(
      [subscriber.keypair],
      revokeAuthority(programId, { user: subscriber.address, mint }),
    );
    t.equal(await connection.getAccountInfo(new PublicKey(authority)), null);
    t.equal((await getAccount(connection, ata(subscriber.address))).delegate, null);
  },
);

void t.test('a failed second transfer of a payment undoes the first', async (t) => {
  const all = await setup(t);
  const { connection, send, ata } = all;
  const { merchant, treasury, keeper, subscriber, pull } = await subscribed(all);
  const refused = await customError(
    send([keeper.keypair], pull(AMOUNT, merchant.address), pull(1n, treasury.address)),
  );
  t.match(refused.message, /Error processing Instruction 1: custom program error: 0x190/);
  // Without preflight it lands, pays its fee and fails.
  const transaction = new Transaction({
    feePayer: keeper.keypair.publicKey,
    ...(await connection.getLatestBlockhash()),
  });
  transaction.add(pull(AMOUNT, merchant.address), pull(1n, treasury.address)).sign(keeper.keypair);
  const signature = await connection.sendRawTransaction(transaction.serialize(), {
    skipPreflight: true,
  });
  const result = await new Promise<SignatureResult>((resolve) =>
    connection.onSignature(signature, resolve, 'confirmed'),
  );
  t.same(result, { err: { InstructionError: [1, { Custom: 400 }] } });
  t.equal(
    (await connection.getTokenAccountBalance(ata(subscriber.address))).value.amount,
    String(5n * AMOUNT),
  );
  t.equal(
    await connection.getBalance(keeper.keypair.publicKey),
    10 * LAMPORTS_PER_SOL - FEE_LAMPORTS,
  );
  const landed = await transactionOf(connection, signature);
  t.same(landed?.meta?.err, { InstructionError: [1, { Custom: 400 }] });
  const amounts = (balances: TokenBalance[] | null | undefined) =>
    balances?.map(({ uiTokenAmount }) => uiTokenAmount.amount);
  t.same(amounts(landed?.meta?.postTokenBalances), amounts(landed?.meta?.preTokenBalances));
});

void t.test(
  'a landed pull is returned with inner instructions, balances and logs, raw and parsed',
  async (t) => {
    const all = await setup(t);
    const { chain, connection, send, ata } = all;
    const { merchant, treasury, keeper, subscriber, authority, subscription, opened, pull } =
      await subscribed(all);
    const signature = await send(
      [keeper.keypair],
      pull(AMOUNT - FEE, merchant.address),
      pull(FEE, treasury.address),
    );

    const landed = await transactionOf(connection, signature);
    const meta = landed?.meta;
    if (landed === null || meta === null || meta === undefined)
      throw new Error('the transaction is not there');
    t.equal(landed.version, 'legacy');
    t.ok(Math.abs((landed.blockTime ?? 0) - chain.now() / 1000) < 60);
    t.same(landed.transaction.signatures, [signature]);
    t.same([meta.err, meta.fee], [null, FEE_LAMPORTS]);
    const keys = landed.transaction.message
      .getAccountKeys()
      .staticAccountKeys.map((key) => key.toBase58());
    t.equal(keys[0], keeper.address);
    t.equal((meta.preBalances[0] ?? 0) - (meta.postBalances[0] ?? 0), FEE_LAMPORTS);
    t.equal(meta.postBalances.length, keys.length);
    const held = (balances: TokenBalance[] | null | undefined) =>
      new Map(
        balances?.map(({ accountIndex, owner, mint, uiTokenAmount }) => [
          keys[accountIndex],
          [owner, mint, uiTokenAmount.amount],
        ]),
      );
    const expected = (owner: string, amount: bigint) =>
      [ata(owner).toBase58(), [owner, chain.mint, String(amount)]] as const;
    t.same(
      held(meta.preTokenBalances),
      new Map([
        expected(subscriber.address, 5n * AMOUNT),
        expected(merchant.address, 1n),
        expected(treasury.address, 1n),
      ]),
    );
    t.same(
      held(meta.postTokenBalances),
      new Map([
        expected(subscriber.address, 4n * AMOUNT),
        expected(merchant.address, AMOUNT - FEE + 1n),
        expected(treasury.address, FEE + 1n),
      ]),
    );
    t.same(
      meta.innerInstructions?.map(({ index, instructions }) => [
        index,
        instructions.map((one) => keys[one.programIdIndex]),
      ]),
      [0, 1].map((index) => [index, [TOKEN_PROGRAM, chain.programId]]),
      'each pull calls the token program, then itself with its event',
    );
    const event = Buffer.from(
      bs58.decode(meta.innerInstructions?.[0]?.instructions[1]?.data ?? ''),
    );
    t.equal(event.subarray(0, 9).toString('hex'), 'e445a52e51cb9a1d02');
    t.equal(bs58.encode(event.subarray(9, 41)), subscription);
    t.equal(event.readBigUInt64LE(137), AMOUNT - FEE);
    t.equal(
      meta.logMessages?.filter((line) => line === `Program ${chain.programId} invoke [1]`).length,
      2,
    );
    t.ok((meta.computeUnitsConsumed ?? 0) > 0);

    const parsed = await connection.getParsedTransaction(signature, {
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
    });
    const [transfer] = parsed?.meta?.innerInstructions?.[1]?.instructions ?? [];
    t.match(transfer, {
      program: 'spl-token',
      parsed: {
        type: 'transferChecked',
        info: {
          source: ata(subscriber.address).toBase58(),
          destination: ata(treasury.address).toBase58(),
          authority,
          mint: chain.mint,
          tokenAmount: { amount: String(FEE), decimals: 6, uiAmount: 0.1, uiAmountString: '0.1' },
        },
      },
    });
    t.match(parsed?.transaction.message.accountKeys[0], {
      signer: true,
      writable: true,
      source: 'transaction',
    });

    t.same(
      (await connection.getSignaturesForAddress(new PublicKey(subscription))).map(
        (found) => found.signature,
      ),
      [signature, opened],
      'newest first',
    );
    const before = await connection.getSignaturesForAddress(new PublicKey(subscription), {
      before: signature,
      limit: 5,
    });
    t.match(before, [{ signature: opened, err: null, memo: null }]);
    const until = await connection.getSignaturesForAddress(new PublicKey(subscription), {
      until: opened,
    });
    t.same(
      until.map((found) => found.signature),
      [signature],
    );
    const { value } = await connection.getSignatureStatuses([
      signature,
      bs58.encode(Buffer.alloc(64, 7)),
    ]);
    t.match(value[0], { err: null, slot: landed.slot });
    t.equal(value[1], null);
  },
);

void t.test('accounts are found by program, content and length, whole and in part', async (t) => {
  const all = await setup(t);
  const { chain, connection, ata, mint } = all;
  const { merchant, subscriber, authority, plan, planId } = await subscribed(all);
  const program = new PublicKey(chain.programId);
  const owned = { memcmp: { offset: 1, bytes: merchant.address } };
  const [found, ...others] = await connection.getProgramAccounts(program, {
    filters: [{ dataSize: PLAN_LENGTH }, owned],
  });
  t.same([found?.pubkey.toBase58(), others.length], [plan, 0]);
  t.equal(decodePlan(found?.account.data ?? Buffer.alloc(0)).planId, planId);
  t.same(
    await connection.getProgramAccounts(program, {
      filters: [{ dataSize: AUTHORITY_LENGTH }, owned],
    }),
    [],
    'every filter counts',
  );
  const sliced = await connection.getProgramAccounts(program, {
    filters: [{ dataSize: PLAN_LENGTH }],
    dataSlice: { offset: 35, length: 8 },
  });
  t.same(
    sliced.map(({ account }) => account.data.readBigUInt64LE()),
    [planId],
  );
  t.equal(
    (await connection.getProgramAccounts(program)).length,
    3,
    'the authority, the plan and the subscription',
  );

  const account = ata(subscriber.address);
  const info = {
    isNative: false,
    mint: chain.mint,
    owner: subscriber.address,
    state: 'initialized',
    tokenAmount: { amount: '50000000', decimals: 6, uiAmount: 50, uiAmountString: '50' },
    delegate: authority,
    delegatedAmount: {
      amount: '18446744073709551615',
      decimals: 6,
      uiAmountString: '18446744073709.551615',
    },
  };
  const { value } = await connection.getParsedAccountInfo(account);
  t.match(value, {
    data: { program: 'spl-token', space: 165, parsed: { type: 'account', info } },
    executable: false,
  });
  for (const filter of [{ mint }, { programId: new PublicKey(TOKEN_PROGRAM) }]) {
    const owned = await connection.getParsedTokenAccountsByOwner(
      new PublicKey(subscriber.address),
      filter,
    );
    t.equal(owned.value.length, 1);
    t.ok(owned.value[0]?.pubkey.equals(account));
    t.match(owned.value[0]?.account.data.parsed, { type: 'account', info });
  }
  const raw = await connection.getTokenAccountsByOwner(new PublicKey(subscriber.address), { mint });
  t.ok(
    raw.value[0]?.account.data
      .subarray(32, 64)
      .equals(new PublicKey(subscriber.address).toBuffer()),
  );
  const stranger = await connection.getTokenAccountsByOwner(Keypair.generate().publicKey, { mint });
  t.same(stranger.value, []);
  t.match((await connection.getParsedAccountInfo(mint)).value?.data, {
    parsed: { type: 'mint', info: { decimals: 6, isInitialized: true } },
  });
  const several = await connection.getMultipleAccountsInfo([
    new PublicKey(plan),
    Keypair.generate().publicKey,
    account,
  ]);
  t.same(
    several.map((one) => one?.data.length),
    [PLAN_LENGTH, undefined, 165],
  );
});

void t.test(
  'a simulation returns a transaction’s effects and leaves the chain unchanged',
  async (t) => {
    const all = await setup(t);
    const { chain, connection, ata } = all;
    const { merchant, keeper, subscriber, pull } = await subscribed(all);
    const { blockhash: recentBlockhash } = await connection.getLatestBlockhash();
    const versioned = (payerKey: PublicKey, ...instructions: Instruction[]) =>
      new VersionedTransaction(
        new TransactionMessage({
          payerKey,
          recentBlockhash,
          instructions: instructions,
        }).compileToV0Message(),
      );
    const good = versioned(keeper.keypair.publicKey, pull(AMOUNT, merchant.address));
    const receiver = ata(merchant.address);
    const { value } = await connection.simulateTransaction(good, {
      innerInstructions: true,
      accounts: { encoding: 'base64', addresses: [receiver.toBase58()] },
    });
    t.equal(value.err, null);
    t.ok((value.unitsConsumed ?? 0) > 0);
    t.match(value.logs?.[0], `Program ${chain.programId} invoke [1]`);
    t.equal(value.innerInstructions?.[0]?.instructions.length, 2);
    t.equal(
      Buffer.from(value.accounts?.[0]?.data[0] ?? '', 'base64').readBigUInt64LE(64),
      AMOUNT + 1n,
      'the account as it would be',
    );
    t.equal((await getAccount(connection, receiver)).amount, 1n, 'and as it is');

    const greedy = versioned(keeper.keypair.publicKey, pull(AMOUNT + 1n, merchant.address));
    t.same((await connection.simulateTransaction(greedy)).value.err, {
      InstructionError: [0, { Custom: 400 }],
    });
    const { programId: program, data } = pull(1n, merchant.address);
    const stranger = versioned(
      subscriber.keypair.publicKey,
      new TransactionInstruction({ programId: program, keys: [], data }),
    );
    t.match((await connection.simulateTransaction(stranger)).value.err, {
      InstructionError: [0, { Custom: 113 }],
    });
    t.match(await refusalOf(connection.simulateTransaction(greedy, { sigVerify: true })), {
      message: /signature verification failure/,
    });
    const stale = new VersionedTransaction(
      new TransactionMessage({
        payerKey: keeper.keypair.publicKey,
        recentBlockhash: PublicKey.unique().toBase58(),
        instructions: [],
      }).compileToLegacyMessage(),
    );
    t.equal((await connection.simulateTransaction(stale)).value.err, 'BlockhashNotFound');
    t.equal(
      (await connection.simulateTransaction(stale, { replaceRecentBlockhash: true })).value.err,
      null,
    );
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- older wallets still call it
    const legacy = await connection.simulateTransaction(
      new Transaction().add(pull(AMOUNT, merchant.address)),
      [keeper.keypair],
    );
    t.equal(legacy.value.err, null);
  },
);

void t.test(
  'a version 0 transaction is sent, confirmed and read back by clients that support it',
  async (t) => {
    const all = await setup(t);
    const { connection } = all;
    const { merchant, keeper, pull } = await subscribed(all);
    const latest = await connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: keeper.keypair.publicKey,
      recentBlockhash: latest.blockhash,
      instructions: [pull(AMOUNT, merchant.address)],
    }).compileToV0Message();
    t.equal((await connection.getFeeForMessage(message)).value, FEE_LAMPORTS);
    const transaction = new VersionedTransaction(message);
    transaction.sign([keeper.keypair]);
    const signature = await connection.sendTransaction(transaction);
    t.equal(signature, bs58.encode(transaction.signatures[0] ?? []));
    t.same((await connection.confirmTransaction({ signature, ...latest })).value, { err: null });
    const landed = await transactionOf(connection, signature);
    t.equal(landed?.version, 0);
    t.same(landed?.transaction.message.serialize(), message.serialize());
    t.match(await refusalOf(connection.getParsedTransaction(signature, 'confirmed')), {
      code: -32015,
    });
    const again = await customError(connection.sendTransaction(transaction));
    t.match(again.message, /This transaction has already been processed/);
  },
);

void t.test(
  'an airdrop is confirmed over the WebSocket and finalized 32 blocks later',
  async (t) => {
    const { connection } = await setup(t, { blockMs: 100 });
    const { publicKey } = Keypair.generate();
    const latest = await connection.getLatestBlockhash();
    const signature = await connection.requestAirdrop(publicKey, 2 * LAMPORTS_PER_SOL);
    t.same((await connection.confirmTransaction({ signature, ...latest }, 'confirmed')).value, {
      err: null,
    });
    t.equal(await connection.getBalance(publicKey, 'confirmed'), 2 * LAMPORTS_PER_SOL);
    t.same((await connection.confirmTransaction({ signature, ...latest }, 'finalized')).value, {
      err: null,
    });
    t.equal(await connection.getBalance(publicKey, 'finalized'), 2 * LAMPORTS_PER_SOL);
    const { value } = await connection.getSignatureStatus(signature);
    t.match(value, { confirmationStatus: 'finalized', confirmations: null });
  },
);

void t.test(
  'a blockhash is valid for 150 blocks, then web3.js reports a lost transaction as expired',
  async (t) => {
    const { chain, connection } = await setup(t, { blockMs: 0 });
    const { keypair } = chain.wallet();
    chain.mineBlocks();
    const latest = await connection.getLatestBlockhash();
    const transfer = (lamports: number) => {
      const transaction = new Transaction({ feePayer: keypair.publicKey, ...latest });
      transaction
        .add(
          SystemProgram.transfer({
            fromPubkey: keypair.publicKey,
            toPubkey: keypair.publicKey,
            lamports,
          }),
        )
        .sign(keypair);
      return transaction.serialize();
    };
    t.equal(latest.lastValidBlockHeight - (await connection.getBlockHeight()), 150);
    await chain.rpc('localnet_setFault', { kind: 'drop', count: 1 });
    const signature = await connection.sendRawTransaction(transfer(1));

    chain.mineBlocks(149);
    t.ok((await connection.isBlockhashValid(latest.blockhash)).value);
    await connection.sendRawTransaction(transfer(2));
    chain.mineBlocks(2);
    t.equal(await connection.getBlockHeight(), latest.lastValidBlockHeight + 1);
    t.notOk((await connection.isBlockhashValid(latest.blockhash)).value);
    const late = await customError(connection.sendRawTransaction(transfer(3)));
    t.match(late.message, /Blockhash not found/);
    const expired = await refusalOf(connection.confirmTransaction({ signature, ...latest }));
    t.ok(
      expired instanceof TransactionExpiredBlockheightExceededError &&
        expired.signature === signature,
    );
    t.equal(
      (await connection.getSignatureStatus(signature, { searchTransactionHistory: true })).value,
      null,
    );
  },
);

void t.test('a transaction that cannot run is refused with SendTransactionError', async (t) => {
  const { chain, connection } = await setup(t);
  const { keypair } = chain.wallet();
  const poor = Keypair.generate();
  const pay = (from: Keypair, lamports: number) =>
    new Transaction().add(
      SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: keypair.publicKey, lamports }),
    );
  const broke = await customError(
    sendAndConfirmTransaction(connection, pay(keypair, 11 * LAMPORTS_PER_SOL), [keypair]),
  );
  t.match(broke.message, /Error processing Instruction 0: custom program error: 0x1/);
  t.ok(broke.logs?.some((line) => line.startsWith('Transfer: insufficient lamports')));
  const unknown = await customError(sendAndConfirmTransaction(connection, pay(poor, 1), [poor]));
  t.match(unknown.message, /Attempt to debit an account but found no record of a prior credit/);
  t.same(unknown.logs, []);
  const forged = pay(keypair, 1);
  forged.feePayer = keypair.publicKey;
  forged.recentBlockhash = (await connection.getLatestBlockhash()).blockhash;
  forged.addSignature(keypair.publicKey, Buffer.alloc(64, 1));
  const unsigned = await customError(
    connection.sendRawTransaction(forged.serialize({ verifySignatures: false })),
  );
  t.match(unsigned.message, /Transaction signature verification failure/);
});

void t.test('spl-token’s helpers open, read and move token accounts', async (t) => {
  const { chain, connection, ata, mint } = await setup(t);
  const { keypair: payer, address } = chain.wallet({ usdc: AMOUNT });
  const { publicKey: owner } = Keypair.generate();
  const { decimals, supply, isInitialized, mintAuthority } = await getMint(
    connection,
    mint,
    'processed',
  );
  t.same(
    [decimals, supply >= AMOUNT, isInitialized, mintAuthority?.toBase58()],
    [6, true, true, chain.faucet],
  );
  const opened = await getOrCreateAssociatedTokenAccount(
    connection,
    payer,
    mint,
    owner,
    false,
    'confirmed',
  );
  t.match(opened, { amount: 0n, isInitialized: true, delegate: null });
  const [creation] = await connection.getSignaturesForAddress(opened.address, {}, 'confirmed');
  const created = await connection.getParsedTransaction(creation?.signature ?? '', 'confirmed');
  t.match(
    created?.meta?.innerInstructions?.[0]?.instructions.map((one) =>
      'parsed' in one ? (one.parsed as unknown) : null,
    ),
    [
      {
        type: 'getAccountDataSize',
        info: { mint: chain.mint, extensionTypes: ['immutableOwner'] },
      },
      { type: 'createAccount', info: { newAccount: opened.address.toBase58(), space: 165 } },
      { type: 'initializeImmutableOwner', info: { account: opened.address.toBase58() } },
      {
        type: 'initializeAccount3',
        info: { account: opened.address.toBase58(), mint: chain.mint, owner: owner.toBase58() },
      },
    ],
    'as a validator parses the opening of a token account',
  );
  t.ok(opened.address.equals(ata(owner.toBase58())) && opened.owner.equals(owner));
  const again = await getOrCreateAssociatedTokenAccount(
    connection,
    payer,
    mint,
    owner,
    false,
    'confirmed',
  );
  t.ok(again.address.equals(opened.address));
  await transferChecked(
    connection,
    payer,
    ata(address),
    mint,
    opened.address,
    payer,
    FEE,
    decimals,
  );
  t.equal((await getAccount(connection, opened.address)).amount, FEE);
  t.equal((await getAccount(connection, ata(address))).amount, AMOUNT - FEE);
  t.equal((await getMint(connection, mint)).supply, supply);
  t.equal((await connection.getTokenSupply(mint)).value.amount, String(supply));
});

void t.test(
  'web3.js reads slots, version, genesis hash, epoch, rent and fees from the chain',
  async (t) => {
    const { chain, connection }: { chain: TestChain; connection: Connection } = await setup(t, {
      blockMs: 0,
    });
    chain.mineBlocks(3);
    const slot = await connection.getSlot();
    t.equal(slot, chain.slot() - 1);
    t.equal(await connection.getSlot('processed'), chain.slot());
    t.match(await connection.getVersion(), { 'solana-core': /^\d+\.\d+\.\d+$/ });
    t.match(await connection.getGenesisHash(), /^[1-9A-HJ-NP-Za-km-z]{32,44}$/);
    t.equal(await connection.getBlockTime(chain.slot()), Math.floor(chain.now() / 1000));
    const epoch = await connection.getEpochInfo();
    t.equal(epoch.absoluteSlot, slot);
    t.equal(epoch.epoch * epoch.slotsInEpoch + epoch.slotIndex, slot);
    t.equal(await connection.getMinimumBalanceForRentExemption(165), 1_488_440);
    t.match(await connection.getRecentPrioritizationFees(), [{ prioritizationFee: 0 }]);
  },
);
