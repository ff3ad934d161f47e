// Checks the models of this folder with spin (README.md): each model has to be free of errors in
// its whole state space, and each variant, which lacks one rule, has to be found wrong by the fault
// that the rule protects from. `npm run model -- failover` checks what matches one of the given
// words.
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { each } from '../../src/each.ts';

const run = promisify(execFile);

interface Case {
  readonly model: string;
  readonly defines: readonly string[];
  /**
   * What the counterexample has to show, in this order. Without it the case has to be free of
   * errors.
   */
  readonly shows?: readonly RegExp[];
}

const TWICE = /wrong: two pulls in one period/;
const UNBOOKED = /wrong: books and chain differ/;
const SENT = /wrong: sent after the cancellation/;
const REFUNDED = /wrong: refunded twice/;
const UNASKED = /wrong: registered after an end/;
const TOO_SOON = /wrong: signed again while the former may land/;
const PULLED_TWICE = /wrong: an invoice is pulled twice/;
const CLOSED = [/invoice . lands/, /wrong: a closed invoice is pulled/];
const COVERED = [/invoice 2 lands/, /wrong: time is covered twice/];
const GIVEN_UP = /wrong: time that was given up is charged/;
const LANDS_TWICE = [/transaction 0 lands/, /transaction 1 lands/, TWICE];
const BY_KEEPER = [/keeper decides/, /keeper makes registration 1/];
const ASKED_AGAIN = [/refund 0 expired/, /asks for refund 1/, /lands/, REFUNDED];

