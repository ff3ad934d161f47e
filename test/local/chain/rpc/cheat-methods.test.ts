// Cheatcodes: Surfpool's, with Surfpool's parameters, and the faucet of the local USDC.
import { createTransferInstruction, getAssociatedTokenAddressSync } from '@solana/spl-token';
import {
  Connection,
  Keypair,
  PublicKey,
  sendAndConfirmTransaction,
  SystemProgram,
  Transaction,
} from '@solana/web3.js';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { EPOCH_SLOTS, SLOT_MS } from '../../../../src/local/chain/state.ts';
import { type RpcFailure, startTestChain, type TestChain } from '../../../fixtures/localnet.ts';

const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';
const CLOCK = 'SysvarC1ock11111111111111111111111111111111';
const U64_MAX = 2n ** 64n - 1n;

interface EpochInfo {
  absoluteSlot: number;
  blockHeight: number;
  epoch: number;
  slotIndex: number;
}
interface Account {
  lamports: number;
  owner: string;
  data: [string, string];
  executable: boolean;
  rentEpoch: number;
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error as RpcFailure,
  );

const clockOf = (chain: TestChain, commitment = 'processed') =>
  chain
    .rpc<{
      value: { data: { parsed: { info: { slot: number; epoch: number; unixTimestamp: number } } } };
    }>('getAccountInfo', CLOCK, {
      commitment,
      encoding: 'jsonParsed',
    })
    .then(({ value }) => value.data.parsed.info);

const accountOf = (chain: TestChain, address: string) =>
  chain
    .rpc<{ value: Account | null }>('getAccountInfo', address, {
      commitment: 'processed',
      encoding: 'base64',
    })
    .then(({ value }) => value);

const ataOf = (chain: TestChain, owner: string) =>
  getAssociatedTokenAddressSync(new PublicKey(chain.mint), new PublicKey(owner), true).toBase58();

const tokensOf = (chain: TestChain, owner: string) =>
  chain
    .rpc<{ value: { data: { parsed: { info: Record<string, unknown> } } } | null }>(
      'getAccountInfo',
      ataOf(chain, owner),
      {
        commitment: 'processed',
        encoding: 'jsonParsed',
      },
    )
    .then(({ value }) => value?.data.parsed.info);

const supplyOf = (chain: TestChain) =>
  chain
    .rpc<{ value: { amount: string } }>('getTokenSupply', chain.mint, { commitment: 'processed' })
    .then(({ value }) => BigInt(value.amount));

const onDemand = (t: Test) => startTestChain(t, { blockMs: 0 });
const stranger = () => Keypair.generate().publicKey.toBase58();

void t.test('the clock starts at slot 0 with the chain', async (t) => {
  const chain = await onDemand(t);
  t.match(await clockOf(chain, 'confirmed'), { slot: 0, epoch: 0 });
  t.match(await clockOf(chain), { slot: 1, epoch: 0 });
});

void t.test(
  'time travel to a timestamp in ms moves clock and slots forward together',
  async (t) => {
    const chain = await onDemand(t);
    const [slot, now] = [chain.slot(), chain.now()];
    const days = 30 * 86_400_000;
    const info = await chain.rpc<EpochInfo>('surfnet_timeTravel', {
      absoluteTimestamp: now + days,
    });
    t.match(info, {
      absoluteSlot: slot + days / SLOT_MS,
      blockHeight: 2,
      epoch: Math.floor((slot + days / SLOT_MS) / EPOCH_SLOTS),
    });
    t.equal(chain.now(), now + days);
    t.match(await clockOf(chain), {
      unixTimestamp: Math.floor((now + days) / 1000),
      slot: info.absoluteSlot,
      epoch: info.epoch,
    });
    t.equal(
      await chain.rpc('getSlot', { commitment: 'confirmed' }),
      slot,
      'confirmed follows with the next block',
    );
    chain.mineBlocks();
    t.equal(await chain.rpc('getSlot', { commitment: 'confirmed' }), info.absoluteSlot);
    t.equal(await chain.rpc('getBlockTime', info.absoluteSlot), Math.floor((now + days) / 1000));
    t.equal(chain.now(), now + days + SLOT_MS);
  },
);

