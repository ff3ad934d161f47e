// The content of a data directory after a stop, a kill and a truncated record.
import { cpSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Keypair, type PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { openStore } from '../../../../src/local/chain/disk/store.ts';
import {
  type Localnet,
  type LocalnetOptions,
  startLocalnet,
} from '../../../../src/local/chain/start.ts';
import { start } from '../../../fixtures/command.ts';
import { call, fundedWallet } from '../../../fixtures/localnet.ts';

const FEE = 5_000;
const DAY_MS = 86_400_000;

interface Sent {
  text: string;
  signature: string;
}

function signedTransfer(from: Keypair, to: PublicKey, lamports: number, blockhash: string): Sent {
  const transaction = new Transaction({
    feePayer: from.publicKey,
    blockhash,
    lastValidBlockHeight: 0,
  });
  transaction.add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports }));
  transaction.sign(from);
  return {
    text: transaction.serialize().toString('base64'),
    signature: bs58.encode(transaction.signature ?? new Uint8Array()),
  };
}

const latestHash = (url: string) =>
  call<{ value: { blockhash: string } }>(url, 'getLatestBlockhash', {
    commitment: 'confirmed',
  }).then(({ value }) => value.blockhash);

const balanceOf = (url: string, key: PublicKey) =>
  call<{ value: number }>(url, 'getBalance', key.toBase58(), { commitment: 'processed' }).then(
    ({ value }) => value,
  );

const statusesOf = (url: string, signatures: readonly string[]) =>
  call<{ value: ({ confirmationStatus: string; err: unknown } | null)[] }>(
    url,
    'getSignatureStatuses',
    signatures,
    {
      searchTransactionHistory: true,
    },
  ).then(({ value }) => value);

const send = (url: string, { text }: Sent) =>
  call<string>(url, 'sendTransaction', text, {
    encoding: 'base64',
    skipPreflight: true,
    preflightCommitment: 'confirmed',
  });

/**
 * A chain that the test closes itself, so that another may open its directory; closed at the end of
 * the test if it did not come to it.
 */
async function open(t: Test, options: LocalnetOptions): Promise<Localnet> {
  const net = await startLocalnet(options);
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= net.close());
  t.teardown(close);
  return { ...net, close };
}

void t.test('a chain can be closed twice', async (t) => {
  const chain = await startLocalnet({ dataDir: t.testdir(), blockMs: 0 });
  await Promise.all([chain.close(), chain.close()]);
  await chain.close();
});

void t.test(
  'state, history, clock and blockhashes survive a restart, and the chain continues',
  async (t) => {
    const dataDir = t.testdir();
    const first = await open(t, { dataDir, blockMs: 0 });
    const payer = fundedWallet(first);
    const stranger = Keypair.generate().publicKey;
    first.timeTravel({ absoluteTimestamp: first.now() + 30 * DAY_MS });
    first.mineBlocks();
    const blockhash = await latestHash(first.rpcUrl);
    const sent = signedTransfer(payer.keypair, stranger, 1_000_000, blockhash);
    await send(first.rpcUrl, sent);
    await call(first.rpcUrl, 'surfnet_setAccount', stranger.toBase58(), { data: 'c0ffee' });
    await call(first.rpcUrl, 'localnet_setFault', { kind: 'drop' });
    first.mineBlocks(3);
    const questions: [method: string, ...params: unknown[]][] = [
      ['getGenesisHash'],
      ['getAccountInfo', stranger.toBase58(), { commitment: 'confirmed', encoding: 'base64' }],
      ['getAccountInfo', first.mint, { commitment: 'confirmed', encoding: 'jsonParsed' }],
      [
        'getTokenAccountsByOwner',
        payer.address,
        { mint: first.mint },
        { commitment: 'confirmed', encoding: 'jsonParsed' },
      ],
      ['getTransaction', sent.signature, { commitment: 'confirmed' }],
      ['getBlockTime', first.slot() - 1],
    ];
    const values = (url: string) =>
      Promise.all(
        questions.map(async ([method, ...params]) => {
          const answer = await call(url, method, ...params);
          return typeof answer === 'object' && answer !== null && 'context' in answer
            ? (answer as { value?: unknown }).value
            : answer;
        }),
      );
    const signatures = (url: string) =>
      call<{ signature: string }[]>(url, 'getSignaturesForAddress', payer.address, {
        commitment: 'confirmed',
      }).then((list) => list.map(({ signature }) => signature));
    const [before, history, slot, now] = [
      await values(first.rpcUrl),
      await signatures(first.rpcUrl),
      first.slot(),
      first.now(),
    ];
    await first.close();

    const second = await open(t, { dataDir, blockMs: 0 });
    t.strictSame(await values(second.rpcUrl), before);
    t.strictSame(await signatures(second.rpcUrl), history);
    t.ok(second.slot() >= slot, 'slots go on');
    t.ok(second.now() >= now, 'the clock does not run backwards');
    t.match(
      await statusesOf(second.rpcUrl, [sent.signature]),
      [{ confirmationStatus: 'finalized' }],
      'what a restart finds is final',
    );
    t.equal(await send(second.rpcUrl, sent), sent.signature);
    t.equal(await balanceOf(second.rpcUrl, stranger), 1_000_000, 'it is not executed again');
    await send(second.rpcUrl, signedTransfer(payer.keypair, stranger, 2_000_000, blockhash));
    t.equal(
      await balanceOf(second.rpcUrl, stranger),
      3_000_000,
      'the blockhash is still good, and faults are off again',
    );
  },
);

