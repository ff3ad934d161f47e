// docs/chain.md, Cheatcodes: every method of the local chain is there.
import t from 'tap';
import { cheatMethods } from '../../src/local/chain/rpc/cheat-methods.ts';
import { faultMethods } from '../../src/local/chain/rpc/faults.ts';
import { startTestChain } from '../fixtures/localnet.ts';
import { readPage } from '../fixtures/pages.ts';

void t.test('the table in docs/chain.md lists exactly the existing cheatcodes', async (t) => {
  const page = await readPage('chain.md');
  const [, table = ''] = /### Cheatcodes\n([^]*?)\n\| `kind`/.exec(page) ?? [];
  const named = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  t.same(named.toSorted(), Object.keys({ ...cheatMethods, ...faultMethods }).toSorted());
});

void t.test('the local chain accepts every kind of fault in docs/chain.md', async (t) => {
  const page = await readPage('chain.md');
  const [, table = ''] = /\| `kind` of a fault[^\n]*\n([^]*?)\n\n/.exec(page) ?? [];
  const kinds = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  t.equal(kinds.length, 7);
  const chain = await startTestChain(t);
  const fields = { count: 1, blocks: 1, status: 500, sends: 100, slots: 1 };
  for (const kind of kinds) await chain.rpc('localnet_setFault', { kind, ...fields });
  await chain.rpc('localnet_clearFaults');
});
