// The receivers of docs/webhooks.md in Python and Go.
import t from 'tap';
import { testReceiver } from '../fixtures/page-receiver.ts';
import { startServe } from '../fixtures/serve.ts';
import { needTools } from '../fixtures/tools.ts';

await needTools('python3', 'go');
const served = await startServe(t);
await served.daemon('dispatch').line('dispatch is running');

void t.test('the receiver in Python accepts real deliveries and refuses forged ones', (t) =>
  testReceiver(t, served, { file: 'receiver.py', command: ['python3', 'receiver.py'] }),
);

void t.test('the receiver in Go accepts real deliveries and refuses forged ones', (t) =>
  testReceiver(t, served, { file: 'receiver.go', command: ['go', 'run', 'receiver.go'] }),
);
