// The packages as their users see them: billing-client, and billing/client of the server's, by
// name, compiled by tsc with strict settings and run by Node. Installed as archives:
// test/package/pack.package.ts.
import { execFile } from 'node:child_process';
import {
  cp,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { isLong } from '../fixtures/long.ts';
import { blockOf, blocksOf } from '../fixtures/pages.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tsc = join(root, 'node_modules/typescript/bin/tsc');
const run = promisify(execFile);

/** Declarations around the pages' code. */
const given = `
import type { IncomingMessage } from 'node:http';
declare const [appId, rawBody, secret, request]: [string, Buffer, string, IncomingMessage];
`;

const consumer = (name: string) => `
import { BillingError, createClient, type Client } from '${name === 'billing' ? 'billing/client' : name}';
import { verifyWebhook, WebhookVerificationError } from '${name}/webhook';

const billing: Client = createClient({ baseUrl: 'http://127.0.0.1:1', token: 'sk_test_x', retries: 2 });
export async function use(appId: string) {
  const app = await billing.get('/merchant/apps/{appId}', { path: { appId } });
  const name: string = app.name;
  for await (const subscription of billing.list('/merchant/apps/{appId}/subscriptions', { path: { appId }, query: { status: 'active' } })) {
    const amount: string = subscription.amount;
    const due: string | null = subscription.nextPaymentDue;
    void [amount, due];
  }
  await billing.post('/merchant/apps/{appId}/plans', { path: { appId }, body: { name, amount: '1000000', periodHours: 1 }, idempotencyKey: 'k' });
  // @ts-expect-error there is no such route
  await billing.get('/merchant/nothing');
  // @ts-expect-error the path's parameter is missing
  await billing.get('/merchant/apps/{appId}');
  // @ts-expect-error amounts are strings
  await billing.post('/merchant/apps/{appId}/plans', { path: { appId }, body: { name, amount: 1, periodHours: 1 } });
  // @ts-expect-error there is no such status
  await billing.get('/merchant/apps/{appId}/subscriptions', { path: { appId }, query: { status: 'gone' } });
  // @ts-expect-error no such field
  void app.nothing;
}
const refused = await billing.get('/merchant/profile').catch((error: unknown) => (error instanceof BillingError ? error.code : 'no answer'));
let reason: string = '';
try {
  const event = verifyWebhook('{}', {}, 'whsec_x');
  if (event.type === 'ping') void event.data.webhookId;
  else if (event.type === 'plan_blocked') void event.data.collectionBlockedReason;
  else if (event.type === 'credit_changed') void event.data.balance.length;
  else void event.data.sequence.toFixed();
} catch (error) {
  if (error instanceof WebhookVerificationError) reason = error.reason;
}
console.log(JSON.stringify([refused, reason]));
`;

const resolutions = {
  node16: { module: 'node16' },
  nodenext: { module: 'nodenext' },
  bundler: { module: 'esnext' },
};

void t.test(
  'a project that installs either package compiles against its declarations and runs',
  async (t) => {
    const project = await mkdtemp(join(tmpdir(), 'billing-consumer-'));
    t.teardown(() => rm(project, { recursive: true, force: true }));
    // The content of an installation by npm: the files listed in package.json, without
    // dependencies.
    const installed = join(project, 'node_modules/billing');
    await mkdir(join(project, 'node_modules/@types'), { recursive: true });
    await mkdir(installed);
    await cp(join(root, 'package.json'), join(installed, 'package.json'));
    await cp(join(root, 'dist/client'), join(installed, 'dist/client'), { recursive: true });
    const client = join(project, 'node_modules/billing-client');
    await cp(join(root, 'dist/client-package'), client, { recursive: true });
    await symlink(
      join(root, 'node_modules/@types/node'),
      join(project, 'node_modules/@types/node'),
    );
    await symlink(
      join(root, 'node_modules/undici-types'),
      join(project, 'node_modules/undici-types'),
    ).catch(() => undefined);
    await writeFile(join(project, 'package.json'), JSON.stringify({ type: 'module' }));
    const names = ['billing', 'billing-client'];
    for (const name of names) await writeFile(join(project, `${name}.ts`), consumer(name));
    // The code of the pages, unchanged.
    const pages = { 'readme.ts': '../README.md', 'merchants.ts': 'merchants.md' };
    for (const [file, page] of Object.entries(pages)) {
      const shown = (await blocksOf(page)).filter(({ language }) => language === 'ts');
      t.equal(shown.length, 1);
      await writeFile(join(project, file), given + shown.map(({ code }) => code).join(''));
    }
    await writeFile(
      join(project, 'receiver.ts'),
      await blockOf('webhooks.md', 'with-the-package.ts'),
    );
    const compilerOptions = {
      strict: true,
      noUncheckedIndexedAccess: true,
      target: 'es2023',
      lib: ['es2023'],
      types: ['node'],
      skipLibCheck: false,
    };
    for (const [moduleResolution, { module }] of Object.entries(resolutions)) {
      if (moduleResolution !== 'nodenext' && !isLong) continue;
      const config = {
        compilerOptions: { ...compilerOptions, module, moduleResolution, outDir: moduleResolution },
        files: [...names.map((name) => `${name}.ts`), ...Object.keys(pages), 'receiver.ts'],
      };
      await writeFile(join(project, 'tsconfig.json'), JSON.stringify(config));
      const compiled = await run(process.execPath, [tsc, '-p', project]).catch(
        (error: unknown) => error as { stdout: string },
      );
      t.equal(compiled.stdout, '', `${moduleResolution}: no complaint, of declarations neither`);
      for (const name of names) {
        const { stdout } = await run(process.execPath, [
          join(project, moduleResolution, `${name}.js`),
        ]);
        t.same(JSON.parse(stdout), ['no answer', 'missing_signature'], moduleResolution);
      }
    }
  },
);

void t.test(
  'billing-client has less than 200 KB, no dependencies and no other files',
  async (t) => {
    const folder = join(root, 'dist/client-package');
    const files = await readdir(folder);
    t.same(
      files.filter((name) => !/^\w+\.(js|d\.ts)$|^(package\.json|README\.md)$/.test(name)),
      [],
    );
    const sizes = await Promise.all(
      files.map(async (name) => (await stat(join(folder, name))).size),
    );
    const size = sizes.reduce((total, each) => total + each, 0);
    t.ok(size < 200_000, `${size} bytes`);
    const read = async (at: string) =>
      JSON.parse(await readFile(join(at, 'package.json'), 'utf8')) as Record<string, unknown>;
    const manifest = await read(folder);
    t.equal(manifest.version, (await read(root)).version);
    for (const field of ['dependencies', 'peerDependencies', 'optionalDependencies', 'scripts'])
      t.notOk(field in manifest, field);
  },
);

void t.test('neither client package has run-time dependencies', async (t) => {
  for (const folder of [join(root, 'dist/client'), join(root, 'dist/client-package')])
    for (const file of (await readdir(folder)).filter((name) => name.endsWith('.js'))) {
      const imported = [
        ...(await readFile(join(folder, file), 'utf8')).matchAll(
          /(?:from|import)\s*\(?\s*'([^']+)'/g,
        ),
      ].map(([, name]) => name!);
      t.same(
        imported.filter((name) => !name.startsWith('./') && !name.startsWith('node:')),
        [],
        file,
      );
    }
});
