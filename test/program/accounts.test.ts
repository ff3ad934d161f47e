import { TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { Keypair, SystemProgram, type TransactionInstruction } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  authorityOf,
  cancel,
  cancelNow,
  closeAuthority,
  createPlan,
  dataOf,
  deletePlan,
  errorOf,
  EVENT_AUTHORITY,
  fork,
  initAuthority,
  newHolder,
  PERIOD,
  PROGRAM_ID,
  PULL,
  pullOf,
  resume,
  revoke,
  revokeAuthority,
  setAccount,
  setScene,
  setTime,
  setTokens,
  simulate,
  START,
  subscribe,
  subscriptionOf,
  updatePlan,
  withAccount,
  withKeys,
  must,
  type Scene,
} from '../fixtures/program.ts';

interface Case {
  name: string;
  scene: Scene;
  instruction: TransactionInstruction;
  signers: Keypair[];
}

/** Every instruction once, each in a state in which it goes through. */
function everyInstruction(): Case[] {
  const scene = setScene();
  const { merchant, subscriber, keeper, plan, consent } = scene;
  const user = subscriber.publicKey;
  const cases: Case[] = [];
  const add = (name: string, instruction: TransactionInstruction, signers: Keypair[], prepare?: (copy: Scene) => void, base = scene) => {
    const copy = fork(base);
    prepare?.(copy);
    cases.push({ name, scene: copy, instruction, signers });
  };
  const newcomer = newHolder(scene, AMOUNT);
  const sponsor = newHolder(scene);
  add('init_subscription_authority', initAuthority(scene, newcomer.publicKey, sponsor.publicKey), [newcomer, sponsor]);
  add('close_subscription_authority', closeAuthority(scene, user), [subscriber]);
  add('revoke_subscription_authority', revokeAuthority(scene, user), [subscriber]);
  const another = { planId: 2n, amount: AMOUNT, periodHours: 24n };
  add('create_plan', createPlan(scene, merchant.publicKey, another, sponsor.publicKey), [merchant, sponsor]);
  add('update_plan', updatePlan(merchant.publicKey, plan, { endTs: START + PERIOD }), [merchant]);
  const ending = setScene({ endTs: START + PERIOD });
  const afterEnd = (copy: Scene) => setTime(copy, START + PERIOD + 1n);
  add('delete_plan', deletePlan(ending.merchant.publicKey, ending.plan), [ending.merchant], afterEnd, ending);
  add('subscribe', subscribe(scene, newcomer.publicKey, consent, sponsor.publicKey), [newcomer, sponsor], (copy) => {
    must(copy, [newcomer], initAuthority(copy, newcomer.publicKey));
  });
  add('transfer_subscription', pullOf(scene), [keeper]);
  add('cancel_subscription', cancel(user, plan), [subscriber]);
  add('cancel_subscription_now', cancelNow(user, merchant.publicKey, plan, START), [subscriber, merchant]);
  const cancelled = (copy: Scene) => must(copy, [subscriber], cancel(user, plan));
  add('resume_subscription', resume(scene, user, plan, START + PERIOD), [subscriber], cancelled);
  add('revoke_delegation', revoke(user, plan, user), [subscriber], (copy) => {
    cancelled(copy);
    setTime(copy, START + PERIOD);
  });
  return cases;
}

const cases = everyInstruction();

/** Tries a changed instruction, paid by a stranger, signed by whoever it still asks to sign. */
function refused({ scene, signers }: Case, changed: TransactionInstruction) {
  const asked = signers.filter(({ publicKey }) => changed.keys.some((key) => key.isSigner && key.pubkey.equals(publicKey)));
  return simulate(scene, [scene.stranger, ...asked], changed);
}

void t.test('each instruction goes through as the tests build it', async (t) => {
  for (const entry of cases) t.equal(refused(entry, entry.instruction), undefined, entry.name);
  t.equal(cases.length, 12);
});

