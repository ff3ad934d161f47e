// billing wallet against a hostile service: a server before a real one that changes its answers.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair, keypairFromSecret } from '../../../src/chain/keypair.ts';
import { publicKey, subscriptionAddress } from '../../../src/chain/program/addresses.ts';
import { cancelSubscription, type Instruction } from '../../../src/chain/program/instructions.ts';
import { messageIn, unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { decodeMessage } from '../../../src/chain/transactions/signed.ts';
import { transferLamports } from '../../../src/chain/transactions/system-instructions.ts';
import { runShared } from '../../fixtures/command.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';
import { publish, startChainServe } from '../../fixtures/serve.ts';
import { startTerminal } from '../../fixtures/terminal.ts';

/** Changes the data of a response to this path. */
type Change = (path: string, data: Record<string, unknown>) => Record<string, unknown>;

const honest: Change = (_path, data) => data;
let change = honest;
/** The paths of the requests since the last call of `wallet`. */
let paths: string[] = [];

const server = createServer((request, response) => {
  const path = request.url ?? '';
  paths.push(path);
  void (async () => {
    const chunks = (await request.toArray()) as Buffer[];
    const { authorization, 'content-type': type } = request.headers;
    const answer = await fetch(`${served.url}${path}`, {
      method: request.method ?? 'GET',
      headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    const body = (await answer.json()) as { data?: Record<string, unknown> };
    if (body.data) body.data = change(path, body.data);
    response.writeHead(answer.status).end(JSON.stringify(body));
  })();
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
t.teardown(() => server.close());
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
// The real service takes the hostile one's name, so that its own texts are signed.
const { chain, served } = await startChainServe(t, { PUBLIC_URL: url });

const seller = chain.wallet();
const merchant = await served.merchant(keypairFromSecret(seller.keypair.secretKey));
const [plan, third, dearer] = [
  await publish(served, merchant, seller, {}),
  await publish(served, merchant, seller, {}),
  await publish(served, merchant, seller, { amount: '900000000' }),
];
const file = join(await emptyDirectory(t), 'mine.json');
const { stdout: address } = await runShared(['wallet', 'new', file]);
chain.fund(address, { lamports: 1_000_000_000n, usdc: 100_000_000n });
const thief = generateKeypair().address;
const most = ['--amount', '1000'];

async function wallet(changed: Change, ...args: string[]) {
  [change, paths] = [changed, []];
  return runShared(['wallet', ...args]);
}

const at =
  (part: RegExp, changed: Change): Change =>
  (path, data) =>
    part.test(path) ? changed(path, data) : data;

void t.test('a sign-in text of another installation or role is not signed', async (t) => {
  const text = (from: RegExp, to: string) =>
    at(/nonce/, (_path, data) => ({ ...data, message: String(data.message).replace(from, to) }));
  const host = new URL(url).host.replaceAll('.', '\\.');
  const cases: [Change, RegExp][] = [
    [
      text(new RegExp(host, 'g'), 'billing.example'),
      /it signs in to http:\/\/billing\.example, not/,
    ],
    [text(/^\S+/, 'billing.example'), /is not of its host billing\.example/],
    [text(/a subscriber/, 'a merchant'), /it signs in as a merchant, not as a subscriber/],
    [text(new RegExp(address), thief), new RegExp(`of the wallet ${thief}, not of ${address}`)],
    [text(/^Nonce: .*$/m, `Nonce: ${thief.slice(0, 32)}`), /another nonce/],
    [text(/Expiration Time: 20/, 'Expiration Time: 21'), /longer than five minutes/],
    [text(/$/, '\nRequest ID: 1'), /is not a sign-in text/],
    [text(/[^]*/, '\u001b]0;x\u0007'), /is not a sign-in text/],
    [at(/nonce/, (_path, data) => ({ ...data, message: [data.message] })), /has no "message"/],
  ];
  for (const [changed, words] of cases) {
    const { code, stdout, stderr } = await wallet(
      changed,
      'subscribe',
      file,
      plan.id,
      '--api-url',
      url,
      ...most,
    );
    t.match({ code, stdout, stderr }, { code: 1, stdout: '', stderr: words });
    t.notMatch(stderr, '\u001b');
    t.same(paths, ['/auth/nonce'], 'no signature was sent');
  }
});

void t.test('a sign-in relayed from an installation with another name is not signed', async (t) => {
  const { code, stderr } = await wallet(
    honest,
    'subscribe',
    file,
    plan.id,
    '--api-url',
    served.url,
    ...most,
  );
  t.match({ code, stderr }, { code: 1, stderr: `it signs in to ${url}, not to ${served.url}.` });
});

/** Builds the transaction again with other instructions. */
function rebuilt(base64: string, edit: (all: Instruction[]) => Instruction[], payer = address) {
  const decoded = decodeMessage(messageIn(base64));
  if (decoded === undefined) throw new Error('no transaction');
  const all = decoded.instructions.map(({ programId, accounts, data }) => {
    const { signers, writable } = decoded;
    const one = transferLamports(address, address, 0n);
    one.programId = publicKey(programId);
    one.data = data;
    one.keys = accounts.map((key) => ({
      pubkey: publicKey(key),
      isSigner: signers.has(key),
      isWritable: writable.has(key),
    }));
    return one;
  });
  return unsignedTransaction(payer, edit(all), decoded.blockhash);
}

void t.test('a transaction that does more than subscribe to the plan is not signed', async (t) => {
  const theft = transferLamports(address, thief, 900_000_000n);
  const edited = (edit: (all: Instruction[]) => Instruction[]) =>
    at(/subscribe$/, (_path, data) => ({
      ...data,
      transaction: rebuilt(String(data.transaction), edit),
    }));
  const cases: [Change, RegExp][] = [
    [edited(() => [theft]), new RegExp(`- transfers 0\\.90 SOL from ${address} to ${thief}\n`)],
    [edited((all) => [theft, ...all]), /it transfers 0\.90 SOL .*, which was not asked for/],
    [edited((all) => [...all, theft]), /is not signed: it does not end with the subscription/],
    [edited((all) => all.slice(0, -1)), /is not signed: it does not end with the subscription/],
    [
      at(/subscribe$/, (_path, data) => ({ ...data, transaction: 'AAAA' })),
      /not a transaction that/,
    ],
    [
      at(/\/plans\/[^/]+$/, (_path, data) => ({ ...data, amount: '1' })),
      /it subscribes .*: 10\.00 USDC of the local chain every 730 hours, which was not asked for/,
    ],
    [
      at(/\/plans\/[^/]+$/, (_path, data) => ({ ...data, planPda: dearer.planPda })),
      /does not end with the subscription to/,
    ],
    [
      at(/\/plans\/[^/]+$/, (_path, data) => ({ ...data, id: dearer.id })),
      /does not describe the plan/,
    ],
    [at(/\/plans\/[^/]+$/, (_path, data) => ({ ...data, amount: '1e3' })), /does not describe/],
    [
      at(/\/plans\/[^/]+$/, (_path, data) => ({ ...data, mint: thief })),
      new RegExp(`it is about the token ${thief}, which is not USDC`),
    ],
  ];
  for (const [changed, words] of cases) {
    const said = await wallet(changed, 'subscribe', file, plan.id, '--api-url', url, ...most);
    t.not(said.code, 0);
    t.match(said.stderr, words);
    t.equal(said.stdout, '');
    t.notOk(
      paths.some((path) => path.endsWith('/transactions')),
      'nothing was sent',
    );
  }
  const subscribe = ['subscribe', file, plan.id, '--api-url', url, '--amount'];
  t.match(await wallet(honest, ...subscribe, '9.99'), {
    code: 1,
    stdout: '',
    stderr: /costs 10\.00 USDC a period, more than --amount 9\.99\.\n$/,
  });
  t.match(await wallet(honest, ...subscribe, '10'), {
    code: 0,
    stdout: /^subscription /m,
  });
});

const subscribing = ['subscribe', '--api-url', url, file];
function onTerminal(t: Test, changed: Change, ...args: string[]) {
  [change, paths] = [changed, []];
  return startTerminal(t, ['wallet', ...subscribing, ...args], { columns: 600 });
}
const wasSent = () => paths.some((path) => path.endsWith('/transactions'));

void t.test('without --amount the user confirms on a terminal what is signed', async (t) => {
  t.match(await wallet(honest, ...subscribing, plan.id), {
    code: 2,
    stdout: '',
    stderr: /^billing: Without a terminal, name the most .*: --amount <usdc>\.\n$/,
  });
  t.same(paths, [], 'the service was not asked');

  const asked = onTerminal(t, honest, dearer.id);
  const screen = await asked.waitFor('Sign this transaction? [y/N]');
  t.match(screen, /subscribes .*: 900\.00 USDC of the local chain every 730 hours/);
  t.notOk(wasSent());
  asked.press('n', 'enter');
  t.match(await asked.ended, { code: 2 });
  t.match(asked.screen(), 'The transaction is not signed: it was not confirmed.');
  t.notOk(wasSent(), 'nothing was sent');

  const confirmed = onTerminal(t, honest, dearer.id);
  await confirmed.waitFor('Sign this transaction? [y/N]');
  confirmed.press('y', 'enter');
  await confirmed.ended;
  t.ok(wasSent());
});

void t.test(
  'a session is not signed if it cancels a subscription that was neither named nor confirmed',
  async (t) => {
    const body = { planId: third.id };
    const path = `/merchant/apps/${merchant.appId}/checkout-sessions`;
    const { token } = merchant;
    const { id } = await served.call<{ id: string }>('POST', path, { token, body });
    const victim = subscriptionAddress(SUBSCRIPTIONS_PROGRAM, dearer.planPda, address).address;
    const cancelling = at(/subscribe$/, (_path, data) => ({
      ...data,
      transaction: rebuilt(String(data.transaction), (all) => [
        cancelSubscription(SUBSCRIPTIONS_PROGRAM, {
          subscriber: address,
          plan: dearer.planPda,
          subscription: victim,
        }),
        ...all,
      ]),
    }));
    const inSession = [...most, '--session', id];
    const run = (...args: string[]) =>
      wallet(cancelling, ...subscribing, third.id, ...inSession, ...args);
    for (const named of [[], ['--replaces', thief]]) {
      t.match(await run(...named), {
        code: 2,
        stdout: '',
        stderr: new RegExp(`it cancels the subscription ${victim} .*--replaces ${victim} signs it`),
      });
      t.notOk(wasSent(), 'nothing was sent');
    }
    t.match(await run('--replaces', 'thief'), { code: 2, stderr: /"thief" is not an address/ });
    await run('--replaces', victim);
    t.ok(wasSent(), 'the named one is cancelled');

    for (const [key, code] of [
      ['n', 2],
      ['y', undefined],
    ] as const) {
      const asked = onTerminal(t, cancelling, third.id, ...inSession);
      t.match(
        await asked.waitFor('Sign this transaction? [y/N]'),
        `cancels the subscription ${victim}`,
      );
      asked.press(key, 'enter');
      t.match(await asked.ended, code === undefined ? {} : { code });
      t.equal(wasSent(), key === 'y');
    }
  },
);

void t.test(
  'wallet send and sign transfer only the requested amount to the requested address',
  async (t) => {
    const blockhash = generateKeypair().address;
    const transfer = transferLamports(address, thief, 900_000_000n);
    const base64 = unsignedTransaction(address, [transfer], blockhash);
    for (const command of ['sign', 'send']) {
      const rpc = command === 'send' ? ['--rpc-url', chain.rpcUrl] : [];
      t.match(await wallet(honest, command, file, base64, ...rpc), {
        code: 2,
        stdout: '',
        stderr: new RegExp(`- transfers 0\\.90 SOL from ${address} to ${thief}\n.*is not signed`),
      });
    }
    const asked = ['--sol', '0.9', '--to', thief];
    t.match(await wallet(honest, 'sign', file, base64, ...asked), {
      code: 0,
      stdout: /^[\w+/=]+$/,
    });
    const wrong = ['--sol', '0.9', '--to', 'thief'];
    t.match(await wallet(honest, 'sign', file, base64, ...wrong), {
      code: 2,
      stderr: /"thief" is not an address/,
    });
  },
);
