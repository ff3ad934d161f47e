// billing wallet as a merchant's developer runs it: against a `billing serve` on a local chain.
// From stdin: docs/walk-through.md.
import { chmod, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import bs58 from 'bs58';
import t from 'tap';
import { freePorts } from '../../../src/local/sandbox/ports.ts';
import { runShared } from '../../fixtures/command.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';
import { startChainServe } from '../../fixtures/serve.ts';

const [port] = await freePorts(1);
const publicUrl = `http://localhost:${port}`;
const { chain, served } = await startChainServe(t, { PORT: String(port), PUBLIC_URL: publicUrl });
const dir = await emptyDirectory(t);
const wallet = (...args: string[]) => runShared(['wallet', ...args]);
const rpc = ['--rpc-url', chain.rpcUrl];
const api = ['--api-url', served.url];
const most = [...api, '--amount', '10'];

async function funded(name: string) {
  const file = join(dir, name);
  const { stdout: address } = await wallet('new', file);
  chain.fund(address, { lamports: 1_000_000_000n, usdc: 100_000_000n });
  return { file, address };
}

async function signIn({ file, address }: { file: string; address: string }, role: string) {
  const asked = await served.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
    body: { wallet: address, role },
  });
  const as = ['--as', role];
  const signed = await wallet('sign', file, asked.message, ...api, ...as);
  t.match(signed, { code: 0, stderr: `Signing in to ${served.url} as a ${role}.\n` });
  const signature = signed.stdout;
  const body = { wallet: address, nonce: asked.nonce, signature };
  return (await served.call<{ token: string }>('POST', '/auth/verify', { body })).token;
}

void t.test(
  'wallet new makes a keypair file that only its owner can read, prints the address alone, and overwrites nothing',
  async (t) => {
    const { file, address } = await funded('mine.json');
    t.equal((await stat(file)).mode & 0o777, 0o600);
    const text = await readFile(file, 'utf8');
    const bytes = Uint8Array.from(JSON.parse(text) as number[]);
    t.equal(bytes.length, 64);
    t.equal(bs58.encode(bytes.subarray(32)), address);
    t.match(await wallet('address', file), { code: 0, stdout: address, stderr: '' });
    t.match(await wallet('address', file, '--json'), { stdout: JSON.stringify({ address }) });
    t.match(await wallet('new', file), {
      code: 1,
      stdout: '',
      stderr: /^billing: the file .*mine\.json exists.*choose another name\.\n$/,
    });
    t.equal(await readFile(file, 'utf8'), text);
    await chmod(file, 0o644);
    t.match(await wallet('address', file), { code: 1, stderr: /is open to others.*chmod 600/ });
  },
);

void t.test('wallet balance shows SOL and USDC of a file or of an address', async (t) => {
  const { file, address } = await funded('rich.json');
  for (const which of [file, address])
    t.match(await wallet('balance', which, ...rpc), {
      code: 0,
      stdout: `${address} has 100.000000 USDC and 1.00 SOL.`,
      stderr: '',
    });
  const { stdout } = await wallet('balance', file, ...rpc, '--json');
  t.match(JSON.parse(stdout), { address, lamports: '1000000000', usdc: '100000000' });
  t.match(await wallet('balance', file), { code: 2, stderr: /Name the chain: --rpc-url/ });
  t.match(await wallet('balance', file, '--rpc-url', 'http://127.0.0.1:1'), {
    code: 1,
    stderr: /The chain at 127\.0\.0\.1:1: /,
  });
});

