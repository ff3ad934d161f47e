// Random sequences of instructions by several wallets. After each, the program must have done what
// the model says, and what moved is measured in the token accounts: within the plan's amount per
// period, to listed owners only, nothing after the end, the supply as it was.
import { createRevokeInstruction, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { Keypair, PublicKey, type TransactionInstruction } from '@solana/web3.js';
import fc from 'fast-check';
import t from 'tap';
import { isLong } from '../fixtures/long.ts';
import {
  ataOf,
  authorityOf,
  cancel,
  cancelNow,
  closeAuthority,
  createPlan,
  dataOf,
  deletePlan,
  fork,
  fund,
  HOUR,
  initAuthority,
  isRefused,
  planOf,
  pull,
  readAuthority,
  readPlan,
  readSubscription,
  resume,
  revoke,
  revokeAuthority,
  send,
  setMint,
  setTime,
  setTokens,
  slot,
  START,
  startChain,
  subscribe,
  subscriptionOf,
  tokensOf,
  updatePlan,
  type Chain,
} from '../fixtures/program.ts';
import {
  cancels,
  cancelsNow,
  closes,
  createsPlan,
  deletesPlan,
  periodOf,
  pulls,
  resumes,
  subscribes,
  subscriptionKey,
  updatesPlan,
  type Leg,
  type Model,
  type PlanModel,
} from './model.ts';

const WALLETS = 8; // 0, 1 merchants; 2, 3 keepers; 4, 5, 6 subscribers; 7 a stranger
const HELD = 3_000n;
const wallets = Array.from({ length: WALLETS }, (_, i) =>
  Keypair.fromSeed(new Uint8Array(32).fill(i + 1)),
);
const wallet = (i: number) => wallets[i] as Keypair;
const key = (i: number) => wallet(i).publicKey;

/** The state that the signer of an update saw if there is no plan. */
const NO_PLAN = {
  owner: PublicKey.default,
  status: 1,
  amount: 1n,
  periodHours: 1n,
  createdAt: 0n,
  endTs: 0n,
  pullers: [],
  metadataUri: '',
};

/** Plans 0 and 1 are merchant 0's, 2 and 3 merchant 1's. */
const ownerOf = (plan: number) => plan >> 1;
const planKey = (plan: number) => planOf(key(ownerOf(plan)), BigInt(plan & 1))[0];

const genesis = (() => {
  const chain = startChain();
  for (let i = 0; i < WALLETS; i++) {
    fund(chain, key(i), 1_000_000_000_000n);
    setTokens(chain, ataOf(key(i), chain.mint), chain.mint, { owner: key(i), amount: HELD });
  }
  setMint(chain, chain.mint, TOKEN_PROGRAM_ID, HELD * BigInt(WALLETS));
  return chain;
})();

// Most steps are about plan 0 and wallet 4, so that sequences on one subscription come about.
const mostly = <T>(usual: T, arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary });
const merchant = mostly(0, fc.integer({ min: 0, max: 3 }));
const subscriber = mostly(4, fc.integer({ min: 4, max: 6 }));
const anyone = fc.integer({ min: 0, max: WALLETS - 1 });
const some = fc.uniqueArray(anyone, { maxLength: 4 });
/** An end as whole periods and seconds from now; no periods: none. */
const end = fc.record({
  periods: fc.integer({ min: 0, max: 4 }),
  seconds: fc.constantFrom(-1n, 0n, 1n, 1800n),
});
const leg = fc.record({
  plan: merchant,
  subscriber,
  caller: mostly(2, anyone),
  to: mostly(0, anyone),
  percent: mostly(20n, fc.constantFrom(0n, 1n, 30n, 50n, 100n, 101n)),
});

