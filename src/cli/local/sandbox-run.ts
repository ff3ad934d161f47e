// `billing sandbox`: runs a chain, a database and all daemons on this machine, and plays a
// scenario.
import { once } from 'node:events';
import { prepareTerminal } from '../../config/terminal.ts';
import { interruptible } from '../../daemon/run.ts';
import { Interrupted } from '../../errors.ts';
import { startSandbox, type Sandbox, type Summary } from '../../local/sandbox/start.ts';
import { createLog } from '../../log.ts';
import { pressEnter } from '../terminal/ask.ts';
import { hyperlink } from '../terminal/print.ts';
import type { ScenarioProgress } from './sandbox-screen.ts';
import { prepareWallets, removeEnv, writeWallets } from './wallet-files.ts';

export interface SandboxFlags {
  once?: boolean;
  json?: boolean;
  subscribers: number;
  periods: number;
  seed: number;
  chaos: number;
  dataDir?: string;
  /** Whether the line that --json prints includes the demo wallet's key and the URLs with keys. */
  secrets?: boolean;
  writeWallets?: string;
  play: boolean;
}

/**
 * Runs the sandbox until SIGINT, SIGTERM or SIGHUP arrives or the user leaves the screen. With
 * --once, plays the scenario, then stops and returns 0 if every invariant held, else 1. If a signal
 * arrives during the start or a --once run, stops all processes and throws Interrupted.
 */
export function sandbox(flags: SandboxFlags): Promise<number> {
  return interruptible(true, async (signal) => {
    try {
      return await runSandbox(flags, signal);
    } catch (error) {
      // A signal makes the running steps of the scenario fail. The command then throws Interrupted,
      // with the error of the failed step as its cause.
      if (signal.aborted)
        throw Interrupted.by(signal, flags.once === true ? CUT_SHORT : 'Interrupted.', {
          cause: error,
        });
      throw error;
    }
  });
}

const CUT_SHORT = 'Interrupted: the scenario did not finish, and nothing was checked.';

async function runSandbox(flags: SandboxFlags, signal: AbortSignal): Promise<number> {
  const {
    once: playOnce = false,
    json = false,
    subscribers,
    periods,
    seed,
    chaos,
    dataDir,
  } = flags;
  const live =
    !playOnce && !json && process.stdin.isTTY && process.stdout.isTTY && prepareTerminal();
  const printLine = (line: string) => {
    if (!json) process.stdout.write(`${line}\n`);
  };
  const progress: ScenarioProgress = { step: '', outcome: null };
  let onLine = printLine;
  // A live screen gets no log lines, because log lines would overwrite the screen.
  const log = createLog('sandbox', {
    level: live ? 'silent' : 'warn',
    pretty: process.stderr.isTTY,
    stream: 'stderr',
  });
  if (flags.writeWallets !== undefined) await prepareWallets(flags.writeWallets);
  const running = await startSandbox({
    subscribers,
    periods,
    seed,
    chaos,
    play: playOnce || flags.play,
    staysUp: !playOnce,
    dataDir,
    report: (line) => onLine(line),
    log,
    signal,
  });
  try {
    if (flags.writeWallets !== undefined) await writeWallets(flags.writeWallets, running.ready);
    if (playOnce) return await report(running, json);
    if (live) {
      onLine = (line) => (progress.step = line);
      await show(running, progress, flags, signal);
      process.stdout.write('Stopping...\n');
      return 0;
    }
    if (json) process.stdout.write(`${JSON.stringify(readyLine(running, flags))}\n`);
    else printLine(`${describe(running)}ctrl-C ends it.\n`);
    const played = flags.play
      ? report(running, json).catch((error: unknown) => signal.aborted || log.error(error))
      : undefined;
    await Promise.race([aborted(signal), (played ?? aborted(signal)).then(() => aborted(signal))]);
    return 0;
  } finally {
    if (flags.writeWallets !== undefined) await removeEnv(flags.writeWallets);
    await running.stop();
  }
}

/**
 * Returns the line that --json prints when the sandbox is ready. Without --secrets, the line omits
 * the demo wallet's key, and also the part after "#" of the demo URLs, because it contains a key.
 */