void t.test('each account that must sign is asked to (100)', async (t) => {
  for (const entry of cases) {
    const { instruction, name } = entry;
    const positions = instruction.keys.flatMap((key, i) => (key.isSigner ? [i] : []));
    t.ok(positions.length > 0, name);
    for (const i of positions) {
      const key = instruction.keys[i];
      if (key === undefined) throw new Error('no such account');
      const flags = key.isWritable ? 'w' : '';
      t.equal(refused(entry, withAccount(instruction, i, key.pubkey, flags)), 100, `${name}, account ${i}`);
    }
  }
});

void t.test('each account that is written must be writable (131)', async (t) => {
  for (const entry of cases) {
    const { instruction, name } = entry;
    for (const [i, key] of instruction.keys.entries()) {
      if (!key.isWritable) continue;
      t.equal(refused(entry, withAccount(instruction, i, key.pubkey, key.isSigner ? 's' : '')), 131, `${name}, account ${i}`);
    }
  }
});

void t.test('each required account must be there (113)', async (t) => {
  // Two of them can do with fewer: the payer is optional in three, the events of update_plan are as of 0.4.0.
  const optional: Record<string, number> = { init_subscription_authority: 1, create_plan: 1, subscribe: 1, update_plan: 2 };
  for (const entry of cases) {
    const { instruction, name } = entry;
    const required = instruction.keys.length - (optional[name] ?? 0);
    const fewer = (count: number) => withKeys(instruction, instruction.keys.slice(0, count));
    t.equal(refused(entry, fewer(required)), undefined, `${name} with ${required}`);
    for (let count = 0; count < required; count++) t.equal(refused(entry, fewer(count)), 113, `${name} with ${count}`);
  }
});

void t.test('the programs and the event authority are the real ones', async (t) => {
  const expected: [string, { toBase58(): string }, number][] = [
    ['system program', SystemProgram.programId, 104],
    ['token program', TOKEN_PROGRAM_ID, 105],
    ['event authority', EVENT_AUTHORITY, 600],
    ['this program', PROGRAM_ID, 604],
  ];
  for (const [what, address, code] of expected) {
    let met = 0;
    for (const entry of cases) {
      for (const [i, key] of entry.instruction.keys.entries()) {
        if (key.pubkey.toBase58() !== address.toBase58()) continue;
        met++;
        t.equal(refused(entry, withAccount(entry.instruction, i, Keypair.generate().publicKey)), code, `${entry.name}: ${what}`);
      }
    }
    t.ok(met >= 3, `${what} is met in ${met} instructions`);
  }
});

void t.test('Token-2022, its mints and its accounts are refused (105)', async (t) => {
  const { scene } = cases[0] as Case;
  for (const entry of cases) {
    const { instruction, name } = entry;
    const program = instruction.keys.findIndex((key) => key.pubkey.equals(TOKEN_PROGRAM_ID));
    const mint = instruction.keys.findIndex((key) => key.pubkey.equals(scene.mint));
    if (program < 0) continue;
    t.equal(refused(entry, withAccount(instruction, program, TOKEN_2022_PROGRAM_ID)), 105, `${name}: program`);
    const copy = fork(entry.scene);
    setAccount(copy, scene.mint, TOKEN_2022_PROGRAM_ID, dataOf(copy, scene.mint) ?? Buffer.alloc(0));
    t.equal(refused({ ...entry, scene: copy }, instruction), 105, `${name}: mint ${mint}`);
  }
});

void t.test('a mint must be a mint (109), a token account a token account (110)', async (t) => {
  let mints = 0;
  let accounts = 0;
  for (const entry of cases) {
    const { instruction, name, scene } = entry;
    for (const [i, key] of instruction.keys.entries()) {
      const data = dataOf(scene, key.pubkey);
      if (key.pubkey.equals(scene.mint)) {
        mints++;
        t.equal(refused(entry, withAccount(instruction, i, Keypair.generate().publicKey)), 109, `${name}: no mint`);
        t.equal(refused(entry, withAccount(instruction, i, scene.subscription)), 109, `${name}: an account of another program`);
        const copy = fork(scene);
        const blank = Keypair.generate().publicKey;
        setAccount(copy, blank, TOKEN_PROGRAM_ID, Buffer.alloc(82));
        t.equal(refused({ ...entry, scene: copy }, withAccount(instruction, i, blank)), 109, `${name}: a mint that is not initialized`);
      } else if (data?.length === 165) {
        accounts++;
        t.equal(refused(entry, withAccount(instruction, i, Keypair.generate().publicKey)), 110, `${name}: no token account`);
        t.equal(refused(entry, withAccount(instruction, i, scene.mint)), 110, `${name}: a mint for a token account`);
      }
    }
  }
  t.equal(mints, 4);
  t.equal(accounts, 4);
});