const of = <T extends object>(weight: number, arbitrary: fc.Arbitrary<T>) => ({
  weight,
  arbitrary,
});
const at = { plan: merchant, wallet: subscriber };
const pullers = fc.oneof(
  { weight: 3, arbitrary: fc.constant<number[]>([2]) },
  { weight: 1, arbitrary: some },
);
const step = fc.oneof(
  of(
    6,
    fc.record({
      do: fc.constant('wait' as const),
      seconds: fc.constantFrom(1n, 1799n, 1800n, 3599n, 3600n, 3601n, 25_000n),
    }),
  ),
  of(
    14,
    fc.record({
      do: fc.constant('pull' as const),
      legs: fc.array(leg, { minLength: 1, maxLength: 2 }),
    }),
  ),
  of(
    2,
    fc.record({
      ...{
        do: fc.constant('createPlan' as const),
        plan: merchant,
        amount: fc.bigInt(0n, 900n),
        hours: fc.constantFrom(1n, 2n),
        end,
      },
      ...{ destinations: some, pullers },
    }),
  ),
  of(
    1,
    fc.record({
      do: fc.constant('updatePlan' as const),
      plan: merchant,
      active: mostly(true, fc.boolean()),
      end,
      pullers,
    }),
  ),
  of(1, fc.record({ do: fc.constant('deletePlan' as const), plan: merchant })),
  of(4, fc.record({ do: fc.constant('init' as const), wallet: subscriber })),
  of(
    1,
    fc.record({
      do: fc.constantFrom(
        'closeAuthority' as const,
        'revokeAuthority' as const,
        'revokeTokens' as const,
      ),
      wallet: subscriber,
    }),
  ),
  of(4, fc.record({ do: fc.constant('subscribe' as const), ...at, payer: anyone })),
  of(2, fc.record({ do: fc.constant('cancel' as const), ...at })),
  of(6, fc.record({ do: fc.constant('resume' as const), ...at })),
  of(1, fc.record({ do: fc.constant('cancelNow' as const), ...at })),
  of(4, fc.record({ do: fc.constant('close' as const), ...at, by: mostly(4, anyone) })),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Every run begins with a plan, three subscriptions to it, and another plan that ends. */
const opening: Step[] = [
  {
    do: 'createPlan',
    plan: 0,
    amount: 500n,
    hours: 1n,
    end: { periods: 0, seconds: 0n },
    destinations: [0, 7],
    pullers: [2],
  },
  {
    do: 'createPlan',
    plan: 2,
    amount: 300n,
    hours: 2n,
    end: { periods: 3, seconds: 0n },
    destinations: [],
    pullers: [2, 3],
  },
  ...[4, 5, 6].flatMap((i): Step[] => [
    { do: 'init', wallet: i },
    { do: 'subscribe', plan: 0, wallet: i, payer: i === 4 ? 2 : i },
    { do: 'subscribe', plan: 2, wallet: i, payer: i },
  ]),
];

interface Attempt {
  signers: number[];
  instructions: TransactionInstruction[];
  /** Whether the model allows it; if so the model has applied it. */
  expected: boolean;
}

const endAt = (
  now: bigint,
  length: bigint,
  { periods, seconds }: { periods: number; seconds: bigint },
) => (periods === 0 ? 0n : now + BigInt(periods) * length + seconds);

/** The transaction of a step and the model's verdict on it. */
function attempt(chain: Chain, model: Model, doing: Exclude<Step, { do: 'wait' }>): Attempt {
  const one = (signer: number, instruction: TransactionInstruction, expected: boolean) => ({
    ...{ signers: [signer], instructions: [instruction], expected },
  });
  switch (doing.do) {
    case 'createPlan': {
      const owner = ownerOf(doing.plan);
      const length = doing.hours * HOUR;
      const { amount, destinations, pullers } = doing;
      const endTs = endAt(model.now, length, doing.end);
      const instruction = createPlan(chain, key(owner), {
        ...{ planId: BigInt(doing.plan & 1), amount, periodHours: doing.hours, endTs },
        ...{ destinations: destinations.map(key), pullers: pullers.map(key) },
      });
      const plan: PlanModel = {
        owner,
        amount,
        length,
        createdAt: 0n,
        endTs,
        active: true,
        destinations,
        pullers,
      };
      return one(owner, instruction, createsPlan(model, doing.plan, plan));
    }
    case 'updatePlan': {
      const { active, pullers } = doing;
      const plan = model.plans.get(doing.plan);
      const endTs =
        plan?.active === false ? plan.endTs : endAt(model.now, plan?.length ?? HOUR, doing.end);
      const change = { status: active ? 1 : 0, endTs, pullers: pullers.map(key) };
      const seen = readPlan(chain, planKey(doing.plan)) ?? NO_PLAN;
      const instruction = updatePlan(
        chain,
        key(ownerOf(doing.plan)),
        planKey(doing.plan),
        change,
        seen,
      );
      return one(
        ownerOf(doing.plan),
        instruction,
        updatesPlan(model, doing.plan, { active, endTs, pullers }),
      );
    }
    case 'deletePlan':
      return one(
        ownerOf(doing.plan),
        deletePlan(key(ownerOf(doing.plan)), planKey(doing.plan)),
        deletesPlan(model, doing.plan),
      );
    case 'init':
      if (!model.authorities.has(doing.wallet)) model.authorities.set(doing.wallet, model.slot);
      model.approved.add(doing.wallet);
      return one(doing.wallet, initAuthority(chain, key(doing.wallet)), true);
    case 'closeAuthority':
      return one(
        doing.wallet,
        closeAuthority(chain, key(doing.wallet)),
        model.authorities.delete(doing.wallet),
      );
    case 'revokeAuthority':
      model.authorities.delete(doing.wallet);
      model.approved.delete(doing.wallet);
      return one(doing.wallet, revokeAuthority(chain, key(doing.wallet)), true);
    case 'revokeTokens':
      model.approved.delete(doing.wallet);
      return one(
        doing.wallet,
        createRevokeInstruction(ataOf(key(doing.wallet), chain.mint), key(doing.wallet)),
        true,
      );
    case 'subscribe': {
      const plan = readPlan(chain, planKey(doing.plan));
      const { amount = 0n, periodHours = 0n, createdAt = 0n } = plan ?? {};
      const initId = readAuthority(chain, authorityOf(key(doing.wallet), chain.mint))?.initId ?? 0n;
      const consent = {
        merchant: key(ownerOf(doing.plan)),
        planId: BigInt(doing.plan & 1),
        amount,
        periodHours,
        createdAt,
        initId,
      };
      const instruction = subscribe(chain, key(doing.wallet), consent, key(doing.payer));
      const expected = subscribes(model, doing.plan, doing.wallet, doing.payer);
      return { signers: [doing.payer, doing.wallet], instructions: [instruction], expected };
    }
    case 'cancel':
      return one(
        doing.wallet,
        cancel(key(doing.wallet), planKey(doing.plan)),
        cancels(model, doing.plan, doing.wallet),
      );
    case 'cancelNow': {
      const owner = ownerOf(doing.plan);
      const live = readSubscription(chain, subscriptionOf(planKey(doing.plan), key(doing.wallet)));
      const instruction = cancelNow(
        key(doing.wallet),
        key(owner),
        planKey(doing.plan),
        live?.periodStart ?? 0n,
      );
      return {
        signers: [doing.wallet, owner],
        instructions: [instruction],
        expected: cancelsNow(model, doing.plan, doing.wallet),
      };
    }
    case 'resume': {
      const live = readSubscription(chain, subscriptionOf(planKey(doing.plan), key(doing.wallet)));
      const instruction = resume(
        chain,
        key(doing.wallet),
        planKey(doing.plan),
        live?.expiresAt ?? 0n,
      );
      return one(doing.wallet, instruction, resumes(model, doing.plan, doing.wallet));
    }
    case 'close': {
      const payer =
        model.subscriptions.get(subscriptionKey(doing.plan, doing.wallet))?.payer ?? doing.by;
      const instruction = revoke(key(doing.by), planKey(doing.plan), key(doing.wallet), key(payer));
      return one(doing.by, instruction, closes(model, doing.plan, doing.wallet, doing.by));
    }
    case 'pull': {
      const legs = doing.legs.map(({ percent, ...rest }): Leg => ({
        ...rest,
        amount: ((model.plans.get(rest.plan)?.amount ?? 100n) * percent) / 100n,
      }));
      return {
        signers: [...new Set(legs.map(({ caller }) => caller))],
        instructions: legs.map((each) =>
          pull(chain, {
            plan: planKey(each.plan),
            subscriber: key(each.subscriber),
            to: key(each.to),
            caller: key(each.caller),
            amount: each.amount,
          }),
        ),
        expected: pulls(model, legs),
      };
    }
  }
}

const balances = (chain: Chain) =>
  wallets.map(({ publicKey }) => tokensOf(chain, ataOf(publicKey, chain.mint))?.amount ?? 0n);
const supply = (chain: Chain) => dataOf(chain, chain.mint)?.readBigUInt64LE(36);

/**
 * Fails unless the movement of this transaction was within the rules as they stood before it.
 * `taken` outlives a step.
 */
function checkMovement(
  before: bigint[],
  after: bigint[],
  doing: Step,
  model: Model,
  taken: Map<string, Map<bigint, bigint>>,
) {
  const moved = after.map((amount, i) => amount - (before[i] ?? 0n));
  if (doing.do !== 'pull') {
    if (moved.some((amount) => amount !== 0n)) throw new Error(`${doing.do} moved tokens`);
    return;
  }
  const allowed = new Map<number, bigint>();
  for (const each of doing.legs) {
    const plan = model.plans.get(each.plan);
    const subscription = model.subscriptions.get(subscriptionKey(each.plan, each.subscriber));
    if (plan === undefined || subscription === undefined)
      throw new Error('pulled without a plan or a subscription');
    if (subscription.expiresAt !== 0n && model.now >= subscription.expiresAt)
      throw new Error('pulled after the cancellation took effect');
    if (plan.destinations.length > 0 && !plan.destinations.includes(each.to))
      throw new Error('pulled to an unlisted owner');
    const amount = (plan.amount * each.percent) / 100n;
    const period = periodOf(subscription, plan, model.now);
    const opened = `${subscriptionKey(each.plan, each.subscriber)}:${subscription.openedIn}`;
    const sums = taken.get(opened) ?? new Map<bigint, bigint>();
    taken.set(opened, sums.set(period, (sums.get(period) ?? 0n) + amount));
    if ((sums.get(period) ?? 0n) > plan.amount)
      throw new Error('pulled more than the amount of the period');
    allowed.set(each.to, (allowed.get(each.to) ?? 0n) + amount);
    allowed.set(each.subscriber, (allowed.get(each.subscriber) ?? 0n) - amount);
  }
  moved.forEach((amount, i) => {
    if (amount !== (allowed.get(i) ?? 0n))
      throw new Error(`wallet ${i} moved ${amount}, not ${allowed.get(i) ?? 0n}`);
  });
}

const seen = new Map<string, number>();

function play(steps: readonly Step[]) {
  const chain = fork(genesis);
  const model: Model = {
    ...{
      now: START,
      slot: slot(chain),
      plans: new Map(),
      subscriptions: new Map(),
      authorities: new Map(),
      approved: new Set(),
    },
    tokens: wallets.map(() => HELD),
  };
  const taken = new Map<string, Map<bigint, bigint>>();
  for (const doing of [...opening, ...steps]) {
    if (doing.do === 'wait') {
      model.now += doing.seconds;
      setTime(chain, model.now);
      continue;
    }
    model.slot += 1n;
    chain.svm.warpToSlot(model.slot);
    const before = balances(chain);
    const { signers, instructions, expected } = attempt(chain, model, doing);
    const result = send(chain, signers.map(wallet), ...instructions);
    const happened = !isRefused(result);
    const outcome = `${doing.do}, ${happened ? 'done' : 'refused'}`;
    seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    if (happened !== expected)
      throw new Error(
        `${outcome}, but the model says otherwise: ${JSON.stringify(isRefused(result) ? result : '')}`,
      );
    const after = balances(chain);
    if (happened) checkMovement(before, after, doing, model, taken);
    else if (after.join() !== before.join()) throw new Error('a refused transaction moved tokens');
    if (after.join() !== model.tokens.join())
      throw new Error('the balances are not those of the model');
    if (supply(chain) !== HELD * BigInt(WALLETS) || after.reduce((a, b) => a + b) !== supply(chain))
      throw new Error('the supply changed');
  }
}

void t.test(
  'random instructions of several wallets have exactly the effects that a model predicts',
  async (t) => {
    fc.assert(fc.property(fc.array(step, { minLength: 30, maxLength: 60 }), play), {
      numRuns: isLong ? 100 : 40,
    });
    const enough = [
      'pull',
      'createPlan',
      'updatePlan',
      'subscribe',
      'cancel',
      'cancelNow',
      'resume',
      'close',
    ];
    const least = isLong ? 4 : 0;
    for (const name of enough) {
      t.ok(
        (seen.get(`${name}, done`) ?? 0) > least,
        `${name} went through ${seen.get(`${name}, done`)} times`,
      );
      t.ok(
        (seen.get(`${name}, refused`) ?? 0) > least,
        `${name} was refused ${seen.get(`${name}, refused`)} times`,
      );
    }
  },
);
