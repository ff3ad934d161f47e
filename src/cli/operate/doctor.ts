// `billing doctor` checks that the daemons can work with this configuration, Postgres and chain.
// Operators run it before a first start or after a change. The command changes nothing.
import type { Command } from 'commander';
import { type Config, examineConfig } from '../../config/config.ts';
import { compareClocks, MAX_CLOCK_SECONDS } from '../../daemon/clocks.ts';
import { interruptible } from '../../daemon/run.ts';
import { type CommonFlags, type SetExitCode, listOf, sol, withEnv } from '../arguments.ts';
import { painter, print, printJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { safeText } from '../terminal/safe-text.ts';
import type { Check } from './doctor/check.ts';
import { clocksInWords } from './status/limits.ts';

const DAEMONS = ['serve', 'keeper', 'dispatch'] as const;
type DaemonName = (typeof DAEMONS)[number];

interface DoctorFlags extends CommonFlags {
  for: readonly DaemonName[];
  minSol: number;
}

export function addDoctor(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option(
      '--for <daemons>',
      'the daemons that start with this configuration, comma-separated: serve, keeper, dispatch',
      listOf(...DAEMONS),
      [...DAEMONS],
    )
    .option('--min-sol <sol>', 'minimum balance of the keeper', sol, 0.1)
    .option('--json', 'print one JSON object')
    .action(async (flags: DoctorFlags) => setExitCode(await doctor(flags)));
}

/** Prints one line per check. Returns the exit code: 1 when the operator has something to do. */
function doctor(flags: DoctorFlags): Promise<number> {
  return interruptible(false, async () => {
    const checks = await withProgress('asking Postgres and the chain', () => examine(flags));
    const ok = checks.every(({ state }) => state !== 'todo');
    if (flags.json === true) printJson({ ok, checks });
    else print(screen(checks));
    return ok ? 0 : 1;
  });
}

async function examine({ envFile, for: daemons, minSol }: DoctorFlags): Promise<Check[]> {
  const variables = daemons.flatMap((daemon) => {
    const { faults } = examineConfig(daemon, { envFile });
    return faults.map((fault) => ({ daemon, fault }));
  });
  const faults = [...new Set(variables.map(({ fault }) => fault))].map((fault): Check => ({
    name: 'Configuration',
    state: 'todo',
    detail: `${fault} (${variables.flatMap((each) => (each.fault === fault ? each.daemon : [])).join(', ')})`,
  }));
  // The role "developer" requires no variable, so missing variables do not prevent the other
  // checks.
  const { config } = examineConfig('developer', { envFile });
  if (config === undefined) return faults;
  const configured: Check = {
    name: 'Configuration',
    state: 'ok',
    detail: `has every variable of ${daemons.join(', ')} (${config.env}, ${config.cluster})`,
  };
  return [
    ...(faults.length > 0 ? faults : [configured]),
    ...(await examineWorld(config, daemons, minSol)),
  ];
}

async function examineWorld(
  config: Config,
  daemons: readonly DaemonName[],
  minSol: number,
): Promise<Check[]> {
  const handlesPayments = daemons.some((daemon) => daemon !== 'dispatch');
  // Imported on demand, because the chain's modules take 200 ms to load.
  const [{ checkPostgres }, { checkChain }] = await Promise.all([
    import('./doctor/postgres.ts'),
    import('./doctor/chain.ts'),
  ]);
  const postgres = await checkPostgres(config, handlesPayments);
  const chain = handlesPayments
    ? await checkChain(config, { minSol, signs: daemons.includes('keeper') })
    : { checks: [], offsetSeconds: null };
  const clocks = compareClocks({ postgres: postgres.offsetSeconds, chain: chain.offsetSeconds });
  return [...postgres.checks, ...chain.checks, clockCheck(clocks)];
}

function clockCheck(clocks: ReturnType<typeof compareClocks>): Check {
  const name = 'Clocks';
  const measured = Object.entries({ Postgres: clocks.postgres, 'the chain': clocks.chain }).flatMap(
    ([of, offset]) => (offset === null ? [] : [of]),
  );
  if (measured.length === 0)
    return { name, state: 'unchecked', detail: 'neither Postgres nor a public chain was read' };
  if (Math.abs(clocks.seconds) > MAX_CLOCK_SECONDS)
    return { name, state: 'todo', detail: `${clocksInWords(clocks)}: set it by NTP` };
  return { name, state: 'ok', detail: `this host agrees with ${measured.join(' and ')}` };
}

const MARKS = { ok: ['green', 'ok  '], todo: ['red', 'todo'], unchecked: ['dim', '-   '] } as const;

function screen(checks: readonly Check[]): string {
  const paint = painter(process.stdout);
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks
    .map(({ name, state, detail }) => {
      const [style, mark] = MARKS[state];
      const words = state === 'unchecked' ? `not checked: ${detail}` : detail;
      return `${paint(style, mark)}  ${safeText(name).padEnd(width)}  ${safeText(words)}`;
    })
    .join('\n');
}