void t.test(
  'a chain on a timer continues from the time to which its clock was moved',
  async (t) => {
    const dataDir = t.testdir();
    const first = await open(t, { dataDir });
    first.timeTravel({ absoluteTimestamp: Date.now() + 30 * DAY_MS });
    first.mineBlocks();
    await first.close();
    const second = await open(t, { dataDir });
    t.ok(second.now() >= Date.now() + 30 * DAY_MS - 60_000);
    t.ok(second.now() < Date.now() + 30 * DAY_MS + 60_000);
  },
);

void t.test('a fork survives a restart: dropped blocks stay dropped', async (t) => {
  const dataDir = t.testdir();
  const first = await open(t, { dataDir, blockMs: 0 });
  const payer = fundedWallet(first);
  first.mineBlocks();
  const stranger = Keypair.generate().publicKey;
  const blockhash = await latestHash(first.rpcUrl);
  const [kept, lost] = [
    signedTransfer(payer.keypair, stranger, 1_000_000, blockhash),
    signedTransfer(payer.keypair, stranger, 2_000_000, blockhash),
  ];
  await send(first.rpcUrl, kept);
  first.mineBlocks();
  await send(first.rpcUrl, lost);
  first.mineBlocks();
  await call(first.rpcUrl, 'localnet_forgetBlocks', 1);
  first.mineBlocks(2);
  await first.close();
  const second = await open(t, { dataDir, blockMs: 0 });
  t.match(await statusesOf(second.rpcUrl, [kept.signature, lost.signature]), [{ err: null }, null]);
  t.equal(await balanceOf(second.rpcUrl, stranger), 1_000_000);
  await send(second.rpcUrl, lost);
  t.equal(await balanceOf(second.rpcUrl, stranger), 3_000_000, 'the same bytes can land again');
});

void t.test('a truncated record in the log loses only the block of this record', async (t) => {
  const root = t.testdir();
  const dataDir = join(root, 'whole');
  const first = await open(t, { dataDir, blockMs: 0 });
  const payer = fundedWallet(first);
  first.mineBlocks();
  const stranger = Keypair.generate().publicKey;
  const blockhash = await latestHash(first.rpcUrl);
  const sent: Sent[] = [];
  const sizes: number[] = [];
  const log = () =>
    join(
      dataDir,
      readdirSync(dataDir)
        .filter((name) => name.startsWith('log-'))
        .sort()
        .at(-1) ?? '',
    );
  for (const lamports of [1_000_000, 2_000_000, 4_000_000]) {
    const transfer = signedTransfer(payer.keypair, stranger, lamports, blockhash);
    sent.push(transfer);
    await send(first.rpcUrl, transfer);
    first.mineBlocks();
    sizes.push(statSync(log()).size);
  }
  await first.close();
  const [, twoBlocks = 0, threeBlocks = 0] = sizes;
  for (const size of [threeBlocks - 1, twoBlocks + 9, twoBlocks + 3, twoBlocks]) {
    const dir = join(root, String(size));
    cpSync(dataDir, dir, { recursive: true });
    truncateSync(join(dir, basename(log())), size);
    const second = await startLocalnet({ dataDir: dir, blockMs: 0 });
    t.match(
      await statusesOf(
        second.rpcUrl,
        sent.map(({ signature }) => signature),
      ),
      [{ err: null }, { err: null }, null],
    );
    t.equal(await balanceOf(second.rpcUrl, stranger), 3_000_000);
    await second.close();
  }
});

void t.test('a directory that cannot be read is not kept locked', (t) => {
  const dir = t.testdir({ 'state-1': 'not a record' });
  for (let each = 0; each < 2; each += 1)
    t.throws(() => openStore(dir), { message: /^(?!.*in use)/ }, 'the same error each time');
  t.end();
});