void t.test('an account of the right bytes but another owner is not believed', async (t) => {
  // What each instruction answers when its plan, subscription or authority is a forgery. Where the account may be
  // closed by now a foreign one counts as closed, so the instruction goes through as for a closed one.
  const expected: Record<string, Partial<Record<'plan' | 'subscription' | 'authority', number | string | undefined>>> = {
    close_subscription_authority: { authority: 'InvalidAccountOwner' },
    revoke_subscription_authority: { authority: undefined },
    update_plan: { plan: 'InvalidAccountOwner' },
    delete_plan: { plan: 'InvalidAccountOwner' },
    subscribe: { plan: 'InvalidAccountOwner', authority: 103 },
    transfer_subscription: { subscription: 'InvalidAccountOwner', plan: 516, authority: 103 },
    cancel_subscription: { subscription: 'InvalidAccountOwner', plan: undefined },
    cancel_subscription_now: { subscription: 'InvalidAccountOwner', plan: 'InvalidAccountOwner' },
    resume_subscription: { subscription: 'InvalidAccountOwner', plan: 516, authority: 103 },
    revoke_delegation: { subscription: 'InvalidAccountOwner', plan: undefined },
  };
  const kinds = { 491: 'plan', 155: 'subscription', 106: 'authority' } as const;
  for (const entry of cases) {
    const answers = expected[entry.name];
    for (const key of entry.instruction.keys) {
      const data = dataOf(entry.scene, key.pubkey);
      if (data === undefined || answers === undefined) continue;
      const kind = kinds[data.length as keyof typeof kinds] as 'plan' | undefined;
      if (kind === undefined) continue;
      t.ok(kind in answers, `${entry.name} has a ${kind}`);
      const copy = fork(entry.scene);
      setAccount(copy, key.pubkey, Keypair.generate().publicKey, data);
      t.equal(refused({ ...entry, scene: copy }, entry.instruction), answers[kind], `${entry.name}: forged ${kind}`);
    }
  }
});

void t.test('an account of ours in the place of another kind is refused by its size, its first byte or its address', async (t) => {
  const { scene } = cases[0] as Case;
  const entry = cases.find(({ name }) => name === 'transfer_subscription') as Case;
  const { instruction } = entry;
  t.equal(refused(entry, withAccount(instruction, PULL.subscription, scene.plan)), 111);
  t.equal(refused(entry, withAccount(instruction, PULL.plan, scene.subscription)), 111);
  t.equal(refused(entry, withAccount(instruction, PULL.authority, scene.plan)), 111);
  const plan = dataOf(scene, scene.plan) ?? Buffer.alloc(0);
  const subscription = dataOf(scene, scene.subscription) ?? Buffer.alloc(0);
  const authorityKey = authorityOf(scene.subscriber.publicKey, scene.mint);
  const authority = dataOf(scene, authorityKey) ?? Buffer.alloc(0);
  for (const [position, data, derivation] of [
    [PULL.plan, plan, 502],
    [PULL.subscription, subscription, 503],
    [PULL.authority, authority, 103],
  ] as const) {
    const copy = fork(scene);
    const elsewhere = Keypair.generate().publicKey;
    setAccount(copy, elsewhere, PROGRAM_ID, data);
    t.equal(refused({ ...entry, scene: copy }, withAccount(instruction, position, elsewhere)), derivation, 'right contents, wrong address');
    const marked = Buffer.from(data);
    marked[0] = 3;
    setAccount(copy, elsewhere, PROGRAM_ID, marked);
    t.equal(refused({ ...entry, scene: copy }, withAccount(instruction, position, elsewhere)), 117, 'another kind of account');
  }
});

