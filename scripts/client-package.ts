// Part of "npm run build": writes dist/client-package, a package with the client and the webhook
// verification. "npm pack" packs this package too (postpack in package.json).
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'dist', 'client');
const target = join(root, 'dist', 'client-package');

interface ServerPackage {
  version: string;
  license: string;
}
const { version, license } = JSON.parse(
  await readFile(join(root, 'package.json'), 'utf8'),
) as ServerPackage;

const entry = (file: string) => ({ types: `./${file}.d.ts`, default: `./${file}.js` });
const manifest = {
  name: 'billing-client',
  version,
  description: 'Typed client of the billing API, and verification of its webhooks.',
  license,
  type: 'module',
  engines: { node: '>=20' },
  sideEffects: false,
  exports: {
    '.': entry('client'),
    './webhook': entry('webhook'),
    './package.json': './package.json',
  },
};

const readme = `# billing-client

Typed client of the billing API and verification of its webhooks, without dependencies. ES modules, Node 20 or newer; the client also in browsers.

    import { createClient } from 'billing-client';
    import { verifyWebhook } from 'billing-client/webhook';

    const billing = createClient({ baseUrl: 'https://billing.example', token: process.env.BILLING_KEY });
    const app = await billing.get('/merchant/apps/{appId}', { path: { appId } });

Types come from the API's OpenAPI document (/openapi.json; /docs shows it). Errors name the request and the cause: a BillingError is a refusal of the service
(code, status, details), a BillingConnectionError says that there was no answer.
`;

/**
 * Makes a file shorter: indents with tabs, puts comments on one line, and removes repeated comments
 * and repeated items of their lists. Also changes .ts to .js in import paths and removes the source
 * map reference.
 */
function packed(text: string): string {
  const said = new Set<string>();
  return text
    .replace(/\n\/\/# sourceMappingURL=.*/, '\n')
    .replaceAll(/(from '\.\/\w+)\.ts'/g, "$1.js'")
    .replaceAll(/^(?: {4})+/gm, (spaces) => '\t'.repeat(spaces.length / 4))
    .replaceAll(/\/\*\*\n(?:\t* \* (?!@).*\n)+\t* \*\//g, (comment) =>
      comment
        .replaceAll(/([^.:*])\n\t* \*(?! *\/)/g, '$1.')
        .replaceAll(/\n\t* \*(?!\/)/g, '')
        .replace(/\n\t* \*\//, ' */'),
    )
    .replaceAll(/^\t*(\/\*\* (?!@).* \*\/| \* +- .*)\n/gm, (line, comment: string) => {
      if (said.has(comment)) return '';
      said.add(comment);
      return line;
    })
    .replaceAll(/(?:\n\t* \*)+(?=\n\t* \*\/)/g, '');
}

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
for (const file of (await readdir(source)).filter((name) => !name.endsWith('.map')))
  await writeFile(join(target, file), packed(await readFile(join(source, file), 'utf8')));
await writeFile(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
await writeFile(join(target, 'README.md'), readme);
