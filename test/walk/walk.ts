// A random walk: a seed decides who acts and how much chain time passes. At the end books, chain
// and rules are compared (verdict.ts).
import type { Test } from 'tap';
import { seeded } from '../../src/local/sandbox/random.ts';
import { buy, cancel, change, close, openOutside, registerOwn, resume, spend } from './buying.ts';
import {
  fund,
  pass,
  type Said,
  settle,
  startKeeper,
  startWalk,
  stopKeeper,
  type Walk,
  type Walker,
} from './party.ts';
import {
  cancelFor,
  discount,
  pauseOrGoOn,
  pullForeign,
  refund,
  reinstate,
  restart,
} from './selling.ts';
import { judge } from './verdict.ts';

type Act = (walk: Walk, walker: Walker) => Promise<Said>;

/** Acts, and how often each is chosen. */
const ACTS: readonly (readonly [Act, number])[] = [
  [buy, 6],
  [change, 6],
  [cancel, 3],
  [resume, 3],
  [cancelFor, 3],
  [reinstate, 3],
  [registerOwn, 2],
  [refund, 3],
  [pauseOrGoOn, 3],
  [discount, 1],
  [pullForeign, 2],
  [spend, 2],
  [close, 1],
  [openOutside, 1],
  [restart, 3],
];
const DICE = ACTS.flatMap(([act, times]) => Array<Act>(times).fill(act));
/** More blocks than a transaction needs to be final. */
const FINAL_BLOCKS = 40;
/** Hours that pass after an act. */
const HOURS = [0, 0, 0, 1, 5, 24, 72, 168, 330, 700];

export interface WalkOptions {
  seed: number;
  steps: number;
  wallets?: number;
}

export interface Walked {
  seed: number;
  story: string[];
  breaches: string[];
  /** Number of payments that keepers collected. */
  payments: number;
}

/** Walks once. Throws an Error when the service does what it must never do, such as a 500. */
export async function walk(t: Test, { seed, steps, wallets = 2 }: WalkOptions): Promise<Walked> {
  const dice = seeded(seed);
  const party = await startWalk(t, { random: dice, wallets });
  const { stage, story, walkers } = party;
  try {
    for (let step = 1; step <= steps; step += 1) {
      // What an act draws does not change what comes later.
      const [own, hours] = [seeded(dice.below(2 ** 31)), dice.pick(HOURS)];
      party.random = own;
      story.push(`${step}: ?`);
      const said = await actOnce(party, own.pick(walkers));
      story[story.length - 1] = `${step}: ${said}; then ${hours} h`;
      await pass(party, hours);
    }
    await lastStart(party);
    const [{ payments }] = await stage.sql<[{ payments: number }]>`
      select count(*)::int as payments from payments
      where status = 'succeeded' and source = 'keeper'`;
    return { seed, story, breaches: await judge(party), payments };
  } catch (error) {
    throw new Error([`seed ${seed}`, ...story].join('\n'), { cause: error });
  }
}

/** Tries acts until one can be done. */
async function actOnce(party: Walk, walker: Walker): Promise<string> {
  for (;;) {
    const act = party.random.pick(DICE);
    party.story[party.story.length - 1] = `${walker.name} ${act.name}`;
    const said = await act(party, walker);
    if (said !== undefined) return `${walker.name} ${said}`;
  }
}

/**
 * A last start of a keeper, which reads all accounts: it has seen them when it has registered or
 * listed an account that was opened for each plan while it was away.
 */
async function lastStart(party: Walk): Promise<void> {
  const { stage, plans } = party;
  await settle(party);
  await stopKeeper(party);
  const opened: string[] = [];
  for (const plan of plans) {
    const wallet = stage.wallet();
    fund(party, wallet);
    opened.push(await stage.open(plan, wallet));
  }
  stage.net.mineBlocks(FINAL_BLOCKS);
  await startKeeper(party);
  await stage.until('the accounts that were opened last are registered or listed', async () => {
    stage.net.mineBlocks();
    const [seen] = await stage.sql<[{ count: number }]>`
      select ((select count(*) from subscriptions where subscription_pda = any(${opened}))
        + (select count(*) from unregistered_subscriptions
          where subscription_pda = any(${opened})))::int as count`;
    return seen.count >= opened.length;
  });
  await settle(party);
  await stopKeeper(party);
  stage.net.mineBlocks(FINAL_BLOCKS);
}
