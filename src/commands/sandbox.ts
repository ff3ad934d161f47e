import { once } from 'node:events';
import { OperatorError } from '../errors.ts';
import { createLog } from '../log.ts';
import { interruptible } from '../run.ts';
import { startSandbox, type Sandbox, type Summary } from '../sandbox/start.ts';

export interface SandboxFlags {
  once?: boolean;
  json?: boolean;
  subscribers: number;
  periods: number;
  seed: number;
  chaos: number;
  dataDir?: string;
  play: boolean;
}

/**
 * `billing sandbox`. With --once it returns 0 only if every invariant held, and throws an OperatorError when it is interrupted; otherwise it stays up
 * until SIGINT or SIGTERM. Either way everything that it started is stopped first; a second signal does not wait for that.
 */
export function sandbox(flags: SandboxFlags): Promise<number> {
  return interruptible(true, (signal) => runSandbox(flags, signal));
}

async function runSandbox(flags: SandboxFlags, signal: AbortSignal): Promise<number> {
  const { once: playOnce = false, json = false, subscribers, periods, seed, chaos, dataDir } = flags;
  const tell = (line: string) => {
    if (!json) process.stdout.write(`${line}\n`);
  };
  const log = createLog('sandbox', { level: 'warn', pretty: process.stderr.isTTY, stream: 'stderr' });
  const stopped = once(signal, 'abort');
  const running = await startSandbox({ subscribers, periods, seed, chaos, dataDir, tell, log });
  try {
    if (playOnce) return await Promise.race([report(running, json), stopped.then(cutShort)]);
    if (signal.aborted) return 0;
    if (json) process.stdout.write(`${JSON.stringify(running.ready)}\n`);
    else tell(describe(running));
    const played = flags.play ? report(running, json).catch((error: unknown) => signal.aborted || log.error(error)) : undefined;
    await Promise.race([stopped, (played ?? stopped).then(() => stopped)]);
    return 0;
  } finally {
    await running.stop();
  }
}

function cutShort(): never {
  throw new OperatorError('Interrupted: the play did not come to its end, and nothing was checked.');
}

async function report(running: Sandbox, json: boolean): Promise<number> {
  const { summary, breaches } = await running.playOnce();
  process.stdout.write(json ? `${JSON.stringify(summary)}\n` : `${summaryText(summary)}\n`);
  const found = Object.entries(breaches).flatMap(([name, list]) => list.map((breach) => `${name}: ${breach}`));
  for (const breach of found) process.stderr.write(`billing: invariant breached: ${breach}\n`);
  return found.length === 0 ? 0 : 1;
}

function summaryText({ payments, events, deliveries, invariants, chainSeconds, elapsedMs }: Summary): string {
  return [
    '',
    `${Math.round(chainSeconds / 86_400)} days of chain time in ${(elapsedMs / 1000).toFixed(1)} s`,
    `payments    ${payments.succeeded} succeeded, ${payments.failed} failed`,
    `events      ${Object.entries(events)
      .map(([type, count]) => `${type} ${count}`)
      .join(', ')}`,
    `webhooks    ${deliveries.delivered} delivered, ${deliveries.failed} failed, ${deliveries.attempts} attempts`,
    ...Object.entries(invariants).map(([name, holds]) => `${holds ? 'holds ' : 'BROKEN'}      ${name}`),
  ].join('\n');
}

function describe({ ready }: Sandbox): string {
  const [merchant] = ready.merchants;
  const [subscriber] = ready.subscribers;
  return [
    '',
    `API         ${ready.apiUrl}   reference: ${ready.apiUrl}/docs`,
    `chain       ${ready.rpcUrl}   ${ready.wsUrl}   mint ${ready.mint}`,
    `Postgres    ${ready.databaseUrl}`,
    ...Object.entries(ready.metricsUrls).map(([name, url]) => `metrics     ${url}/metrics   (${name})`),
    `app         ${merchant?.appId ?? ''}   plan ${merchant?.planId ?? ''}`,
    `API key     ${merchant?.apiKey ?? ''}`,
    `merchant    ${merchant?.token ?? ''}`,
    `subscriber  ${subscriber?.token ?? ''}`,
    '',
    `try         curl -H "Authorization: Bearer ${merchant?.apiKey ?? ''}" ${ready.apiUrl}/merchant/apps/${merchant?.appId ?? ''}/subscriptions`,
    'ctrl-C ends it.',
    '',
  ].join('\n');
}