function readyLine({ ready }: Sandbox, { secrets = false }: SandboxFlags): object {
  if (secrets) return ready;
  const { wallet, subscribeUrl, accountUrl, dashboardUrl } = ready.demo;
  const open = (url: string) => url.replace(/#.*/, '');
  return {
    ...ready,
    demo: {
      wallet,
      subscribeUrl: open(subscribeUrl),
      accountUrl: open(accountUrl),
      dashboardUrl: open(dashboardUrl),
    },
  };
}

async function show(
  running: Sandbox,
  progress: ScenarioProgress,
  flags: SandboxFlags,
  signal: AbortSignal,
): Promise<void> {
  const { showSandbox } = await import('./sandbox-screen.ts');
  progress.step = flags.play ? 'the wallets subscribe' : 'the wallets are idle: --no-play';
  if (flags.play) {
    running.playOnce().then(
      ({ summary, breaches }) => {
        progress.step = 'the play is over; everything stays up';
        progress.outcome = outcome(summary, breaches);
      },
      (error: unknown) => {
        progress.step = 'the play broke off; everything stays up';
        progress.outcome = [
          { text: error instanceof Error ? error.message : String(error), tone: 'bad' },
        ];
      },
    );
  }
  const showAccess = async () => {
    process.stdout.write(describe(running));
    return pressEnter('Press Enter to go back to the screen, ctrl-C to stop everything. ', signal);
  };
  const wallets =
    flags.writeWallets === undefined
      ? '--write-wallets DIR writes them as files, with an env file'
      : `in ${flags.writeWallets}, with the file env`;
  await showSandbox(running, progress, wallets, showAccess, signal);
}

function outcome(
  { chainSeconds, elapsedMs, invariants }: Summary,
  breaches: Record<string, string[]>,
): NonNullable<ScenarioProgress['outcome']> {
  const found = Object.entries(breaches).flatMap(([name, list]) =>
    list.map((breach) => `${name}: ${breach}`),
  );
  const took = `${Math.round(chainSeconds / 86_400)} days of chain time in ${(elapsedMs / 1000).toFixed(1)} s`;
  if (found.length === 0)
    return [
      { text: `${took}: all ${Object.keys(invariants).length} invariants hold`, tone: 'good' },
    ];
  return [
    { text: `${took}: ${found.length} breaches`, tone: 'bad' },
    ...found.slice(0, 5).map((text) => ({ text, tone: 'bad' as const })),
  ];
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

async function report(running: Sandbox, json: boolean): Promise<number> {
  const { summary, breaches } = await running.playOnce();
  process.stdout.write(json ? `${JSON.stringify(summary)}\n` : `${summaryText(summary)}\n`);
  const found = Object.entries(breaches).flatMap(([name, list]) =>
    list.map((breach) => `${name}: ${breach}`),
  );
  for (const breach of found) process.stderr.write(`billing: invariant breached: ${breach}\n`);
  return found.length === 0 ? 0 : 1;
}

function summaryText({
  payments,
  events,
  deliveries,
  invariants,
  chainSeconds,
  elapsedMs,
}: Summary): string {
  return [
    '',
    `${Math.round(chainSeconds / 86_400)} days of chain time in ${(elapsedMs / 1000).toFixed(1)} s`,
    `payments    ${payments.succeeded} succeeded, ${payments.failed} failed`,
    `events      ${Object.entries(events)
      .map(([type, count]) => `${type} ${count}`)
      .join(', ')}`,
    `webhooks    ${deliveries.delivered} delivered, ${deliveries.failed} failed, ${deliveries.attempts} attempts`,
    ...Object.entries(invariants).map(
      ([name, holds]) => `${holds ? 'holds ' : 'BROKEN'}      ${name}`,
    ),
  ].join('\n');
}

function describe({ ready, pages }: Sandbox): string {
  // Only a terminal gets a link, because a link's control characters would disturb other output.
  const shown = (url: string) => (process.stdout.isTTY ? hyperlink(url, url) : url);
  const [merchant] = ready.merchants;
  const [subscriber] = ready.subscribers;
  return [
    '',
    'pages in your browser, each with a demo wallet:',
    `subscribe   ${shown(pages.subscribe)}`,
    `account     ${shown(pages.account)}`,
    `dashboard   ${shown(pages.dashboard)}`,
    '',
    `API         ${ready.apiUrl}   reference: ${ready.apiUrl}/docs`,
    `chain       ${ready.rpcUrl}   ${ready.wsUrl}   mint ${ready.mint}`,
    `Postgres    ${ready.databaseUrl}`,
    ...Object.entries(ready.metricsUrls).map(
      ([name, url]) => `metrics     ${url}/metrics   (${name})`,
    ),
    `app         ${merchant?.appId ?? ''}   plan ${merchant?.planId ?? ''}`,
    `API key     ${merchant?.apiKey ?? ''}`,
    `merchant    ${merchant?.token ?? ''}`,
    `subscriber  ${subscriber?.token ?? ''}`,
    'wallets     --write-wallets DIR writes them as files, with an env file',
    '',
    `try         curl -H "Authorization: Bearer ${merchant?.apiKey ?? ''}" ${ready.apiUrl}/merchant/apps/${merchant?.appId ?? ''}/subscriptions`,
    '',
  ].join('\n');
}