void t.test('time travel to a slot or an epoch moves the clock by 400 ms a slot', async (t) => {
  const chain = await onDemand(t);
  const [slot, now] = [chain.slot(), chain.now()];
  t.match(await chain.rpc('surfnet_timeTravel', { absoluteSlot: slot + 1_000 }), {
    absoluteSlot: slot + 1_000,
  });
  t.equal(chain.now(), now + 1_000 * SLOT_MS);
  t.match(await chain.rpc('surfnet_timeTravel', { absoluteEpoch: 3 }), {
    absoluteSlot: 3 * EPOCH_SLOTS,
    epoch: 3,
    slotIndex: 0,
  });
  t.equal(chain.now(), now + (3 * EPOCH_SLOTS - slot) * SLOT_MS);
  t.match(await clockOf(chain), {
    epoch: 3,
    slot: 3 * EPOCH_SLOTS,
    unixTimestamp: Math.floor(chain.now() / 1000),
  });
});

void t.test(
  'time travel to the past, or without exactly one destination, is refused without an effect',
  async (t) => {
    const chain = await onDemand(t);
    chain.timeTravel({ absoluteEpoch: 1 });
    const [slot, now] = [chain.slot(), chain.now()];
    const refused: [destination: object | undefined, message: RegExp][] = [
      [{ absoluteTimestamp: now - 1 }, /in the past/],
      [{ absoluteTimestamp: Math.floor(now / 1000) }, /in the past/],
      [{ absoluteSlot: slot - 1 }, /in the past/],
      [{ absoluteSlot: slot }, /in the past/],
      [{ absoluteEpoch: 1 }, /in the past/],
      [{ absoluteEpoch: 0 }, /in the past/],
      [{ absoluteTimestamp: String(now + 1000) }, /absoluteTimestamp/],
      [{ absoluteTimestamp: now + 0.5 }, /absoluteTimestamp/],
      [{ absoluteTimestamp: now * 1_000_000 }, /absoluteTimestamp/],
      [{ absoluteSlot: -1 }, /absoluteSlot/],
      [{ absoluteSlot: slot + 5, absoluteEpoch: 9 }, /give one of/],
      [{}, /give one of/],
      [undefined, /give one of/],
    ];
    for (const [destination, message] of refused) {
      const answer = await failure(
        chain.rpc('surfnet_timeTravel', ...(destination === undefined ? [] : [destination])),
      );
      t.equal(answer?.code, -32602, JSON.stringify(destination));
      t.match(answer?.message, message, JSON.stringify(destination));
    }
    t.strictSame([chain.slot(), chain.now()], [slot, now]);
  },
);

void t.test(
  'time travel skips slots but no blocks, so an earlier blockhash stays valid',
  async (t) => {
    const chain = await onDemand(t);
    const payer = chain.wallet();
    chain.mineBlocks();
    const { value } = await chain.rpc<{ value: { blockhash: string } }>('getLatestBlockhash', {
      commitment: 'confirmed',
    });
    chain.passSeconds(86_400);
    t.match(await chain.rpc('isBlockhashValid', value.blockhash, { commitment: 'processed' }), {
      value: true,
    });
    const to = stranger();
    const transaction = new Transaction({
      feePayer: payer.keypair.publicKey,
      blockhash: value.blockhash,
      lastValidBlockHeight: 0,
    });
    transaction.add(
      SystemProgram.transfer({
        fromPubkey: payer.keypair.publicKey,
        toPubkey: new PublicKey(to),
        lamports: 1_000_000,
      }),
    );
    transaction.sign(payer.keypair);
    await chain.rpc('sendTransaction', transaction.serialize().toString('base64'), {
      encoding: 'base64',
      preflightCommitment: 'confirmed',
    });
    t.equal((await accountOf(chain, to))?.lamports, 1_000_000);
  },
);

