// Two generators from npm (test/generators) make clients of the OpenAPI document. The clients
// compile, page through a list, and narrow an event by its type.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { apiDocument, testApi } from '../fixtures/http.ts';
import { installPackages } from '../fixtures/packages.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Prints the names of all apps, a page of two at a time. */
const uses = {
  'hey-api': `
import { client } from './client.gen.ts';
import { listApps } from './sdk.gen.ts';
import type { WebhookEvent } from './types.gen.ts';
const [baseUrl, auth] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl, auth });
const names: string[] = [];
for (let cursor: string | undefined; ; ) {
  const { data, response } = await listApps({ query: { limit: 2, ...(cursor && { cursor }) }, throwOnError: true });
  names.push(...data.data.map(({ name }) => name));
  cursor = response.headers.get('x-next-cursor') ?? undefined;
  if (cursor === undefined) break;
}
console.log(names.join(','));
`,
  'swagger-typescript-api': `
import { Api, type WebhookEvent } from './api.ts';
const [baseUrl, token] = process.argv.slice(2) as [string, string];
const api = new Api({ baseUrl, baseApiParams: { headers: { authorization: \`Bearer \${token}\` } } });
const names: string[] = [];
for (let cursor: string | undefined; ; ) {
  const answer = await api.merchant.listApps({ limit: 2, ...(cursor && { cursor }) });
  names.push(...answer.data.data.map(({ name }) => name));
  cursor = answer.headers.get('x-next-cursor') ?? undefined;
  if (cursor === undefined) break;
}
console.log(names.join(','));
`,
};
/** Compiles where "type" narrows "data", and nowhere else. */
const narrowing = `
export function grossOf(event: WebhookEvent): string | undefined {
  if (event.type === 'payment_success') return event.data.amountGross;
  if (event.type === 'cancel_requested') {
    // @ts-expect-error: no such field on this type of event
    return event.data.amountGross;
  }
  return undefined;
}
`;

async function run(command: string, args: string[], cwd: string) {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number]>,
  ]);
  return { code, output: stdout + stderr, stdout };
}

/** Writes the client of each generator into a folder of its name. */
async function generate(directory: string): Promise<void> {
  const document = join(directory, 'openapi.json');
  await writeFile(document, JSON.stringify(await apiDocument()));
  const config = join(directory, 'hey-api.config.mjs');
  await writeFile(
    config,
    `export default ${JSON.stringify({
      input: document,
      output: { path: join(directory, 'hey-api'), tsConfigPath: null },
      logs: { level: 'silent' },
      plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    })};`,
  );
  const packages = join(await installPackages('test/generators'), 'node_modules');
  const commands = [
    ['@hey-api/openapi-ts/bin/run.js', '--file', config],
    [
      ...['swagger-typescript-api/dist/cli.mjs', 'generate', '--silent', '--path', document],
      ...['--output', join(directory, 'swagger-typescript-api'), '--name', 'api.ts'],
    ],
  ];
  for (const [script = '', ...args] of commands) {
    const { code, output } = await run(process.execPath, [join(packages, script), ...args], ROOT);
    if (code !== 0) throw new Error(output);
  }
}

void t.test(
  'clients from two OpenAPI generators compile, read pages of lists, and narrow event types',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    for (const name of ['a', 'b', 'c', 'd', 'e'])
      await api.call('POST', '/merchant/apps', { token, body: { name } });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as AddressInfo;
    const directory = t.testdir();
    await generate(directory);
    await writeFile(join(directory, 'package.json'), '{"type": "module"}');
    await cp(join(ROOT, 'node_modules/@types/node'), join(directory, 'node_modules/@types/node'), {
      recursive: true,
    });
    const compilerOptions = {
      module: 'esnext',
      moduleResolution: 'bundler',
      target: 'es2022',
      lib: ['es2023', 'dom', 'dom.iterable'],
      strict: true,
      noEmit: true,
      allowImportingTsExtensions: true,
      skipLibCheck: true,
      types: ['node'],
    };
    await writeFile(
      join(directory, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, include: Object.keys(uses) }),
    );
    for (const [name, use] of Object.entries(uses))
      await writeFile(join(directory, name, 'use.ts'), use + narrowing);
    const compiled = await run(
      process.execPath,
      [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', directory],
      directory,
    );
    t.equal(compiled.code, 0, compiled.output.slice(0, 2000));
    for (const name of Object.keys(uses)) {
      const used = await run(
        process.execPath,
        ['--import', 'tsx', join(directory, name, 'use.ts'), `http://127.0.0.1:${port}`, token],
        ROOT,
      );
      t.match(used, { code: 0, stdout: 'e,d,c,b,a\n' }, name);
    }
  },
);
