// `npm run mobile-wallet` bundles the Mobile Wallet Adapter into src/pages/mobile-wallet.js. This
// file is committed, so that `npm ci` does not install the adapter's packages. With `-- --check`
// the script only compares the file.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import { installPackages } from '../test/fixtures/packages.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = 'scripts/mobile-wallet';
const target = join(root, 'src/pages/mobile-wallet.js');

/**
 * The package's dialogs are left out, because the pages' content security policy refuses their
 * inline styles. The pages have their own dialogs (src/pages/shared/phone-wallet.ts). The plugin
 * below also leaves out QR codes and Nostr relays, which connect a wallet on another device.
 */
const DIALOGS = {
  ErrorModal: 'errorModal',
  LocalConnectionModal: 'localConnectionModal',
  LoopbackPermissionBlockedModal: 'loopbackBlockedModal',
  LoopbackPermissionModal: 'loopbackPermissionModal',
  RemoteConnectionModal: 'remoteConnectionModal',
  EmbeddedLoadingSpinner: 'loadingSpinner',
} as const;
const NO_SPINNER =
  'class { init() {} open() {} close() {} addEventListener() { return () => {}; } }';
const NO_DIALOG =
  "class { constructor() { throw new Error('The browser has not allowed the connection.'); } }";

function withoutDialogs(source: string): string {
  let text = cut(source, 'modal', '');
  for (const [name, file] of Object.entries(DIALOGS)) {
    const stub = name === 'EmbeddedLoadingSpinner' ? NO_SPINNER : NO_DIALOG;
    text = cut(text, file, `const ${name} = ${stub};`);
  }
  return text;
}

/** Replaces a part of the package's file: the code that came from the source file `file`. */
function cut(text: string, file: string, replacement: string): string {
  const start = text.indexOf(`//#region src/embedded-modal/${file}.ts\n`);
  const end = text.indexOf('//#endregion\n', start);
  if (start === -1 || end === -1) throw new Error(`the package has no part ${file}`);
  return text.slice(0, start) + replacement + text.slice(end);
}

/**
 * Empties the table of error messages of @solana/errors. In production a SolanaError has its code
 * alone, but esbuild keeps the table, which is 60 % of the bundle, because its keys are computed.
 */
function withoutMessages(source: string): string {
  const text = source.replace(
    /var SolanaErrorMessages = \{\n[\s\S]*?\n\};\n/,
    'var SolanaErrorMessages = {};\n',
  );
  if (text === source) throw new Error('@solana/errors has no table of messages');
  return text;
}

const leaveOut: esbuild.Plugin = {
  name: 'leave-out',
  setup(build) {
    build.onLoad(
      { filter: /@solana[\\/]errors[\\/]dist[\\/]index\.browser\.mjs$/ },
      async ({ path }) => ({ contents: withoutMessages(await readFile(path, 'utf8')) }),
    );
    build.onLoad(
      { filter: /wallet-standard-mobile[\\/]lib[\\/]esm[\\/]index\.browser\.js$/ },
      async ({ path }) => ({
        contents: withoutDialogs(await readFile(path, 'utf8')),
      }),
    );
    build.onResolve({ filter: /^(qrcode|@noble\/curves\/secp256k1\.js)$/ }, ({ path }) => ({
      path,
      namespace: 'left-out',
    }));
    build.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({
      contents: 'export const schnorr = undefined; export default undefined;',
    }));
  },
};

/** Returns the text of src/pages/mobile-wallet.js. */
export async function bundleMobileWallet(): Promise<string> {
  const packages = await installPackages(folder);
  const { outputFiles } = await esbuild.build({
    stdin: {
      contents:
        "export { LocalSolanaMobileWalletAdapterWallet } from '@solana-mobile/wallet-standard-mobile';",
      resolveDir: packages,
    },
    absWorkingDir: packages,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    legalComments: 'inline',
    charset: 'utf8',
    // Leaves out error messages that are meant for developers.
    define: { 'process.env.NODE_ENV': '"production"' },
    minifySyntax: true,
    plugins: [leaveOut],
    write: false,
    logLevel: 'warning',
  });
  const { version } = JSON.parse(
    await readFile(
      join(packages, 'node_modules/@solana-mobile/wallet-standard-mobile/package.json'),
      'utf8',
    ),
  ) as { version: string };
  return `// @solana-mobile/wallet-standard-mobile ${version} (Apache-2.0) and what it imports, bundled by
// scripts/mobile-wallet.ts without the parts that it lists. Do not edit.
${outputFiles[0]?.text ?? ''}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = await bundleMobileWallet();
  if (!process.argv.includes('--check')) await writeFile(target, text);
  else if ((await readFile(target, 'utf8')) !== text) {
    console.error('src/pages/mobile-wallet.js differs: run "npm run mobile-wallet"');
    process.exitCode = 1;
  }
}