void t.test(
  'the clock continues from the destination of time travel with blocks on a timer',
  async (t) => {
    const chain = await startTestChain(t);
    const future = Date.now() + 365 * 86_400_000;
    await chain.rpc('surfnet_timeTravel', { absoluteTimestamp: future });
    const { unixTimestamp } = await clockOf(chain);
    t.ok(unixTimestamp >= Math.floor(future / 1000) && unixTimestamp < future / 1000 + 60);
    const before = chain.now();
    chain.mineBlocks(2);
    t.ok(chain.now() >= before && chain.now() < future + 60_000, 'neither back nor further ahead');
  },
);

void t.test(
  'surfnet_setAccount creates an account and changes only the given fields',
  async (t) => {
    const chain = await onDemand(t);
    const [address, owner] = [stranger(), stranger()];
    await chain.rpc('surfnet_setAccount', address, {
      lamports: 5_000_000,
      data: 'c0ffee00',
      owner,
      executable: false,
      rentEpoch: 7,
    });
    const first = {
      lamports: 5_000_000,
      owner,
      data: ['wP/uAA==', 'base64'],
      executable: false,
      rentEpoch: 7,
    };
    t.match(await accountOf(chain, address), first);
    const answer = await chain.rpc('surfnet_setAccount', address, { lamports: 6_000_000 });
    t.match(answer, { context: { slot: chain.slot() }, value: null });
    t.match(await accountOf(chain, address), { ...first, lamports: 6_000_000 });
    await chain.rpc('surfnet_setAccount', address, { data: '' });
    t.match(await accountOf(chain, address), {
      ...first,
      lamports: 6_000_000,
      data: ['', 'base64'],
    });
    const fresh = stranger();
    await chain.rpc('surfnet_setAccount', fresh, { lamports: 1_000_000 });
    t.match(await accountOf(chain, fresh), {
      lamports: 1_000_000,
      owner: '1'.repeat(32),
      data: ['', 'base64'],
      rentEpoch: Number(U64_MAX),
    });
  },
);

void t.test(
  'an account that was set reaches every commitment as blocks pass, and a fork reverts it',
  async (t) => {
    const chain = await onDemand(t);
    chain.mineBlocks();
    const address = stranger();
    await chain.rpc('surfnet_setAccount', address, { lamports: 5_000_000 });
    const balance = (commitment: string) =>
      chain
        .rpc<{ value: number }>('getBalance', address, { commitment })
        .then(({ value }) => value);
    t.strictSame([await balance('processed'), await balance('confirmed')], [5_000_000, 0]);
    chain.mineBlocks();
    t.strictSame([await balance('confirmed'), await balance('finalized')], [5_000_000, 0]);
    await chain.rpc('localnet_forgetBlocks', 1);
    t.equal(await balance('processed'), 0);
  },
);

void t.test('surfnet_setAccount refuses a malformed account', async (t) => {
  const chain = await onDemand(t);
  const address = stranger();
  const wrong: unknown[][] = [
    [],
    [address],
    ['nobody', { lamports: 1 }],
    [address, { lamports: -1 }],
    [address, { lamports: '18446744073709551616' }],
    [address, { data: 'abc' }],
    [address, { data: 'zz' }],
    [address, { owner: 'me' }],
    [address, { executable: 1 }],
  ];
  for (const params of wrong) {
    t.equal(
      (await failure(chain.rpc('surfnet_setAccount', ...params)))?.code,
      -32602,
      JSON.stringify(params),
    );
  }
  t.equal(await accountOf(chain, address), null);
});