void t.test('an account of another version: later is 133, earlier is 134; its rent can be had back all the same', async (t) => {
  for (const [version, code] of [
    [2, 133],
    [255, 133],
    [0, 134],
  ] as const) {
    for (const name of [
      'transfer_subscription',
      'cancel_subscription',
      'cancel_subscription_now',
      'resume_subscription',
      'revoke_delegation',
    ]) {
      const entry = cases.find((each) => each.name === name) as Case;
      const copy = fork(entry.scene);
      const data = dataOf(copy, copy.subscription) ?? Buffer.alloc(0);
      data[1] = version;
      setAccount(copy, copy.subscription, PROGRAM_ID, data);
      t.equal(
        refused({ ...entry, scene: copy }, entry.instruction),
        name === 'revoke_delegation' ? undefined : code,
        `${name}, ${version}`,
      );
    }
  }
});

void t.test('a subscription of another size is 111, except that a longer one can be closed: a later version only appends', async (t) => {
  for (const size of [0, 1, 154, 156, 200]) {
    for (const name of [
      'transfer_subscription',
      'cancel_subscription',
      'cancel_subscription_now',
      'resume_subscription',
      'revoke_delegation',
    ]) {
      const entry = cases.find((each) => each.name === name) as Case;
      const copy = fork(entry.scene);
      const data = Buffer.concat([dataOf(copy, copy.subscription) ?? Buffer.alloc(0), Buffer.alloc(200)]).subarray(0, size);
      setAccount(copy, copy.subscription, PROGRAM_ID, data);
      const closes = name === 'revoke_delegation' && size > 155;
      t.equal(refused({ ...entry, scene: copy }, entry.instruction), closes ? undefined : 111, `${name}, ${size} bytes`);
    }
  }
});

void t.test('the same account twice is refused wherever two different ones are meant', async (t) => {
  const entry = cases.find(({ name }) => name === 'transfer_subscription') as Case;
  const { instruction, scene } = entry;
  const keyAt = (i: number) => instruction.keys[i]?.pubkey ?? Keypair.generate().publicKey;
  const twice = (from: number, to: number) => refused(entry, withAccount(instruction, to, keyAt(from)));
  t.equal(twice(PULL.subscription, PULL.plan), 111);
  t.equal(twice(PULL.subscription, PULL.authority), 111);
  t.equal(twice(PULL.plan, PULL.subscription), 111);
  t.equal(twice(PULL.authority, PULL.subscription), 111);
  t.equal(twice(PULL.from, PULL.to), 506, 'the subscriber is no destination');
  t.equal(twice(PULL.to, PULL.from), 506, 'the destination does not pay itself');
  t.equal(twice(PULL.mint, PULL.from), 110);
  t.equal(twice(PULL.mint, PULL.to), 110);
  const other = cases.find(({ name }) => name === 'cancel_subscription') as Case;
  t.equal(refused(other, withAccount(other.instruction, 1, scene.subscription)), 111, 'subscription as its own plan');
  t.equal(refused(other, withAccount(other.instruction, 2, scene.plan, 'w')), 111, 'plan as the subscription');
});

void t.test('a pull from and to one account is refused even where the plan takes any destination (506)', async (t) => {
  const scene = setScene({ destinations: [] });
  t.equal(errorOf(scene, [scene.keeper], pullOf(scene, { to: scene.subscriber.publicKey })), 506);
  const elsewhere = Keypair.generate().publicKey;
  setTokens(scene, elsewhere, scene.mint, { owner: scene.stranger.publicKey });
  t.equal(errorOf(scene, [scene.keeper], withAccount(pullOf(scene), PULL.to, elsewhere)), undefined, 'no destinations: any other account');
});

void t.test('the subscription address cannot be opened for somebody else', async (t) => {
  const entry = cases.find(({ name }) => name === 'subscribe') as Case;
  const other = subscriptionOf(entry.scene.plan, entry.scene.stranger.publicKey);
  t.equal(refused(entry, withAccount(entry.instruction, 3, other)), 503);
});
