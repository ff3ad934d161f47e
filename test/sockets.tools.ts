// Sockets to RPC endpoints, streams and Postgres whose host name has two addresses.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { type Deaf, startDeaf } from './fixtures/deaf.ts';
import { nodeWithOwn } from './fixtures/own-file.ts';
import { startProxy } from './fixtures/proxy.ts';
import { startRpcServer } from './fixtures/rpc-server.ts';
import { startNode } from './fixtures/stream-node.ts';

const source = new URL('../src/', import.meta.url).href;
/** Connects once to each of its arguments; prints how many ms it took, or the error. */
const dial = `
  import { RpcEndpoint } from '${source}chain/rpc/endpoint.ts';
  import { openStream } from '${source}chain/streams/connection.ts';
  import { connect } from '${source}db/postgres/connect.ts';
  const [rpc, stream, postgres] = process.argv.slice(1);
  const kinds = {
    rpc: () => new RpcEndpoint(rpc, { timeoutMs: 60_000 }).call('getSlot', [], (slot) => slot),
    stream: () => new Promise((onOpen, reject) => {
      const log = { info: () => undefined, warn: (fault) => reject(new Error(fault.reason)) };
      openStream({ urls: [stream], name: 'x', silenceMs: 60_000, onOpen, onMessage() {}, log });
    }),
    postgres: () => connect(postgres, { max: 1, name: 'billing test' })\`select 1\`,
  };
  const began = performance.now();
  const outcomes = await Promise.all(Object.entries(kinds).map(async ([kind, dialled]) => {
    const outcome = await dialled().then(() => performance.now() - began, String);
    return [kind, outcome];
  }));
  console.log(JSON.stringify(Object.fromEntries(outcomes)));
  process.exit();
`;

/** Servers of the three kinds behind relays at 127.0.0.1 that lose each SYN. */
async function startAll(t: Test) {
  const rpc = await startRpcServer(() => 5);
  t.teardown(() => rpc.close());
  const database = new URL(process.env.DATABASE_URL ?? '');
  const ports = {
    rpc: Number(new URL(rpc.url).port),
    stream: (await startNode(t)).port,
    postgres: Number(database.port),
  };
  const [first, second, third] = await Promise.all(
    Object.values(ports).map((port) => startDeaf(t, port)),
  );
  const deaf = { rpc: first!, stream: second!, postgres: third! };
  database.host = `two.example:${deaf.postgres.port}`;
  const urls = [
    `http://two.example:${deaf.rpc.port}`,
    `ws://two.example:${deaf.stream.port}`,
    database.href,
  ];
  return { ports, deaf, urls };
}

const kinds = ['rpc', 'stream', 'postgres'] as const;

/** Connects to the three, where two.example has the addresses 127.0.0.1 and 127.0.0.2. */
async function dialAll(t: Test, urls: readonly string[]) {
  const { node, write } = await nodeWithOwn(t, '/etc/hosts');
  await write('127.0.0.1 two.example\n127.0.0.2 two.example\n');
  const child = spawn(node, ['--import=tsx', '--input-type=module', '-e', dial, ...urls], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const outcomes = text(child.stdout).then(
    (line) => JSON.parse(line) as Record<(typeof kinds)[number], number | string>,
  );
  return { outcomes };
}

void t.test(
  'if an address loses every SYN, the next address is used after two seconds',
  async (t) => {
    const { ports, deaf, urls } = await startAll(t);
    for (const kind of kinds)
      await startProxy(t, ports[kind], { at: { host: '127.0.0.2', port: deaf[kind].port } });
    const outcomes = await (await dialAll(t, urls)).outcomes;
    for (const kind of kinds) t.ok(Number(outcomes[kind]) >= 1950, `${kind}: ${outcomes[kind]}`);
  },
);

void t.test(
  'an address that loses only one SYN is used if the other address refuses connections',
  async (t) => {
    const { deaf, urls } = await startAll(t);
    const { outcomes } = await dialAll(t, urls);
    const hear = async ({ lost, resume }: Deaf) => {
      await lost();
      resume();
    };
    await Promise.all(Object.values(deaf).map(hear));
    t.match(await outcomes, { rpc: Number, stream: Number, postgres: Number });
  },
);