void t.test(
  'surfnet_setTokenAccount creates the associated token account and changes only the given fields',
  async (t) => {
    const chain = await onDemand(t);
    const [owner, delegate, closer] = [stranger(), stranger(), stranger()];
    const amount = (text: string) => ({ amount: text, decimals: 6 });
    await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, { amount: 7_000_000 });
    const plain = await tokensOf(chain, owner);
    t.match(plain, {
      mint: chain.mint,
      owner,
      state: 'initialized',
      tokenAmount: { ...amount('7000000'), uiAmountString: '7' },
      isNative: false,
    });
    t.notOk(plain !== undefined && ('delegate' in plain || 'closeAuthority' in plain));
    t.equal((await accountOf(chain, ataOf(chain, owner)))?.owner, TOKEN_PROGRAM);
    const settings = {
      delegate,
      delegatedAmount: 3_000_000,
      state: 'frozen',
      closeAuthority: closer,
    };
    await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, settings, TOKEN_PROGRAM);
    t.match(await tokensOf(chain, owner), {
      delegate,
      delegatedAmount: amount('3000000'),
      state: 'frozen',
      closeAuthority: closer,
      tokenAmount: amount('7000000'),
    });
    await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, {
      delegate: 'null',
      closeAuthority: null,
      state: 'initialized',
      amount: 1,
    });
    const cleared = await tokensOf(chain, owner);
    t.match(cleared, { state: 'initialized', tokenAmount: amount('1') });
    t.notOk(cleared !== undefined && ('delegate' in cleared || 'closeAuthority' in cleared));
    await chain.rpc('surfnet_setTokenAccount', owner, chain.mint, { amount: String(U64_MAX) });
    t.match(await tokensOf(chain, owner), { tokenAmount: amount('18446744073709551615') });
  },
);

void t.test('tokens that were set can be spent by an ordinary transaction', async (t) => {
  const chain = await startTestChain(t, { blockMs: 200 });
  const [from, to] = [chain.wallet({ usdc: 0n }), chain.wallet({ usdc: 1n })];
  await chain.rpc('surfnet_setTokenAccount', from.address, chain.mint, { amount: 7_000_000 });
  const move = createTransferInstruction(
    new PublicKey(ataOf(chain, from.address)),
    new PublicKey(ataOf(chain, to.address)),
    from.keypair.publicKey,
    5_000_000,
  );
  const connection = new Connection(chain.rpcUrl, 'confirmed');
  await sendAndConfirmTransaction(connection, new Transaction().add(move), [from.keypair]);
  t.match(await tokensOf(chain, from.address), { tokenAmount: { amount: '2000000' } });
  t.match(await tokensOf(chain, to.address), { tokenAmount: { amount: '5000001' } });
});

void t.test(
  'surfnet_setTokenAccount refuses another token program, an account that is not a mint, and wrong values',
  async (t) => {
    const chain = await onDemand(t);
    const owner = stranger();
    const wrong: unknown[][] = [
      [owner],
      [owner, chain.mint],
      [owner, owner, { amount: 1 }],
      [owner, chain.mint, { amount: 1 }, TOKEN_2022_PROGRAM],
      [owner, chain.mint, { amount: -1 }],
      [owner, chain.mint, { amount: '18446744073709551616' }],
      [owner, chain.mint, { state: 'melted' }],
      [owner, chain.mint, { delegate: 'nobody' }],
    ];
    for (const params of wrong) {
      t.equal(
        (await failure(chain.rpc('surfnet_setTokenAccount', ...params)))?.code,
        -32602,
        JSON.stringify(params),
      );
    }
    t.equal(await accountOf(chain, ataOf(chain, owner)), null);
  },
);

void t.test(
  'the mint has 6 decimals, an address that is the same on every chain, and the faucet as its authority',
  async (t) => {
    const [chain, other] = await Promise.all([onDemand(t), onDemand(t)]);
    t.equal(chain.mint, 'USDCLoca1net1111111111111111111111111111111');
    t.strictSame([chain.mint, chain.faucet], [other.mint, other.faucet]);
    t.strictSame(await chain.rpc('localnet_info'), {
      faucet: chain.faucet,
      mint: chain.mint,
      decimals: 6,
    });
    t.match(
      await chain.rpc('getAccountInfo', chain.mint, {
        commitment: 'processed',
        encoding: 'jsonParsed',
      }),
      {
        value: {
          owner: TOKEN_PROGRAM,
          data: {
            program: 'spl-token',
            parsed: {
              type: 'mint',
              info: {
                decimals: 6,
                isInitialized: true,
                mintAuthority: chain.faucet,
                freezeAuthority: chain.faucet,
                supply: '0',
              },
            },
          },
        },
      },
    );
  },
);

