// `billing dev` opens a checkout session and forwards events to a merchant's server. Without
// --api-url, the command runs a sandbox. With --api-url, the command uses that API and the
// merchant's key.
import { access, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createKeypairFile, readKeypair } from '../../chain/keypair.ts';
import { environmentText } from '../../config/environment-file.ts';
import { interruptible } from '../../daemon/run.ts';
import { isId } from '../../db/postgres/ids.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { lockDirectory } from '../../local/chain/disk/data-dir.ts';
import { freePorts } from '../../local/sandbox/ports.ts';
import { startSandbox, type Sandbox } from '../../local/sandbox/start.ts';
import { createLog } from '../../log.ts';
import { forwardAll, targetOf } from '../develop/listen.ts';
import {
  appOf,
  connect,
  type DeveloperApp,
  type DeveloperFlags,
  explained,
  type Session,
  withSession,
} from '../session.ts';
import { hyperlink, note, print } from '../terminal/print.ts';
import { safeText } from '../terminal/safe-text.ts';

export interface DevFlags extends DeveloperFlags {
  forwardTo?: string;
  dir: string;
  bodies: boolean;
}

/** Lamports and USDC (base units) that the sandbox adds to the wallet at each start. */
const GIFT = { lamports: 1_000_000_000n, usdc: 100_000_000n };

/** Runs `billing dev` until SIGINT, SIGTERM or SIGHUP. Returns 0. */
export function dev(flags: DevFlags): Promise<number> {
  return interruptible(true, async (signal) => {
    const envFile = join(flags.dir, 'env');
    const unlock = await prepare(flags.dir, envFile);
    let sandbox: Sandbox | undefined;
    try {
      const target = targetOf(
        flags.forwardTo ?? `http://127.0.0.1:${String((await freePorts(1))[0])}/`,
      );
      sandbox = flags.apiUrl === undefined ? await start(signal) : undefined;
      const setting = { flags, sandbox, target, envFile };
      const run = (session: Session) => forward(session, setting, signal);
      if (sandbox === undefined) await withSession(flags, signal, run);
      else await inSandbox(sandbox, run);
    } catch (error) {
      // A signal aborts the pending operation, so the operation fails. This failure is ignored. An
      // OperatorError is thrown even after a signal.
      if (!signal.aborted || error instanceof OperatorError) throw error;
    } finally {
      await rm(envFile, { force: true });
      await sandbox?.stop();
      unlock();
    }
    return 0;
  });
}

/**
 * Creates and locks the directory. Removes the env file that a killed run left behind, because
 * other programs take this file as the sign that `billing dev` is ready. Returns a function that
 * unlocks the directory.
 */
async function prepare(directory: string, envFile: string): Promise<() => void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const unlock = lockDirectory(directory, '--dir');
    await rm(envFile, { force: true });
    return unlock;
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`--dir cannot be used: ${messageOf(error)}`, 2, { cause: error });
  }
}

function start(signal: AbortSignal): Promise<Sandbox> {
  note('Starting Postgres, a local chain and the service...');
  const log = createLog('dev', { level: 'warn', pretty: process.stderr.isTTY, stream: 'stderr' });
  return startSandbox({
    subscribers: 0,
    periods: 4,
    seed: 1,
    chaos: 0,
    play: false,
    staysUp: true,
    report: () => undefined,
    log,
    signal,
  });
}

function inSandbox({ ready }: Sandbox, run: (session: Session) => Promise<void>): Promise<void> {
  const { apiUrl: url, merchants } = ready;
  const key = merchants[0]?.apiKey ?? '';
  return explained(url, run({ url, key, client: connect(url, key) }));
}

interface Setting {
  flags: DevFlags;
  sandbox: Sandbox | undefined;
  target: string;
  envFile: string;
}