void t.test(
  'with wallet commands a merchant signs in and publishes plans, and a subscriber subscribes',
  async (t) => {
    const merchant = await funded('merchant.json');
    const token = await signIn(merchant, 'merchant');
    const app = await served.call<{ id: string }>('POST', '/merchant/apps', {
      token,
      body: { name: 'Tea' },
    });
    const draft = () =>
      served.call<{ id: string; transaction: string }>('POST', `/merchant/apps/${app.id}/plans`, {
        token,
        body: { name: 'Monthly', amount: '10000000', periodHours: 730 },
      });
    const [first, second] = [await draft(), await draft()];
    const sent = await wallet('send', merchant.file, first.transaction, ...rpc);
    t.match(sent, { code: 0, stdout: /^[1-9A-HJ-NP-Za-km-z]{80,90}$/ });
    t.match(
      sent.stderr,
      new RegExp(
        `^The transaction of the wallet ${merchant.address}\n- pays a network fee of \\S+ SOL at most\n- opens the token account .*\n- publishes the plan \\S+ of ${merchant.address}: 10\\.00 USDC of the local chain every 730 hours, paid to ${merchant.address} and \\S+, collected by \\S+\n$`,
      ),
    );
    const relayed = await wallet(
      'send',
      merchant.file,
      second.transaction,
      ...api,
      '--as',
      'merchant',
    );
    t.match(relayed, { code: 0, stderr: `Signing in to ${served.url} as a merchant.\n` });
    t.match(relayed.stdout, `plan ${second.id} is active`);

    const subscriber = await funded('subscriber.json');
    const { stdout, stderr } = await wallet('subscribe', subscriber.file, second.id, ...most);
    t.match(stderr, `Subscribing to the plan "Monthly" (${second.id}).\n`);
    t.match(stderr, `- approves the Subscriptions program to collect USDC of the local chain of`);
    t.match(
      stderr,
      new RegExp(`- subscribes ${subscriber.address} to the plan \\S+ of .*: 10.00 `),
    );
    const [, id = ''] = /^subscription (\S+)$/m.exec(stdout) ?? [];
    const [row] = await served.sql`select subscriber_wallet from subscriptions where id = ${id}`;
    t.match(row, { subscriberWallet: subscriber.address });
    t.match(await wallet('subscribe', subscriber.file, second.id, ...most), {
      code: 1,
      stdout: '',
      stderr: /already: it is registered, and GET \/subscriber\/subscriptions lists it\.\n$/,
    });

    const emptyFile = join(dir, 'empty.json');
    const { stdout: empty } = await wallet('new', emptyFile);
    const words = `of the wallet ${empty} failed: The wallet has too little SOL for this transaction.`;
    t.match(await wallet('subscribe', emptyFile, second.id, ...most), {
      code: 1,
      stdout: '',
      stderr: new RegExp(`^billing: The transaction \\S+ ${words.replaceAll('.', '\\.')}\n$`, 'm'),
    });

    const other = await wallet('sign', subscriber.file, first.transaction);
    t.match(other, { code: 2, stdout: '', stderr: /not a transaction that \S+ signs/ });
    const signed = await wallet('sign', merchant.file, first.transaction);
    t.match(await wallet('send', merchant.file, signed.stdout, ...rpc), { code: 0 }, 'sent again');
  },
);

void t.test('wallet sign refuses a text that is not a sign-in text of the wallet', async (t) => {
  const [mine, other] = [await funded('one.json'), await funded('two.json')];
  const { message } = await served.call<{ message: string }>('POST', '/auth/nonce', {
    body: { wallet: other.address, role: 'subscriber' },
  });
  t.match(await wallet('sign', mine.file, message, ...api), {
    code: 2,
    stdout: '',
    stderr: new RegExp(`the sign-in text is of the wallet ${other.address}`),
  });
  t.match(await wallet('sign', other.file, message), { code: 2, stderr: /Name the API/ });
  t.match(await wallet('sign', other.file, message, ...api, '--as', 'merchant'), {
    code: 2,
    stdout: '',
    stderr: /it signs in as a subscriber, not as a merchant/,
  });
  t.match(await wallet('sign', other.file, message, '--api-url', 'https://billing.example'), {
    code: 2,
    stdout: '',
    stderr: /it signs in to http:\/\/localhost:\d+, not to https:\/\/billing\.example/,
  });
  t.match(await wallet('sign', mine.file, 'send it all', ...api), {
    code: 2,
    stderr: /neither a trans/,
  });
  t.match(await wallet('sign', mine.file, 'AAAA'), { code: 2, stderr: /not a transaction that/ });
});
