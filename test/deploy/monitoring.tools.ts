// promtool parses the alert rules, the dashboard's queries and the configuration of Prometheus.
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { stringify } from 'yaml';
import { deploy, expressions, RULE_FILES } from '../fixtures/monitoring.ts';
import { tool } from '../fixtures/tools.ts';

const execute = promisify(execFile);

void t.test('promtool accepts the rules, the queries and the configuration', async (t) => {
  const promtool = await tool('promtool');
  const queries = join(t.testdir(), 'queries.yaml');
  const recorded = expressions.map(({ expr }, index) => ({ record: `query:${index}`, expr }));
  await writeFile(queries, stringify({ groups: [{ name: 'queries', rules: recorded }] }));
  const file = (name: string) => fileURLToPath(new URL(name, deploy));
  const files = RULE_FILES.map((name) => file(`prometheus/${name}`));
  await execute(promtool, ['check', 'rules', ...files, queries]);
  for (const name of ['prometheus.yaml', 'compose.yaml'])
    await execute(promtool, ['check', 'config', file(`prometheus/${name}`)]);
  t.pass();
});

void t.test('promtool refuses malformed queries', async (t) => {
  const promtool = await tool('promtool');
  const file = join(t.testdir(), 'query.yaml');
  for (const expr of [
    'sum(x',
    'x)',
    'nosuch(x)',
    'sum by daemon (x)',
    'x{a=b}',
    'x{a="b"',
    'rate([5m])',
    'x $ y',
  ]) {
    await writeFile(file, stringify({ groups: [{ name: 'q', rules: [{ record: 'q', expr }] }] }));
    await t.rejects(execute(promtool, ['check', 'rules', file]), { code: 1 }, expr);
  }
});