async function forward(
  session: Session,
  { flags, sandbox, target, envFile }: Setting,
  signal: AbortSignal,
): Promise<void> {
  const { url, key, client } = session;
  const app = await appOf(session, flags.app ?? sandbox?.ready.merchants[0]?.appId, signal);
  const planId = await activePlan(session, app, signal);
  const sold = await client.post('/merchant/apps/{appId}/checkout-sessions', {
    path: { appId: app.id },
    body: { planId, externalId: 'customer-1' },
    signal,
  });
  const wallet = sandbox && (await fundedWallet(sandbox, join(flags.dir, 'wallet.json')));
  const checkout =
    sandbox === undefined
      ? pageUrl(sold.url)
      : sandbox.lead('/checkout', `${sold.url}#demo=${sandbox.ready.demo.secretKey}`);
  const ready = async (secret: string) => {
    const values = {
      BILLING_API_URL: url,
      BILLING_API_KEY: key,
      WEBHOOK_SECRET: secret,
      PORT: new URL(target).port,
      APP: app.id,
      PLAN: planId,
      ...(sandbox && { API: url, RPC: sandbox.ready.rpcUrl }),
      ...(wallet && { WALLET: wallet.file }),
    };
    await writeEnv(envFile, values);
    print(describe(app, { envFile, target, checkout, wallet: wallet?.address, values, sandbox }));
  };
  await forwardAll(session, { app, target, ready, bodies: flags.bodies }, signal);
}

async function activePlan(
  { client }: Session,
  app: DeveloperApp,
  signal: AbortSignal,
): Promise<string> {
  const path = { appId: app.id };
  const plans = await client.get('/merchant/apps/{appId}/plans', {
    path,
    query: { limit: 100 },
    signal,
  });
  const plan = plans.find(({ status }) => status === 'active');
  if (plan === undefined)
    throw new OperatorError(
      `The app ${app.name} has no active plan: publish one on the dashboard, or with POST /merchant/apps/${app.id}/plans.`,
    );
  if (!isId(plan.id)) throw new OperatorError('The API named a plan whose id is not a UUID.');
  return plan.id;
}

/** Returns the URL as browsers name it. Throws an OperatorError if it is not a page's URL. */
function pageUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new OperatorError('The API named a checkout page without an http:// or https:// URL.');
  return url.href;
}

/** Adds SOL and USDC to the wallet in `file`. Creates the wallet if the file does not exist. */
async function fundedWallet(
  { chain }: Sandbox,
  file: string,
): Promise<{ file: string; address: string }> {
  const exists = await access(file).then(
    () => true,
    () => false,
  );
  try {
    const { address } = await (exists ? readKeypair(file) : createKeypairFile(file));
    await chain.fund(address, GIFT);
    return { file, address };
  } catch (error) {
    throw new OperatorError(`${messageOf(error)}.`, 1, { cause: error });
  }
}

async function writeEnv(path: string, values: Record<string, string>): Promise<void> {
  await writeFile(`${path}.new`, environmentText(values), { mode: 0o600 });
  await rename(`${path}.new`, path);
}

function describe(
  { name }: DeveloperApp,
  shown: {
    envFile: string;
    target: string;
    checkout: string;
    wallet: string | undefined;
    values: { WEBHOOK_SECRET: string; BILLING_API_URL: string; BILLING_API_KEY: string };
    sandbox: Sandbox | undefined;
  },
): string {
  const { envFile, target, checkout, wallet, values, sandbox } = shown;
  const link = (url: string) => (process.stdout.isTTY ? hyperlink(url, url) : url);
  return [
    `app         ${safeText(name)}: its events go to ${target}`,
    `checkout    ${link(checkout)}${sandbox === undefined ? '' : '   (with a demo wallet)'}`,
    ...(sandbox === undefined
      ? []
      : [
          `dashboard   ${link(sandbox.pages.dashboard)}`,
          `reference   ${link(`${values.BILLING_API_URL}/docs`)}`,
        ]),
    ...(wallet === undefined ? [] : [`wallet      ${wallet}   100 USDC, 1 SOL`]),
    '',
    `For your server's environment (all of it is in ${envFile}: set -a; . ${envFile}):`,
    `BILLING_API_URL=${values.BILLING_API_URL}`,
    // The key of a sandbox is shown, because it is useless after the sandbox has stopped. A
    // merchant's own key is not shown.
    ...(sandbox === undefined ? [] : [`BILLING_API_KEY=${values.BILLING_API_KEY}`]),
    `WEBHOOK_SECRET=${values.WEBHOOK_SECRET}`,
    '',
    'ctrl-C ends it. Events:',
  ].join('\n');
}