void t.test('a data directory in use is refused with a clear error', async (t) => {
  const dataDir = t.testdir();
  const chain = await open(t, { dataDir, blockMs: 0 });
  const refusal = { message: /is in use by process \d+: stop it, or name another --data-dir/ };
  await t.rejects(startLocalnet({ dataDir }), refusal, 'by this process');
  const { code, stderr } = await start(t, ['localnet', '--port', '0', '--data-dir', dataDir]).ended;
  t.equal(code, 1);
  t.match(stderr, refusal.message, 'by another process');
  t.notMatch(stderr, /\n\s+at /, 'without a stack trace');
  t.equal(await call(chain.rpcUrl, 'getHealth'), 'ok');
  await chain.close();
  const next = await startLocalnet({ dataDir });
  await next.close();
});

void t.test(
  'kill -9 during traffic loses no confirmed transaction, and the next start is consistent',
  async (t) => {
    const dataDir = t.testdir();
    const running = start(t, [
      'localnet',
      '--port',
      '0',
      '--data-dir',
      dataDir,
      '--block-ms',
      '20',
      '--json',
    ]);
    const { rpcUrl } = JSON.parse(await running.line('"ready":true')) as { rpcUrl: string };
    const [made] = await call<{ address: string; secretKey: string }[]>(
      rpcUrl,
      'localnet_wallets',
      1,
    );
    const payer = Keypair.fromSecretKey(bs58.decode(made?.secretKey ?? ''));
    const stranger = Keypair.generate().publicKey;
    const balanceBefore = await balanceOf(rpcUrl, payer.publicKey);
    const lamportsOf = new Map<string, number>();
    const confirmed = new Set<string>();
    let lastSlot = 0;
    // Sends and asks in turn until the process is gone; it is killed when it has confirmed a good
    // number.
    const traffic = async () => {
      for (let lamports = 1_000_000; ;) {
        const blockhash = await latestHash(rpcUrl);
        const batch = Array.from({ length: 10 }, () => {
          lamports += 1;
          const sent = signedTransfer(payer, stranger, lamports, blockhash);
          lamportsOf.set(sent.signature, lamports);
          return sent;
        });
        await Promise.all(batch.map((sent) => send(rpcUrl, sent)));
        const asked = [...lamportsOf.keys()]
          .filter((signature) => !confirmed.has(signature))
          .slice(0, 256);
        const statuses = await statusesOf(rpcUrl, asked);
        for (const [index, signature] of asked.entries()) {
          const level = statuses[index]?.confirmationStatus;
          if (level === 'confirmed' || level === 'finalized') confirmed.add(signature);
        }
        lastSlot = await call<number>(rpcUrl, 'getSlot', { commitment: 'confirmed' });
        if (confirmed.size >= 150) running.child.kill('SIGKILL');
      }
    };
    await t.rejects(traffic(), /fetch failed/);
    t.equal((await running.ended).code, null, 'it was killed');

    const chain = await open(t, { dataDir });
    const found: string[] = [];
    const signatures = [...lamportsOf.keys()];
    for (let from = 0; from < signatures.length; from += 256) {
      const some = signatures.slice(from, from + 256);
      const statuses = await statusesOf(chain.rpcUrl, some);
      found.push(...some.filter((_, index) => statuses[index] !== null));
    }
    const kept = new Set(found);
    t.strictSame(
      [...confirmed].filter((signature) => !kept.has(signature)),
      [],
      `all of ${confirmed.size} confirmed ones are kept`,
    );
    const moved = found.reduce((sum, signature) => sum + (lamportsOf.get(signature) ?? 0), 0);
    t.equal(
      await balanceOf(chain.rpcUrl, stranger),
      moved,
      'balances are those of the transactions that are kept',
    );
    t.equal(
      await balanceOf(chain.rpcUrl, payer.publicKey),
      balanceBefore - moved - found.length * FEE,
    );
    t.ok(chain.slot() > lastSlot);
    const again = signedTransfer(payer, stranger, 999_999, await latestHash(chain.rpcUrl));
    await send(chain.rpcUrl, again);
    t.equal(await balanceOf(chain.rpcUrl, stranger), moved + 999_999, 'and it goes on');
  },
);

void t.test('a started chain answers requests, with and without a history', async (t) => {
  const dataDir = t.testdir();
  const past = await open(t, { dataDir, blockMs: 0 });
  for (let wallet = 0; wallet < 100; wallet += 1) {
    fundedWallet(past);
    past.mineBlocks(10);
  }
  await past.close();
  for (const options of [{}, { dataDir }]) {
    const chain = await startLocalnet(options);
    t.equal(await call(chain.rpcUrl, 'getHealth'), 'ok');
    await chain.close();
  }
});
