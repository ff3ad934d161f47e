// No alert fires in normal operation, and each fault fires exactly its alert: `promtool test rules`
// computes the rules over the recorded series of each scenario.
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { stringify } from 'yaml';
import { scenarios } from '../fixtures/alert-scenarios.ts';
import { deploy, RULE_FILES } from '../fixtures/monitoring.ts';
import { tool } from '../fixtures/tools.ts';

const execute = promisify(execFile);
const rules = RULE_FILES.map((name) => fileURLToPath(new URL(`prometheus/${name}`, deploy)));

void t.test('each fault fires exactly its alert, and none fires in normal operation', async (t) => {
  const promtool = await tool('promtool');
  const tests = scenarios.map(({ name, series, firing }) => ({
    name,
    interval: '1m',
    input_series: Object.entries(series)
      .filter(([, values]) => values !== null)
      .map(([series, values]) => ({ series, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '60m',
        exp_samples: firing.map((alertname) => ({
          labels: `{alertname="${alertname}"}`,
          value: 1,
        })),
      },
    ],
  }));
  const file = join(t.testdir(), 'tests.yaml');
  await writeFile(file, stringify({ rule_files: rules, evaluation_interval: '1m', tests }));
  const { stdout, stderr } = await execute(promtool, ['test', 'rules', file]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  t.match(stdout, /SUCCESS/, stdout + stderr);
});
