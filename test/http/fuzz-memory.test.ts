// `billing serve` as a process under random requests and hostile images, over sockets: none is a
// 500, and the memory that they took is free afterwards. The long form makes 20,000 requests,
// FUZZ_RUNS any number; it prints the figures.
import { once } from 'node:events';
import { connect } from 'node:net';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { preload, start, type Running } from '../fixtures/command.ts';
import { fuzzRequests, fuzzScene, partsOf, type FuzzScene } from '../fixtures/fuzz.ts';
import { encryptionKey, jwtSecret, publicUrl } from '../fixtures/http.ts';
import {
  canvas,
  chunk,
  png,
  PNG_END,
  PNG_SIGNATURE,
  pngHeader,
  riff,
  webpData,
} from '../fixtures/images.ts';
import { asRole } from '../fixtures/postgres.ts';

/** `npm run test:fuzz` takes 20,000. */
const runs = Number(process.env.FUZZ_RUNS ?? 1500);
const isFull = runs >= 20_000;
/** Until then each schema has been compiled. */
const warmAfter = Math.max(runs / 4, 750);
const imageRounds = isFull ? 200 : 20;
const atOnce = 25;

/** Figures of a process: bytes after a collection, and the longest turn of its event loop. */
interface Figures {
  heapUsed: number;
  external: number;
  turnMs: number;
}

/**
 * Prints the figures for each SIGUSR2. A turn counts at most the CPU time that the process took in
 * it, so that other processes of the machine lengthen none.
 */
const MEASURING = `
  import { setFlagsFromString } from 'node:v8';
  import { runInNewContext } from 'node:vm';
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  const cpuMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
  let [at, cpu, turnMs, count] = [performance.now(), cpuMs(), 0, 0];
  const restart = () => ([at, cpu] = [performance.now(), cpuMs()]);
  setInterval(() => {
    turnMs = Math.max(turnMs, Math.min(performance.now() - at, cpuMs() - cpu));
    restart();
  }, 5).unref();
  process.on('SIGUSR2', () => {
    const most = turnMs;
    gc();
    const { heapUsed, external } = process.memoryUsage();
    turnMs = 0;
    restart();
    console.log(JSON.stringify({ figures: ++count, heapUsed, external, turnMs: most }));
  });
`;

/** Headers whose random values may say that more bytes follow. */
const FRAMING = new Set(['content-length', 'expect', 'transfer-encoding']);

interface Served {
  running: Running;
  port: number;
  figures(): Promise<Figures>;
}

/** Serves the scene's database and chain. */
async function serving(t: Test, { api }: FuzzScene): Promise<Served> {
  const { network } = api.deps;
  const env = {
    DATABASE_URL: asRole(api.databaseUrl, 'serve'),
    SOLANA_RPC_URL: api.localnet.rpcUrl,
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: network.mint,
    KEEPER_ADDRESS: network.puller,
    PLATFORM_TREASURY: network.treasury,
    JWT_SECRET: jwtSecret,
    ENCRYPTION_KEY: encryptionKey,
    PUBLIC_URL: publicUrl,
    PORT: '0',
    METRICS_PORT: '0',
    TRUST_PROXY: '127.0.0.1',
    NODE_OPTIONS: preload(MEASURING),
  };
  const running = start(t, ['serve'], env, { judged: false });
  const { address } = JSON.parse(await running.line('"listening"')) as { address: string };
  let asked = 0;
  return {
    running,
    port: Number(new URL(address).port),
    figures: async () => {
      asked += 1;
      running.child.kill('SIGUSR2');
      return JSON.parse(await running.line(`{"figures":${asked},`)) as Figures;
    },
  };
}

/**
 * The status of the response to these bytes on a connection of their own; 0 without a response.
 * `isWhole`: the server can tell where the request ends; otherwise the end of the bytes says it.
 */
async function statusOf(
  port: number,
  head: readonly string[],
  body: Buffer,
  isWhole = true,
): Promise<number> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  const bytes = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), body]);
  let text = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    if (text.length < 100) text += part;
  });
  socket.write(bytes);
  if (!isWhole) socket.end();
  await once(socket, 'close').catch(() => undefined);
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
}

/**
 * Sends random requests, each from an address of its own. Returns how often each status came.
 * Throws for a 500 and for a request without a response.
 */
