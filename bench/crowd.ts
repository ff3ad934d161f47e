// p99 latency of a client of `billing serve`, with and without a crowd of 2,000 silent connections
// and 500 long polls for events. The client opens a connection per request, because a crowd delays
// new connections first. Rounds alternate.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect as openSocket, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect } from '../src/db/postgres/connect.ts';
import { migrate } from '../src/db/postgres/migrate.ts';
import { freePorts } from '../src/local/sandbox/ports.ts';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import { crowdMerchants } from '../test/fixtures/crowd.ts';
import { underAttack } from './crowd/attacks.ts';
import type { Result } from './run.ts';

const ROUNDS = 5;
const REQUESTS = 600;
const SILENT = 2000;
const POLLS = 500;
/**
 * The silent connections come from ten addresses. Each address opens as many as the service allows.
 */
const ADDRESSES = 10;
/** Milliseconds until the crowd reopens a connection that the service closed. */
const REOPEN_MS = 1000;
const program = fileURLToPath(new URL('../bin/billing.js', import.meta.url));

type Caller = Awaited<ReturnType<typeof crowdMerchants>>[number];

interface Asked {
  port: number;
  path: string;
  key: string;
  from: string;
  agent?: Agent;
}

const at = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN;

async function get({ port, path, key, from, agent }: Asked) {
  const asked = request({
    host: '127.0.0.1',
    port,
    path,
    localAddress: from,
    agent: agent ?? false,
    headers: { authorization: `Bearer ${key}` },
  });
  const [response] = (await once(asked.end(), 'response')) as [
    AsyncIterable<Buffer> & { statusCode: number },
  ];
  let text = '';
  for await (const part of response) text += part.toString();
  return { status: response.statusCode, text };
}

async function startServe(databaseUrl: string) {
  const [port = 0] = await freePorts(1);
  const env = {
    DATABASE_URL: databaseUrl,
    SOLANA_RPC_URL: 'http://127.0.0.1:1',
    KEEPER_ADDRESS: '11111111111111111111111111111111',
    PLATFORM_TREASURY: '11111111111111111111111111111111',
    JWT_SECRET: 'j'.repeat(32),
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    PORT: String(port),
    METRICS_PORT: '0',
  };
  const child = spawn(process.execPath, [program, 'serve'], { env, stdio: 'ignore' });
  const ended = once(child, 'close');
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
  while (!(await isReady())) {
    if (child.exitCode !== null) throw new Error(`serve ended with ${child.exitCode}`);
    await delay(50);
  }
  return {
    port,
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Opens the crowd. Resolves, once it is complete, with a function that closes it. */
async function openCrowd(port: number, merchants: readonly Caller[]): Promise<() => void> {
  const away = new AbortController();
  const { signal } = away;
  const sockets = new Set<Socket>();
  const agents = Array.from({ length: ADDRESSES }, () => new Agent({ keepAlive: true }));
  let [connected, waiting] = [0, 0];

  const silent = async (n: number) => {
    while (!signal.aborted) {
      const localAddress = `127.0.1.${(n % ADDRESSES) + 1}`;
      const socket = openSocket({ port, host: '127.0.0.1', localAddress });
      sockets.add(socket);
      socket.on('error', () => undefined).once('connect', () => (connected += 1));
      await once(socket, 'close');
      sockets.delete(socket);
      await delay(REOPEN_MS);
    }
  };
  const poll = async (n: number) => {
    const { key, path } = merchants[Math.floor(n / 4)] as Caller;
    const index = n % ADDRESSES;
    const asked = { port, key, from: `127.0.2.${index + 1}`, agent: agents[index] as Agent };
    while (!signal.aborted) {
      try {
        const { text } = await get({ ...asked, path });
        const { cursor } = (JSON.parse(text) as { data: { cursor: string } }).data;
        waiting += 1;
        const query = `wait=15&after=${encodeURIComponent(cursor)}`;
        const { status } = await get({ ...asked, path: `${path}?${query}` });
        if (status !== 200) await delay(REOPEN_MS);
      } catch {
        await delay(REOPEN_MS);
      }
    }
  };
  for (let n = 0; n < SILENT; n += 1) void silent(n);
  for (let n = 0; n < POLLS; n += 1) void poll(n);
  while (connected < SILENT || waiting < POLLS) await delay(50);
  return () => {
    away.abort();
    for (const socket of sockets) socket.destroy();
    for (const agent of agents) agent.destroy();
  };
}

/** Returns the p99 latency (ms) of requests that are sent one after another. */
async function round(port: number, callers: readonly Caller[]): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < REQUESTS; n += 1) {
    const { key } = callers[n % callers.length] as Caller;
    const startedAt = performance.now();
    const { status } = await get({ port, path: '/merchant/profile', key, from: '127.0.3.1' });
    if (status !== 200) throw new Error(`the client was answered ${status}`);
    took.push(performance.now() - startedAt);
  }
  return at(took, 0.99);
}

/** Runs both parts, or only `silence` or `attacks`. */
export async function run(part?: string): Promise<Result> {
  const silence = part === 'attacks' ? undefined : await silent();
  const attacked = part === 'silence' ? {} : await underAttack();
  return { figures: { ...silence?.figures, ...attacked }, ratios: { ...silence?.ratios } };
}

async function silent(): Promise<Result> {
  const postgres = await startEmbeddedPostgres();
  const sql = connect(postgres.url, { max: 4, name: 'bench' });
  const [quiet, crowded]: [number[], number[]] = [[], []];
  try {
    await migrate(sql);
    const merchants = await crowdMerchants(sql, POLLS);
    const callers = await crowdMerchants(sql, 80);
    const serve = await startServe(postgres.url);
    const { port } = serve;
    await round(port, callers);
    for (let n = 0; n < ROUNDS; n += 1) {
      quiet.push(await round(port, callers));
      const leave = await openCrowd(port, merchants);
      crowded.push(await round(port, callers));
      leave();
    }
    await serve.stop();
  } finally {
    await sql.end({ timeout: 1 });
    await postgres.stop();
  }
  const [p99Ms, quietP99Ms] = [at(crowded, 0.5), at(quiet, 0.5)];
  return { figures: { p99Ms, quietP99Ms }, ratios: { p99ToQuiet: p99Ms / quietP99Ms } };
}