void t.test(
  'the faucet mints to the canonical associated token account, and the supply is the sum of its mints',
  async (t) => {
    const chain = await onDemand(t);
    const owner = stranger();
    const signatures = new Set<string>();
    for (let gift = 0; gift < 3; gift += 1)
      signatures.add(await chain.rpc<string>('localnet_faucet', owner, 2_500_000));
    t.equal(signatures.size, 3, 'equal gifts in one block are transactions of their own');
    t.match(await tokensOf(chain, owner), {
      owner,
      mint: chain.mint,
      tokenAmount: { amount: '7500000', uiAmountString: '7.5' },
    });
    t.equal(await supplyOf(chain), 7_500_000n);
    chain.mineBlocks();
    const [signature] = signatures;
    t.match(await chain.rpc('getTransaction', signature, { commitment: 'confirmed' }), {
      meta: { err: null },
    });
    t.equal((await failure(chain.rpc('localnet_faucet', owner, -1)))?.code, -32602);
    t.equal((await failure(chain.rpc('localnet_faucet', owner)))?.code, -32602);
    t.equal(await supplyOf(chain), 7_500_000n);
  },
);

void t.test('the faucet cannot mint past the largest supply there is', async (t) => {
  const chain = await onDemand(t);
  await chain.rpc('localnet_faucet', stranger(), String(U64_MAX));
  const late = stranger();
  t.equal((await failure(chain.rpc('localnet_faucet', late, 1)))?.code, -32603);
  t.equal(await supplyOf(chain), U64_MAX);
  t.equal(await accountOf(chain, ataOf(chain, late)), null, 'nothing of the refused gift is left');
});

void t.test(
  'localnet_wallets makes wallets with SOL and USDC, and with keys that sign',
  async (t) => {
    const chain = await startTestChain(t, { blockMs: 200 });
    const wallets = await chain.rpc<{ address: string; secretKey: string }[]>(
      'localnet_wallets',
      3,
    );
    t.equal(new Set(wallets.map(({ address }) => address)).size, 3);
    for (const { address, secretKey } of wallets) {
      t.equal(Keypair.fromSecretKey(bs58.decode(secretKey)).publicKey.toBase58(), address);
      t.equal((await accountOf(chain, address))?.lamports, 10_000_000_000);
      t.match(await tokensOf(chain, address), { tokenAmount: { amount: '1000000000' } });
    }
    const [poor] = await chain.rpc<{ address: string }[]>('localnet_wallets', 1, {
      lamports: 1_000_000,
      amount: 0,
    });
    t.equal((await accountOf(chain, poor?.address ?? ''))?.lamports, 1_000_000);
    t.equal(await accountOf(chain, ataOf(chain, poor?.address ?? '')), null);
    const [payer] = wallets;
    const keypair = Keypair.fromSecretKey(bs58.decode(payer?.secretKey ?? ''));
    const to = stranger();
    const transfer = SystemProgram.transfer({
      fromPubkey: keypair.publicKey,
      toPubkey: new PublicKey(to),
      lamports: 1_000_000,
    });
    await sendAndConfirmTransaction(
      new Connection(chain.rpcUrl, 'confirmed'),
      new Transaction().add(transfer),
      [keypair],
    );
    t.equal((await accountOf(chain, to))?.lamports, 1_000_000);
  },
);

void t.test('localnet_mineBlocks seals the given number of blocks', async (t) => {
  const chain = await onDemand(t);
  const [slot, now] = [chain.slot(), chain.now()];
  t.equal(await chain.rpc('localnet_mineBlocks', 5), slot + 5);
  t.equal(await chain.rpc('localnet_mineBlocks'), slot + 6);
  t.equal(chain.now(), now + 6 * SLOT_MS);
  t.equal((await failure(chain.rpc('localnet_mineBlocks', 0)))?.code, -32602);
});