const cases: readonly Case[] = [
  ...of('sign_and_expire', {
    SEND_FIRST: [/sends transaction 0/, /crashes/, /sends transaction 1/, TWICE],
    NO_UNIQUE: [/commits transaction 0/, /lease .* runs out/, /commits transaction 1/, TWICE],
    UNIQUE_PER_PERIOD: [/for period 1/, /commits transaction 0/, /for period 2/, TWICE],
    HEIGHT_ALONE: [/ends transaction 0 as expired/, ...LANDS_TWICE],
    NO_MIN_SLOT: [/ends transaction 0 as expired/, ...LANDS_TWICE],
    ONE_ENDPOINT: [/ends transaction 0 as expired/, ...LANDS_TWICE],
    NOT_EXPLAINED: [/transaction 0 lands/, /owner pulls/, /0 as expired/, UNBOOKED],
    LATER_PERIOD: [/lands at height ., period 1/, /owner pulls/, /0 as expired/, UNBOOKED],
    'BEFORE_FINAL FAULTS=0': [/books transaction 0/, /a fork drops/, /wrong/],
    STALE_READ: [/0 as unexplained/, /reads height 1/, /transaction 1 lands/, TWICE],
  }),
  ...of('packs_and_cancel', {
    NEVER_SENT: [/x is cancelled/, /payments 2 of transaction 0 as never sent/, TOO_SOON],
    'NEVER_SENT MONEY': [/as never sent/, /sends transaction 0/, /sends transaction 1/, TWICE],
    UNIQUE_PER_REGISTRATION: [/registers z/, /commits transaction 1 with payments 4/, TOO_SOON],
    'UNIQUE_PER_REGISTRATION MONEY': [/registers z/, ...LANDS_TWICE],
    STALE_READ: [/registers z/, /books payments . of transaction 0/, /transaction 1 lands/, TWICE],
    'HALF_PACK MONEY': [/commits transaction 2/, /sends transaction 2/, TWICE],
    NO_CHECK: [/x is cancelled/, /100 ms later/, /sends transaction 0/, SENT],
    OLD_CHECK: [/100 ms later/, /sends transaction 0/, SENT],
  }),
  ...of('failover', {
    NO_HOLD: [/commits transaction 0/, /failover/, /commits transaction 1/, TWICE],
    SHORT_HOLD: [/failover/, /holds/, /ends the hold/, /commits transaction 1/, TWICE],
    FINALIZED_H: [/failover/, /exceeds 0/, /ends the hold/, /commits transaction 1/, TWICE],
    LAGGING_H: [/failover/, /exceeds 1/, /ends the hold/, /commits transaction 1/, TWICE],
    CHECKED_BEFORE: [/reads the account/, /failover/, /commits transaction 1/, TWICE],
    HOLD_ALONE: [/ends the hold/, /signs at height . and commits transaction 1/, TWICE],
    STALE_READ: [/transaction 0 lands/, /ends the hold/, /height 1$/, TWICE],
  }),
  ...of('refunds', {
    ONE_WITNESS: [/transfer 0 lands/, ...ASKED_AGAIN],
    SAME_HOST: [/transfer 0 lands/, ...ASKED_AGAIN],
    FAILED_COUNTS: [/transfer 0 lands/, ...ASKED_AGAIN],
    ONE_COPY: [/transfer 0 lands/, ...ASKED_AGAIN],
    NO_REACH: [/transfer 0 lands/, /endpoint 1: starts anew/, ...ASKED_AGAIN],
    ONE_EXPIRY: [...ASKED_AGAIN],
    HISTORY_FIRST: [...ASKED_AGAIN],
    NO_RESERVE: [/asks for refund 0/, /asks for refund 1/, /transfer 1 lands/, REFUNDED],
  }),
  ...of('registration', {
    NEVER_REGISTERED: [/registration 0 ends/, ...BY_KEEPER, UNASKED],
    'NEVER_REGISTERED MONEY': [/registration 0 ends/, ...BY_KEEPER, /wrong: charged after an end/],
    REPLACED: [/registration 0 is replaced/, /keeper makes registration 1/, UNASKED],
    CHAIN_CLOCK: [/tick 2/, /registration 0 ends at tick 2/, /it says 1/, ...BY_KEEPER, UNASKED],
    OLD_OFFER: [/registration 0 ends/, /used offers are open/, ...BY_KEEPER, UNASKED],
    OLD_ACCOUNT: [/opens another account/, /used offers are open/, /wrong: .* earlier account/],
    UNGUARDED: [/keeper decides/, /registration 0 ends/, /keeper makes registration 1/, UNASKED],
    BY_ID: [/keeper decides/, /registration 0 ends/, /keeper makes registration 1/, UNASKED],
    OTHER_PLAN_LINK: [/merchant forces/, /link for another plan/, /makes registration 1/, /wrong/],
    COLLECTED: [/registration 0 lands/, /registration 1 lands/, /wrong: time is charged twice/],
  }),
  ...of('invoices', {
    MATCHED_BY_AMOUNT: [/invoice 0 lands/, /books the pull for invoice 1/, PULLED_TWICE],
    NO_INVOICE_NAMED: [/invoice 0 lands/, /books the pull for invoice 1/, PULLED_TWICE],
    SAME_BYTES: [
      /invoice 0 lands/,
      /books the pull for invoice 1/,
      /wrong: a pull is booked twice/,
    ],
    'DRAWN_AGAIN MONEY': [/up invoice 1 from tick 1/, /up invoice 2 from tick 2/, ...COVERED],
    VOID_IN_FLIGHT: [/attempt for invoice 1/, /forgives invoice 1/, ...CLOSED],
    PAUSE_IN_FLIGHT: [/attempt for invoice 1/, /invoice 1 ends with the pause/, ...CLOSED],
    STALE_TERMS: [/decides on invoice 1/, /ends the pause/, /up invoice 1 from tick 1/, GIVEN_UP],
    STALE_INVOICE: [/decides on/, /forgives invoice/, /commits an attempt/, ...CLOSED],
    CREDIT_UNLOCKED: [
      /decides on invoice 1/,
      /for the other/,
      /up invoice 1/,
      /wrong: more credit/,
    ],
    'BESIDE_FORGIVEN MONEY': [/forgives invoice 1/, /up invoice 2 from tick 1/, ...COVERED],
    BESIDE_ENDED: [/invoice 1 ends with/, /up invoice 2 from tick 1/, GIVEN_UP],
    BESIDE_UNCOLLECTIBLE: [
      /1 is uncollectible/,
      /reinstates/,
      /up invoice 2 from tick 1/,
      GIVEN_UP,
    ],
  }),
];

function of(model: string, variants: Record<string, readonly RegExp[]>): Case[] {
  const wrong = Object.entries(variants).map(([names, shows]) => ({
    model,
    defines: names.split(' ').map((name) => `-D${name}`),
    shows,
  }));
  return [{ model, defines: [] }, ...wrong];
}

