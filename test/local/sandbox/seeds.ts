// `npm run seeds`: the sandbox with seeds 1 to 20, then twenty kills in one play; every invariant
// must hold each time, each play in under 60 s.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));
const plays = [
  ...Array.from({ length: 20 }, (_, index) => ['--seed', String(index + 1)]),
  ['--seed', '21', '--chaos', '20'],
];

let failed = 0;
for (const flags of plays) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [program, 'sandbox', '--once', '--json', '--subscribers', '50', '--periods', '6', ...flags],
    { encoding: 'utf8' },
  );
  const elapsedMs = status === 0 ? (JSON.parse(stdout) as { elapsedMs: number }).elapsedMs : NaN;
  const right = status === 0 && elapsedMs < 60_000;
  if (!right) failed += 1;
  console.log(
    `${right ? 'ok' : 'not ok'} - ${flags.join(' ')} (exit ${status ?? 'none'}, ${(elapsedMs / 1000).toFixed(1)} s)\n${right ? '' : stderr}`.trim(),
  );
}
console.log(`${plays.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
