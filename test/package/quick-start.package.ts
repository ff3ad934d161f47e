// docs/quick-start.md from a clean clone, with what `npm ci` installs from the registry into a
// fresh cache, on each supported Node. test/docs/quick-start.tools.ts says more about the result.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { installNodes, nodeVersions } from '../fixtures/nodes.ts';
import { runQuickStart } from '../fixtures/quick-start.ts';

const folder = await mkdtemp(join(tmpdir(), 'billing-nodes-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));
const nodeOf = await installNodes(folder);

for (const version of nodeVersions)
  void t.test(
    `a newcomer with Node ${version} has a paid subscription after six commands, and again`,
    async (t) => {
      const began = Date.now();
      const { code, stdout, stderr, commands } = await runQuickStart(t, {
        install: true,
        node: nodeOf(version),
      });
      t.comment(`Node ${version}: ${Math.round((Date.now() - began) / 1000)} s, both times`);
      t.equal(code, 0, `${stdout}\n${stderr}`);
      t.equal(commands.length, 6);
      t.equal(stdout.match(/^payment_success /gm)?.length, 2);
    },
  );
