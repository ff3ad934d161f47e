// The receivers of docs/webhooks.md in Python and Go, which are those of examples/.
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { testReceiver } from '../fixtures/page-receiver.ts';
import { blockOf } from '../fixtures/pages.ts';
import { startServe } from '../fixtures/serve.ts';
import { needTools } from '../fixtures/tools.ts';

await needTools('python3', 'go');
const served = await startServe(t);
await served.daemon('dispatch').line('dispatch is running');

for (const file of ['receiver.py', 'receiver.go'])
  void t.test(`examples/${file} equals the receiver of the page`, async (t) => {
    const example = new URL(`../../examples/${file}`, import.meta.url);
    t.equal(await readFile(example, 'utf8'), await blockOf('webhooks.md', file));
  });

void t.test('the receiver in Python accepts real deliveries and refuses forged ones', (t) =>
  testReceiver(t, served, { file: 'receiver.py', command: ['python3', 'receiver.py'] }),
);

void t.test('the receiver in Go accepts real deliveries and refuses forged ones', (t) =>
  testReceiver(t, served, { file: 'receiver.go', command: ['go', 'run', 'receiver.go'] }),
);
