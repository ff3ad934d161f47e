// What the bundle of the Mobile Wallet Adapter (src/pages/mobile-wallet.ts) leaves out of the
// adapter's packages. The build fails when a package has another form than the cuts expect.
import { readFile } from 'node:fs/promises';
import type { Plugin } from 'esbuild';

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

/** Bundles the adapter without dialogs, error messages, QR codes and relays. */
export const smallAdapter: Plugin = {
  name: 'small-adapter',
  setup(esbuild) {
    esbuild.onLoad(
      { filter: /@solana[\\/]errors[\\/]dist[\\/]index\.browser\.mjs$/ },
      async ({ path }) => ({ contents: withoutMessages(await readFile(path, 'utf8')) }),
    );
    esbuild.onLoad(
      { filter: /wallet-standard-mobile[\\/]lib[\\/]esm[\\/]index\.browser\.js$/ },
      async ({ path }) => ({
        contents: withoutDialogs(await readFile(path, 'utf8')),
      }),
    );
    esbuild.onResolve({ filter: /^(qrcode|@noble\/curves\/secp256k1\.js)$/ }, ({ path }) => ({
      path,
      namespace: 'left-out',
    }));
    esbuild.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({
      contents: 'export const schnorr = undefined; export default undefined;',
    }));
  },
};
