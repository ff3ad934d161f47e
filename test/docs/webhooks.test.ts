// The receivers of docs/webhooks.md that need Node alone, and what the page says of the command
// line. webhooks.tools.ts has those in Python and Go.
import { spawn, spawnSync } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { sampleTypes } from '../../src/domain/outbox/samples.ts';
import { testReceiver } from '../fixtures/page-receiver.ts';
import { blocksOf } from '../fixtures/pages.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { testRefusals } from '../fixtures/refusals.ts';
import { startServe } from '../fixtures/serve.ts';
import { until } from '../fixtures/webhooks.ts';

const served = await startServe(t);
await served.daemon('dispatch').line('dispatch is running');

for (const file of ['receiver.ts', 'with-the-package.ts'])
  void t.test(`the receiver ${file} accepts real deliveries and refuses forged ones`, (t) =>
    testReceiver(t, served, { file, command: [process.execPath, '--import=tsx', file] }),
  );

void t.test('examples/receiver.mjs refuses to start without a secret or on a port in use', (t) =>
  testRefusals(t, {
    dir: fileURLToPath(new URL('../../examples', import.meta.url)),
    command: [process.execPath, 'receiver.mjs'],
  }),
);

void t.test(
  'the webhooks page names every event and shows "billing listen" and "billing trigger" correctly',
  async (t) => {
    const blocks = await blocksOf('webhooks.md');
    const text = await readFile(new URL('../../docs/webhooks.md', import.meta.url), 'utf8');
    for (const type of sampleTypes) if (type !== 'ping') t.ok(text.includes(`| \`${type}\``), type);

    const merchant = await served.merchant();
    const receiver = await startReceiver(t);
    const dir = t.testdir();
    const billing = join(dir, 'billing');
    await writeFile(
      billing,
      `#!/bin/sh\nexec '${process.execPath}' '${fileURLToPath(new URL('../../bin/billing.js', import.meta.url))}' "$@"\n`,
    );
    await chmod(billing, 0o755);
    const env = {
      PATH: `${dir}:${process.env.PATH ?? ''}`,
      BILLING_API_KEY: merchant.key,
      BILLING_API_URL: served.url,
    };
    const code = (name: string) => blocks.find((block) => block.name === name)!.code;
    const local = code('listen').replace('http://localhost:4000/', receiver.url);
    t.not(local, code('listen'));
    const listening = spawn('sh', ['-c', `exec ${local}`], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.teardown(() => listening.kill('SIGKILL'));
    const lines: string[] = [];
    createInterface({ input: listening.stdout }).on('line', (line) => lines.push(line));
    await until(() => lines.some((line) => line.startsWith('whsec_')));
    t.match(spawnSync('sh', ['-c', code('trigger')], { env, encoding: 'utf8' }), {
      status: 0,
      stdout: /^Sample payment_success/,
    });
    await receiver.got(1);
    t.match(receiver.requests[0]?.body.toString(), '"type":"payment_success"');
  },
);