/** The first of these programs that is installed. Throws an error that names the Debian package. */
async function installed(pkg: string, programs: readonly string[]): Promise<string> {
  for (const program of programs) {
    const isThere = await run(program, [program === 'spin' ? '-V' : '--version']).then(
      () => true,
      () => false,
    );
    if (isThere) return program;
  }
  throw new Error(`${programs.join(' or ')} is missing: install the Debian package "${pkg}"`);
}

interface Result {
  readonly states: number;
  /** Undefined when the case has the expected result. */
  readonly fault?: string;
}

/** Generates, compiles and runs the checker of one case in an empty directory. */
async function check({ model, defines, shows }: Case, cc: string, cwd: string): Promise<Result> {
  const file = `${model}.pml`;
  await copyFile(join(import.meta.dirname, file), join(cwd, file));
  await run('spin', [...defines, '-a', file], { cwd });
  // Breadth first finds the shortest counterexample; depth first needs the least memory for a whole
  // state space.
  const flags = ['-O1', '-w', '-DSAFETY', '-DNOCLAIM', '-DMEMLIM=3000'];
  await run(cc, [...flags, ...(shows === undefined ? [] : ['-DBFS']), '-o', 'pan', 'pan.c'], {
    cwd,
  });
  const { stdout } = await run('./pan', ['-m10000', '-w22'], { cwd });
  const states = Number(/(\d+) states, stored/.exec(stdout)?.[1] ?? 0);
  const errors = Number(/errors: (\d+)/.exec(stdout)?.[1] ?? NaN);
  const isWhole = !/not completed|max search depth too small|out of memory/i.test(stdout);
  if (shows === undefined) {
    if (errors === 0 && isWhole) return { states };
    return { states, fault: errors === 0 ? 'the search is incomplete' : 'it has an error' };
  }
  if (errors !== 1) return { states, fault: 'nothing wrong was found' };
  // Replaying a failed assertion ends with an exit code of 1.
  const trail = await run('spin', ['-t', ...defines, file], { cwd }).catch(
    (error: unknown) => error as { stdout: string },
  );
  const missing = firstMissing(trail.stdout.split('\n'), shows);
  return missing === undefined
    ? { states }
    : { states, fault: `the counterexample does not show ${String(missing)}` };
}

/** The first pattern without a line behind the line of the pattern before it. */
function firstMissing(lines: readonly string[], shows: readonly RegExp[]): RegExp | undefined {
  let index = 0;
  return shows.find((pattern) => {
    const found = lines.findIndex((line, at) => at >= index && pattern.test(line));
    index = found + 1;
    return found < 0;
  });
}

async function main(words: readonly string[]): Promise<number> {
  await installed('spin', ['spin']);
  const cc = await installed('gcc', ['gcc', 'cc']);
  const directory = await mkdtemp(join(tmpdir(), 'billing-model-'));
  let [passed, failed] = [0, 0];
  try {
    const known = new Set(cases.map(({ model }) => `${model}.pml`));
    const files = (await readdir(import.meta.dirname)).filter((name) => name.endsWith('.pml'));
    const unknown = files.filter((name) => !known.has(name));
    if (unknown.length > 0) throw new Error(`no case for ${unknown.join(', ')}`);
    const named = cases.map((one) => ({ ...one, name: [one.model, ...one.defines].join(' ') }));
    const chosen = named.filter(
      ({ name }) => words.length === 0 || words.some((word) => name.includes(word)),
    );
    await each(chosen, Math.min(2, availableParallelism()), async (one) => {
      const startedAt = performance.now();
      const cwd = await mkdtemp(join(directory, 'case-'));
      const { states, fault } = await check(one, cc, cwd);
      await rm(cwd, { recursive: true });
      if (fault === undefined) passed += 1;
      else failed += 1;
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const right = one.shows === undefined ? 'no error' : 'found wrong';
      const verdict = fault === undefined ? `ok: ${right}` : `FAILED: ${fault}`;
      const columns = [one.name.padEnd(50), `${states.toString().padStart(9)} states`];
      console.log([...columns, `${seconds.padStart(6)} s`, verdict].join('  '));
    });
  } finally {
    await rm(directory, { recursive: true });
  }
  console.log(`${String(passed)} passed, ${String(failed)} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