async function fuzz(scene: FuzzScene, { port }: Served, count: number, seed: number) {
  const statuses = new Map<number, number>();
  const requests = await fuzzRequests(scene);
  for (let made = 0; made < count; made += atOnce) {
    // Otherwise almost all answers are refusals for the rate.
    await scene.api.sql`update rate_budgets set spent = 0, granted = 0`;
    const sample = fc.sample(requests, { numRuns: atOnce, seed: seed + made });
    await Promise.all(
      sample.map(async (request, n) => {
        const { method, url, headers, body, isBodiless } = partsOf(request, n % 2 === 0);
        const address = `10.${made >> 16}.${(made >> 8) & 255}.${(made & 255) + n}`;
        const all = {
          host: 'billing.test',
          connection: 'close',
          'x-forwarded-for': address,
          ...(request.token !== undefined && { authorization: `Bearer ${request.token}` }),
          ...(!isBodiless && { 'content-length': String(body.length) }),
          ...headers,
        };
        const head = [
          `${method} ${url} HTTP/1.1`,
          ...Object.entries(all).map(([name, value]) => `${name}: ${value}`),
        ];
        const isWhole = !Object.keys(headers).some((name) => FRAMING.has(name));
        const status = await statusOf(port, head, isBodiless ? Buffer.alloc(0) : body, isWhole);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status >= 500 || (status === 0 && isWhole))
          throw new Error(`${status}: ${head.join('\n')}\n${request.body}`);
      }),
    );
  }
  return statuses;
}

/** Files that a decoder needs gigabytes or minutes for, or that the check must refuse. */
function hostileImages(): [string, Buffer][] {
  const packed = (bytes: number) => chunk('IDAT', deflateSync(Buffer.alloc(bytes), { level: 9 }));
  const file = (...chunks: Buffer[]) => Buffer.concat([PNG_SIGNATURE, ...chunks, PNG_END]);
  const one = pngHeader(1, 1);
  const huge = Buffer.from(webpData.lossless);
  huge.fill(0xff, 1, 5);
  return [
    ['image/png', file(one, pngHeader(12_000, 12_000), packed(1000))],
    ['image/png', file(one, pngHeader(30_000, 30_000), packed(20_000_000))],
    ['image/png', file(pngHeader(1024, 1024, { interlace: true }), packed(20_000_000))],
    ['image/png', png(1024, 1024, { interlace: true })],
    ['image/webp', huge],
    ['image/webp', riff(['VP8L', huge])],
    ['image/webp', riff(['VP8X', canvas(64)], ['VP8L', huge])],
    ['image/webp', riff(['VP8X', canvas(16_384)], ['VP8 ', webpData.lossy])],
    ['image/webp', webpData.wide],
  ];
}

/** Sends each image so many times. Returns how often each status came. */
async function sendImages({ mine, api }: FuzzScene, { port }: Served, times: number) {
  const statuses = new Map<number, number>();
  for (let n = 0; n < times; n += 1) {
    await api.sql`update rate_budgets set spent = 0, granted = 0`;
    await Promise.all(
      hostileImages().map(async ([type, image]) => {
        const head = [
          `POST /merchant/apps/${mine.appId}/logo HTTP/1.1`,
          'host: billing.test',
          'connection: close',
          `authorization: Bearer ${mine.key}`,
          `content-type: ${type}`,
          `content-length: ${image.length}`,
        ];
        const status = await statusOf(port, head, image);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }),
    );
  }
  return statuses;
}

const mb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const told = ({ heapUsed, external, turnMs }: Figures) =>
  `heap ${mb(heapUsed)}, external ${mb(external)}, longest turn ${Math.round(turnMs)} ms`;
const listed = (statuses: Map<number, number>) =>
  JSON.stringify(Object.fromEntries([...statuses].sort(([a], [b]) => a - b)));

void t.test(`memory does not grow over ${runs} random requests and hostile images`, async (t) => {
  // The runner shows a comment of no test.
  const report = (line: string) => (isFull ? console.error(line) : t.comment(line));
  const scene = await fuzzScene(t);
  const served = await serving(t, scene);
  const seed = Math.floor(Math.random() * 2 ** 31);
  report(`seed ${seed}`);
  await served.figures();

  const first = await fuzz(scene, served, warmAfter, seed);
  const early = await served.figures();
  report(`after ${warmAfter} requests: ${told(early)}; ${listed(first)}`);
  const second = await fuzz(scene, served, runs - warmAfter, seed + runs);
  const late = await served.figures();
  report(`after ${runs} requests: ${told(late)}; ${listed(second)}`);
  t.ok(late.heapUsed < early.heapUsed * 1.1, 'the heap has grown by a tenth at most');

  await sendImages(scene, served, 1);
  const before = await served.figures();
  const images = await sendImages(scene, served, imageRounds);
  const after = await served.figures();
  report(`before the images: ${told(before)}; after: ${told(after)}; ${listed(images)}`);
  t.same([...images.keys()], [400], 'each image is refused');
  t.ok(after.heapUsed < before.heapUsed * 1.02, 'the heap is what it was before the images');
  if (!isFull) return;
  for (const { turnMs } of [early, late, before, after])
    t.ok(turnMs < 200, `no turn of the event loop took 200 ms of CPU time: ${turnMs}`);
});
