import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { startNotifying } from '../../src/daemon/systemd.ts';
import { start } from '../fixtures/command.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { needTools, tool } from '../fixtures/tools.ts';

const systemd = `
import json, os, socket, sys
listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listening.bind(sys.argv[1])
print("listening", flush=True)
while True:
    data, ancillary, flags, sender = socket.recv_fds(listening, 65536, 4)
    for fd in ancillary: os.close(fd)
    print(json.dumps(data.decode().split("\\n")), flush=True)
`;

/** A datagram socket like that of systemd, and the received assignments of each message. */
async function startSupervisor(t: Test, python: string) {
  // The folder is not the test's own, because the path of a socket has at most 107 bytes.
  const folder = await mkdtemp(join(tmpdir(), 'billing-notify-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const socket = join(folder, 'socket');
  const child = spawn(python, ['-c', systemd, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const messages: string[][] = [];
  const waiting = new Set<() => void>();
  const lines = createInterface({ input: child.stdout });
  const [first] = (await once(lines, 'line')) as [string];
  if (first !== 'listening') throw new Error(first);
  lines.on('line', (line) => {
    const message = JSON.parse(line) as string[];
    // systemd-notify's own way of waiting until the supervisor has read it.
    if (!message.includes('BARRIER=1')) messages.push(message);
    for (const check of waiting) check();
  });
  return {
    socket,
    messages,
    /** Resolves when `count` messages have had this assignment. */
    reported: (assignment: string, count = 1) =>
      new Promise<void>((resolve) => {
        const check = () => {
          if (messages.filter((message) => message.includes(assignment)).length < count) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

const path = process.env.PATH ?? '';
const unheard = (reason: string) => {
  throw new Error(reason);
};

void t.test(
  'READY is reported to systemd once; while a part is missing, the status names it',
  async (t) => {
    const python = await tool('python3');
    await needTools('systemd-notify');
    const { socket, messages, reported } = await startSupervisor(t, python);
    let reason: string | undefined = 'the chain\nhas not been reached yet';
    const notifying = startNotifying({ socket, watchdogMs: 100, path }, () => reason, unheard);
    await reported('STATUS=the chain has not been reached yet');
    t.same(
      messages,
      [['STATUS=the chain has not been reached yet']],
      'no sign of life is due before it is ready',
    );
    reason = undefined;
    await reported('READY=1');
    t.same(messages[1], ['READY=1', 'WATCHDOG=1', 'STATUS=ready']);
    await reported('WATCHDOG=1', 3);
    reason = 'Postgres does not answer';
    await reported('STATUS=Postgres does not answer');
    await reported('WATCHDOG=1', messages.length + 2);
    t.equal(messages.filter((message) => message.includes('READY=1')).length, 1);
    t.pass('an outage elsewhere stops no sign of life: a restart would not repair it');
    await notifying.stop();
    t.same(messages.at(-1), ['STOPPING=1', 'STATUS=finishing work in progress']);
  },
);

void t.test(
  'the error of a readiness check becomes the systemd status; a check that hangs stops WATCHDOG=1',
  async (t) => {
    const python = await tool('python3');
    await needTools('systemd-notify');
    const { socket, messages, reported } = await startSupervisor(t, python);
    let check: () => Promise<string | undefined> = () => Promise.reject(new Error('no connection'));
    let hung: (() => void) | undefined;
    const hangs = new Promise<void>((resolve) => (hung = resolve));
    const notifying = startNotifying({ socket, watchdogMs: 50, path }, () => check(), unheard);
    await reported('STATUS=no connection');
    check = async () => undefined;
    await reported('WATCHDOG=1', 2);
    check = () => {
      hung?.();
      return new Promise(() => undefined);
    };
    await hangs;
    // Earlier messages may still be in flight.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const before = messages.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    t.equal(messages.length, before);
    await notifying.stop();
    t.match(messages.at(-1), ['STOPPING=1']);
  },
);

void t.test('a daemon reports READY, WATCHDOG and STOPPING to systemd', async (t) => {
  const python = await tool('python3');
  await needTools('systemd-notify');
  const { url } = await testDatabase(t);
  const { socket, messages, reported } = await startSupervisor(t, python);
  const env = {
    DATABASE_URL: url,
    ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    METRICS_PORT: '0',
    PATH: path,
  };
  const running = start(t, ['dispatch'], {
    ...env,
    NOTIFY_SOCKET: socket,
    WATCHDOG_USEC: '200000',
  });
  await reported('READY=1');
  await reported('WATCHDOG=1', 3);
  running.child.kill('SIGTERM');
  t.equal((await running.ended).code, 0);
  t.ok(messages.some((message) => message.includes('STOPPING=1')));
});
