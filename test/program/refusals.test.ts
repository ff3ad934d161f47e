// Every refusal of every instruction, in the order of the published program (0.5.0). For each entry
// of a table the test applies that fault and all later ones at once: the program must answer with
// the entry's own code.
import { TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { Keypair, type PublicKey, type TransactionInstruction } from '@solana/web3.js';
import { Account } from 'litesvm/dist/internal.js';
import t from 'tap';
import {
  AMOUNT,
  ataOf,
  authorityOf,
  cancel,
  cancelNow,
  closeAuthority,
  createPlan,
  dataOf,
  deletePlan,
  EVENT_AUTHORITY,
  fork,
  fund,
  initAuthority,
  instruction,
  meta,
  must,
  newHolder,
  now,
  patchAccount,
  PERIOD,
  planOf,
  PROGRAM_ID,
  PULL,
  pullOf,
  reclaimExcessRent,
  resume,
  revoke,
  revokeAbandoned,
  revokeAuthority,
  setAccount,
  setMint,
  setScene,
  setTime,
  setTokens,
  simulate,
  slot,
  START,
  subscribe,
  subscriptionOf,
  u64,
  updatePlan,
  withAccount,
  withData,
  withKeys,
  type Scene,
} from '../fixtures/program.ts';

interface Attempt {
  readonly scene: Scene;
  instruction: TransactionInstruction;
}

interface Fault {
  readonly code: number | string;
  readonly name: string;
  readonly apply: (attempt: Attempt) => void;
}

interface Case {
  readonly name: string;
  readonly attempt: Attempt;
  readonly wallets: readonly Keypair[];
  readonly faults: readonly Fault[];
}

const NO_ACCOUNT = new Account(0n, new Uint8Array(), new Uint8Array(32), false, 0n);
const random = () => Keypair.generate().publicKey;
const keyAt = ({ instruction: { keys } }: Attempt, position: number) => {
  const key = keys[position];
  if (key === undefined) throw new Error(`no account ${position}`);
  return key;
};
const dataAt = (attempt: Attempt, position: number) => {
  const data = dataOf(attempt.scene, keyAt(attempt, position).pubkey);
  if (data === undefined) throw new Error(`account ${position} does not exist`);
  return data;
};

// --- faults ---

const fault = (code: number | string, name: string, apply: (attempt: Attempt) => void): Fault => ({
  code,
  name,
  apply,
});

const change = (
  code: number,
  name: string,
  edit: (attempt: Attempt) => TransactionInstruction,
): Fault =>
  fault(code, name, (attempt) => {
    attempt.instruction = edit(attempt);
  });

const onlyFirst = (count: number) =>
  change(113, `${count} accounts`, ({ instruction }) =>
    withKeys(instruction, instruction.keys.slice(0, count)),
  );
const shortData = change(112, 'a byte of data is missing', ({ instruction }) =>
  withData(instruction, instruction.data.subarray(1, -1)),
);
const unsigned = (position: number) =>
  change(100, `account ${position} has not signed`, (attempt) => {
    const { pubkey, isWritable } = keyAt(attempt, position);
    return withAccount(attempt.instruction, position, pubkey, isWritable ? 'w' : '');
  });
const readonly = (position: number) =>
  change(131, `account ${position} is read-only`, (attempt) => {
    const { pubkey, isSigner } = keyAt(attempt, position);
    return withAccount(attempt.instruction, position, pubkey, isSigner ? 's' : '');
  });
const other = (code: number, position: number, replacement: (scene: Scene) => PublicKey = random) =>
  change(code, `account ${position} is another`, ({ instruction, scene }) =>
    withAccount(instruction, position, replacement(scene)),
  );
const dataAs = (code: number, name: string, offset: number, bytes: Uint8Array) =>
  change(code, name, ({ instruction }) => {
    const data = Buffer.from(instruction.data.subarray(1));
    data.set(bytes, offset);
    return withData(instruction, data);
  });

const foreign = (position: number, code: number | string = 'InvalidAccountOwner') =>
  fault(code, `account ${position} belongs to another program`, (attempt) =>
    setAccount(attempt.scene, keyAt(attempt, position).pubkey, random(), dataAt(attempt, position)),
  );
const sized = (position: number, size: number, code = 111) =>
  fault(code, `account ${position} has ${size} bytes`, (attempt) =>
    setAccount(
      attempt.scene,
      keyAt(attempt, position).pubkey,
      PROGRAM_ID,
      Buffer.concat([dataAt(attempt, position), Buffer.alloc(600)]).subarray(0, size),
    ),
  );
const patched = (code: number, position: number, offset: number, bytes: Uint8Array, name: string) =>
  fault(code, name, (attempt) =>
    patchAccount(attempt.scene, keyAt(attempt, position).pubkey, offset, bytes),
  );
const stranger = new Uint8Array(32).fill(9);
const ofKind = (position: number, kind = 9) =>
  patched(117, position, 0, Buffer.of(kind), `account ${position} is of kind ${kind}`);
const atTime = (code: number, seconds: bigint) =>
  fault(code, `${seconds} s after the start`, ({ scene }) => setTime(scene, START + seconds));

// --- checks that several instructions share ---

const emits = (position: number) => [other(600, position), other(604, position + 1)];
const authorityAccount = (position: number) => [
  foreign(position, 103),
  sized(position, 107),
  ofKind(position),
];
const planContents = (position: number) => [sized(position, 492), ofKind(position)];
const subscriptionContents = (position: number) => [
  sized(position, 1),
  ofKind(position),
  patched(133, position, 1, Buffer.of(2), 'a later version'),
  patched(134, position, 1, Buffer.of(0), 'an earlier version'),
  sized(position, 154),
];
const optionalPayer = (position: number) => [unsigned(position), readonly(position)];
const rentReceiver = (position: number) => [
  onlyFirst(position),
  readonly(position),
  other(130, position),
];
const usersTokens = (position: number) => [
  patched(130, position, 32, stranger, 'tokens of another owner'),
  patched(125, position, 0, stranger, 'tokens of another mint'),
];
const secondAccount = (position: number) =>
  change(108, 'not the associated token account', (attempt) => {
    const second = random();
    setAccount(attempt.scene, second, TOKEN_PROGRAM_ID, dataAt(attempt, position));
    return withAccount(attempt.instruction, position, second);
  });
const mismatchedTerms = (position: number) =>
  patched(519, position, 107, u64(AMOUNT + 1n), 'other terms than the plan');

// --- the instructions, each in a state in which it goes through ---

const END = 4n * PERIOD;
const base = setScene({ endTs: START + END });
const sponsor = newHolder(base);
const newcomer = newHolder(base, AMOUNT);
const guest = newHolder(base, AMOUNT); // their authority and subscription are paid by the sponsor
must(
  base,
  [guest, sponsor],
  initAuthority(base, guest.publicKey, sponsor.publicKey),
  subscribe(base, guest.publicKey, base.consent, sponsor.publicKey),
);
const { merchant, subscriber, keeper, plan, consent } = base;
const user = subscriber.publicKey;
const wallets = [merchant, subscriber, keeper, sponsor, newcomer, guest];

/** A case on a copy of the base that `prepare` has changed. */
function entry(
  name: string,
  build: (scene: Scene) => TransactionInstruction,
  faults: readonly Fault[],
  prepare: (scene: Scene) => void = () => undefined,
): Case {
  const scene = fork(base);
  prepare(scene);
  return { name, attempt: { scene, instruction: build(scene) }, wallets, faults };
}

const otherAuthority = (scene: Scene) => authorityOf(keeper.publicKey, scene.mint);
const cancelled = (scene: Scene, by = subscriber) =>
  void must(scene, [by], cancel(by.publicKey, plan));

const CASES: readonly Case[] = [
  entry(
    'init_subscription_authority',
    (scene) => initAuthority(scene, newcomer.publicKey, sponsor.publicKey),
    [
      onlyFirst(5),
      ...[unsigned(0), readonly(0), readonly(1), readonly(3)],
      ...[foreign(2, 109), other(105, 5), foreign(3, 110), other(104, 4)],
      ...optionalPayer(6),
      other(103, 1, otherAuthority),
      ...usersTokens(3),
      secondAccount(3),
    ],
  ),
  entry(
    'revoke_delegation by the subscriber',
    () => revoke(guest.publicKey, plan, guest.publicKey, sponsor.publicKey),
    [
      onlyFirst(1),
      ...[unsigned(0), readonly(0), readonly(1), foreign(1)],
      ...[sized(1, 106, 127), ofKind(1), sized(1, 154), onlyFirst(2)],
      other(505, 2),
      patched(510, 1, 147, u64(0n), 'not cancelled'),
      ...rentReceiver(3),
    ],
    (scene) => {
      cancelled(scene, guest);
      setTime(scene, START + PERIOD);
    },
  ),
  entry(
    'revoke_delegation by the payer',
    () => revoke(sponsor.publicKey, plan, guest.publicKey),
    [
      other(505, 2),
      patched(130, 1, 67, stranger, 'another payer'),
      ...planContents(2),
      atTime(130, END),
    ],
    (scene) => setTime(scene, START + END + 1n),
  ),
  entry(
    'close_subscription_authority',
    (scene) => closeAuthority(scene, guest.publicKey, sponsor.publicKey),
    [
      onlyFirst(1),
      ...[unsigned(0), readonly(0), readonly(1), foreign(1), sized(1, 107), ofKind(1)],
      patched(130, 1, 1, stranger, 'the authority of another'),
      patched(103, 1, 97, Buffer.of(0), 'another bump'),
      ...rentReceiver(2),
    ],
  ),
  entry(
    'create_plan',
    (scene) =>
      createPlan(
        scene,
        merchant.publicKey,
        { planId: 2n, amount: AMOUNT, periodHours: 24n },
        sponsor.publicKey,
      ),
    [
      shortData,
      dataAs(129, 'no amount', 40, u64(0n)),
      dataAs(402, 'no period', 48, u64(0n)),
      dataAs(511, 'an end within the first period', 64, u64(START + 1n)),
      onlyFirst(4),
      ...[unsigned(0), readonly(0), readonly(1)],
      ...[foreign(2, 109), other(105, 4), other(104, 3)],
      ...optionalPayer(5),
      dataAs(125, 'another mint', 8, stranger),
      fault(518, 'the address is taken', (attempt) =>
        setAccount(attempt.scene, keyAt(attempt, 1).pubkey, PROGRAM_ID, Buffer.alloc(1)),
      ),
      other(502, 1),
    ],
  ),
  entry(
    'update_plan',
    (scene) =>
      updatePlan(scene, merchant.publicKey, plan, { endTs: START + 2n * PERIOD, pullers: [] }),
    [
      shortData,
      onlyFirst(3),
      ...[unsigned(0), readonly(1), foreign(1), ...planContents(1)],
      patched(504, 1, 1, stranger, 'the plan of another'),
      dataAs(522, 'another plan seen', 265, u64(START + 1n)),
      dataAs(514, 'sunset without an end', 0, Buffer.concat([Buffer.of(0), u64(0n)])),
      dataAs(512, 'status 2', 0, Buffer.of(2)),
      atTime(501, END + 1n),
      dataAs(520, 'a later end', 1, u64(START + END + 1n)),
      dataAs(511, 'an end within a period', 1, u64(START + 1n)),
      ...emits(2),
    ],
  ),
  entry(
    'update_plan after sunset',
    (scene) => updatePlan(scene, merchant.publicKey, plan, { status: 0, endTs: START + END }),
    [
      dataAs(522, 'another plan seen', 265, u64(START + 1n)),
      dataAs(513, 'active again', 0, Buffer.of(1)),
      ...emits(2),
    ],
    (scene) => patchAccount(scene, plan, 34, Buffer.of(0)),
  ),
  entry(
    'delete_plan',
    () => deletePlan(merchant.publicKey, plan),
    [
      onlyFirst(1),
      ...[unsigned(0), readonly(0), readonly(1), foreign(1), ...planContents(1)],
      patched(504, 1, 1, stranger, 'the plan of another'),
      atTime(515, END),
    ],
    (scene) => setTime(scene, START + END + 1n),
  ),
  entry('transfer_subscription', (scene) => pullOf(scene), [
    shortData,
    onlyFirst(9),
    ...[foreign(PULL.subscription), readonly(PULL.subscription), foreign(PULL.plan, 516)],
    ...authorityAccount(PULL.authority),
    ...[readonly(PULL.from), readonly(PULL.to), unsigned(PULL.caller)],
    ...[other(105, PULL.tokenProgram), foreign(PULL.mint, 109)],
    ...[foreign(PULL.from, 110), foreign(PULL.to, 110)],
    ...planContents(PULL.plan),
    dataAs(125, 'another mint', 40, stranger),
    atTime(501, END + 1n),
    patched(130, PULL.plan, 235, new Uint8Array(128), 'no pullers'),
    patched(506, PULL.to, 32, stranger, 'an owner who is no destination'),
    ...subscriptionContents(PULL.subscription),
    sized(PULL.subscription, 156),
    mismatchedTerms(PULL.subscription),
    patched(505, PULL.subscription, 35, stranger, 'a subscription of another plan'),
    patched(130, PULL.subscription, 3, stranger, 'a subscription of another wallet'),
    patched(508, PULL.subscription, 147, u64(START), 'cancelled'),
    dataAs(129, 'no amount', 0, u64(0n)),
    patched(407, PULL.subscription, 139, u64(START + END + 2n), 'a period that has not begun'),
    patched(116, PULL.subscription, 131, u64(AMOUNT + 1n), 'more pulled than the plan allows'),
    dataAs(400, 'more than the period allows', 0, u64(AMOUNT + 1n)),
    change(125, 'another mint account', ({ scene, instruction }) => {
      const mint = random();
      setMint(scene, mint);
      return withAccount(instruction, PULL.mint, mint);
    }),
    patched(126, PULL.authority, 1, stranger, 'the authority of another'),
    patched(136, PULL.authority, 98, u64(77n), 'an authority created anew'),
    ...usersTokens(PULL.from),
    secondAccount(PULL.from),
    patched(125, PULL.to, 0, stranger, 'a receiver of another mint'),
    patched(4, PULL.from, 76, stranger, 'another delegate'),
    ...emits(PULL.events),
  ]),
  entry(
    'subscribe',
    (scene) => subscribe(scene, newcomer.publicKey, consent, sponsor.publicKey),
    [
      shortData,
      onlyFirst(7),
      ...[unsigned(0), readonly(0), foreign(2), readonly(3), ...authorityAccount(4)],
      other(104, 5),
      ...optionalPayer(8),
      other(502, 1),
      ...planContents(2),
      patched(500, 2, 34, Buffer.of(0), 'sunset'),
      atTime(501, END + 1n),
      dataAs(519, 'another amount', 41, u64(AMOUNT + 1n)),
      patched(130, 4, 1, stranger, 'the authority of another'),
      patched(125, 4, 33, stranger, 'the authority of another mint'),
      dataAs(136, 'another init id', 65, u64(77n)),
      other(503, 3),
      fault(517, 'the address is taken', (attempt) =>
        setAccount(attempt.scene, keyAt(attempt, 3).pubkey, PROGRAM_ID, Buffer.alloc(155)),
      ),
      ...emits(6),
    ],
    (scene) => must(scene, [newcomer], initAuthority(scene, newcomer.publicKey)),
  ),
  entry('cancel_subscription', () => cancel(user, plan), [
    onlyFirst(4),
    ...[unsigned(0), foreign(2), readonly(2), ...subscriptionContents(2)],
    patched(130, 2, 3, stranger, 'the subscription of another'),
    patched(509, 2, 147, u64(START + PERIOD), 'cancelled already'),
    patched(505, 2, 35, stranger, 'a subscription of another plan'),
    ...planContents(1),
    ...emits(3),
  ]),
  entry(
    'resume_subscription',
    (scene) => resume(scene, user, plan, START + PERIOD),
    [
      shortData,
      onlyFirst(5),
      ...[unsigned(0), foreign(2), readonly(2), ...authorityAccount(3)],
      ...subscriptionContents(2),
      patched(130, 2, 3, stranger, 'the subscription of another'),
      patched(505, 2, 35, stranger, 'a subscription of another plan'),
      patched(510, 2, 147, u64(0n), 'not cancelled'),
      dataAs(521, 'another end seen', 0, u64(START)),
      foreign(1, 516),
      ...planContents(1),
      atTime(501, END + 1n),
      mismatchedTerms(2),
      patched(130, 3, 1, stranger, 'the authority of another'),
      patched(125, 3, 33, stranger, 'the authority of another mint'),
      patched(136, 3, 98, u64(77n), 'an authority created anew'),
      atTime(508, PERIOD),
      ...emits(4),
    ],
    cancelled,
  ),
  entry(
    'revoke_subscription_authority',
    (scene) => revokeAuthority(scene, guest.publicKey, sponsor.publicKey),
    [
      onlyFirst(4),
      ...[unsigned(0), readonly(0), readonly(1)],
      ...[other(105, 3), foreign(2, 109), foreign(1, 110), readonly(4)],
      ...usersTokens(1),
      secondAccount(1),
      other(103, 4, otherAuthority),
      ...[sized(4, 107), ofKind(4)],
      patched(130, 4, 1, stranger, 'the authority of another'),
      patched(103, 4, 97, Buffer.of(0), 'another bump'),
      ...rentReceiver(5),
    ],
  ),
  entry(
    'revoke_abandoned_subscription',
    (scene) => revokeAbandoned(scene, sponsor.publicKey, plan, guest.publicKey),
    [
      onlyFirst(3),
      ...[unsigned(0), readonly(0), readonly(1), foreign(1), sized(1, 154), ofKind(1)],
      patched(130, 1, 67, stranger, 'another payer'),
      patched(505, 1, 35, stranger, 'a subscription of another plan'),
      foreign(3, 516),
      ...planContents(3),
      other(103, 2, otherAuthority),
      fault(130, 'the authority lives', ({ scene }) => {
        const key = authorityOf(guest.publicKey, scene.mint);
        setAccount(scene, key, PROGRAM_ID, dataOf(base, key) ?? Buffer.alloc(0));
      }),
    ],
    (scene) => {
      must(scene, [guest], closeAuthority(scene, guest.publicKey, sponsor.publicKey));
      scene.svm.warpToSlot(slot(scene) + 1n);
    },
  ),
  entry('cancel_subscription_now', () => cancelNow(user, merchant.publicKey, plan, START), [
    shortData,
    onlyFirst(5),
    ...[unsigned(0), unsigned(1), foreign(2), foreign(3), readonly(3), ...planContents(2)],
    patched(504, 2, 1, stranger, 'the plan of another'),
    ...subscriptionContents(3),
    patched(130, 3, 3, stranger, 'the subscription of another'),
    patched(505, 3, 35, stranger, 'a subscription of another plan'),
    dataAs(521, 'another period seen', 0, u64(START + 1n)),
    patched(509, 3, 147, u64(START), 'over already'),
    ...emits(4),
  ]),
  entry(
    'reclaim_excess_rent',
    (scene) => reclaimExcessRent(scene.subscription, user),
    [
      onlyFirst(1),
      ...[readonly(0), readonly(1), foreign(0), sized(0, 0)],
      ofKind(0),
      patched(133, 0, 1, Buffer.of(2), 'a later version'),
      patched(134, 0, 1, Buffer.of(0), 'an earlier version'),
      sized(0, 154),
      other(130, 1),
      patched(138, 0, 0, Buffer.of(4), 'no more lamports than the rent'),
    ],
    (scene) => fund(scene, scene.subscription, 1_000_000n),
  ),
];

function attempted({ attempt: { scene, instruction }, wallets: signers }: Case) {
  const asked = signers.filter(({ publicKey }) =>
    instruction.keys.some(({ isSigner, pubkey }) => isSigner && pubkey.equals(publicKey)),
  );
  return simulate(scene, [scene.stranger, ...asked], instruction);
}

/**
 * The answer to the case with these faults, the last one applied first: an earlier one may hide it.
 */
function refusalWith(entry: Case, faults: readonly Fault[]) {
  const { scene, instruction } = entry.attempt;
  const { svm } = scene;
  const touched = [
    ...instruction.keys.map(({ pubkey }) => pubkey),
    scene.mint,
    authorityOf(guest.publicKey, scene.mint),
  ];
  const before = touched.map((key) => [key.toBytes(), svm.getAccount(key.toBytes())] as const);
  const time = now(scene);
  const attempt = { scene, instruction };
  for (const { apply } of [...faults].reverse()) apply(attempt);
  const answer = attempted({ ...entry, attempt });
  for (const [key, account] of before) svm.setAccount(key, account ?? NO_ACCOUNT);
  setTime(scene, time);
  return answer;
}

for (const entry of CASES) {
  void t.test(entry.name, async (t) => {
    t.equal(attempted(entry), undefined, 'goes through as it is built here');
    for (const [i, { code, name }] of entry.faults.entries()) {
      t.equal(refusalWith(entry, entry.faults.slice(i)), code, `${code}: ${name}`);
      t.equal(refusalWith(entry, entry.faults.slice(i, i + 1)), code, `${name}, alone`);
    }
  });
}

const EXACT = [
  'update_plan',
  'delete_plan',
  'cancel_subscription',
  'cancel_subscription_now',
  'resume_subscription',
  'reclaim_excess_rent',
];

void t.test(
  'six instructions take an exact number of accounts, the others ignore more',
  async (t) => {
    for (const entry of CASES) {
      const { instruction } = entry.attempt;
      const longer = withKeys(instruction, [...instruction.keys, meta(random()), meta(random())]);
      const code = EXACT.some((name) => entry.name.startsWith(name)) ? 113 : undefined;
      t.equal(
        attempted({ ...entry, attempt: { ...entry.attempt, instruction: longer } }),
        code,
        entry.name,
      );
    }
  },
);

void t.test('accounts after the sixteenth are ignored', async (t) => {
  const { attempt, wallets } = CASES.find(({ name }) => name === 'transfer_subscription') as Case;
  const surplus = Array.from({ length: 9 }, () => meta(random()));
  const [first] = attempt.instruction.keys;
  if (first === undefined) throw new Error('no accounts');
  const keys = [...attempt.instruction.keys, ...surplus, first, ...surplus.slice(0, 2)];
  const longer = { ...attempt, instruction: withKeys(attempt.instruction, keys) };
  t.equal(attempted({ name: '', faults: [], wallets, attempt: longer }), undefined);
});

void t.test(
  'instructions without data ignore trailing bytes, the others refuse them (112)',
  async (t) => {
    for (const entry of CASES) {
      const { instruction } = entry.attempt;
      const data = instruction.data.subarray(1);
      const longer = withData(instruction, data, Buffer.of(7));
      t.equal(
        attempted({ ...entry, attempt: { ...entry.attempt, instruction: longer } }),
        data.length === 0 ? undefined : 112,
        entry.name,
      );
    }
  },
);

void t.test('instructions in the form of program 0.3.0 or 0.4.0 are refused', async (t) => {
  const scene = fork(base);
  const current = updatePlan(scene, merchant.publicKey, plan, {});
  const attempt = (changed: TransactionInstruction, signer: Keypair) =>
    simulate(scene, [signer], changed);
  const old = withData(current, current.data.subarray(1, 266));
  t.equal(attempt(old, merchant), 112, 'update_plan with 265 bytes');
  t.equal(attempt(withKeys(old, current.keys.slice(0, 2)), merchant), 112, 'and two accounts');
  t.equal(
    attempt(withKeys(current, current.keys.slice(0, 2)), merchant),
    113,
    'update_plan, two accounts',
  );
  cancelled(scene);
  const back = resume(scene, user, plan, START + PERIOD);
  const without = withKeys(withData(back), [...back.keys.slice(0, 3), ...back.keys.slice(4)]);
  t.equal(attempt(without, subscriber), 112, 'resume without data');
  t.equal(attempt(withKeys(back, without.keys), subscriber), 113, 'resume without the authority');
});

void t.test(
  'instructions read a subscription account that has grown, except a pull (111)',
  async (t) => {
    const readers: Record<string, number | undefined> = {
      transfer_subscription: 111,
      cancel_subscription: undefined,
      cancel_subscription_now: undefined,
      resume_subscription: undefined,
      'revoke_delegation by the subscriber': undefined,
      revoke_abandoned_subscription: undefined,
    };
    for (const entry of CASES) {
      if (!(entry.name in readers)) continue;
      const position = entry.attempt.instruction.keys.findIndex(({ pubkey }) =>
        [base.subscription, subscriptionOf(plan, guest.publicKey)].some((key) =>
          key.equals(pubkey),
        ),
      );
      t.equal(refusalWith(entry, [sized(position, 200)]), readers[entry.name], entry.name);
    }
  },
);

void t.test('the rent is returned from every version of a subscription', async (t) => {
  const entry = CASES.find(({ name }) => name === 'revoke_delegation by the subscriber') as Case;
  for (const version of [0, 2, 255]) {
    t.equal(
      refusalWith(entry, [patched(0, 1, 1, Buffer.of(version), '')]),
      undefined,
      `version ${version}`,
    );
  }
});

void t.test('Token-2022, its mints and its accounts are refused (105)', async (t) => {
  let met = 0;
  for (const entry of CASES) {
    const { instruction, scene } = entry.attempt;
    const program = instruction.keys.findIndex(({ pubkey }) => pubkey.equals(TOKEN_PROGRAM_ID));
    if (program < 0) continue;
    met++;
    const other2022 = other(105, program, () => TOKEN_2022_PROGRAM_ID);
    t.equal(refusalWith(entry, [other2022]), 105, `${entry.name}: program`);
    const mint = instruction.keys.findIndex(({ pubkey }) => pubkey.equals(scene.mint));
    const moved = fault(105, 'mint', (attempt) =>
      setAccount(attempt.scene, scene.mint, TOKEN_2022_PROGRAM_ID, dataAt(attempt, mint)),
    );
    t.equal(refusalWith(entry, [moved]), 105, `${entry.name}: mint`);
  }
  t.equal(met, 4);
});

void t.test('an instruction with an uninitialized mint fails with 109', async (t) => {
  const entry = CASES.find(({ name }) => name === 'create_plan') as Case;
  const blank = fault(109, 'blank', ({ scene }) =>
    setAccount(scene, scene.mint, TOKEN_PROGRAM_ID, Buffer.alloc(82)),
  );
  t.equal(refusalWith(entry, [blank]), 109);
});

void t.test(
  "a pull whose receiver is the subscriber's account is counted but moves no tokens",
  async (t) => {
    const scene = setScene({ destinations: [] });
    const from = ataOf(scene.subscriber.publicKey, scene.mint);
    const before = dataOf(scene, from);
    must(scene, [scene.keeper], withAccount(pullOf(scene), PULL.to, from));
    t.same(dataOf(scene, from)?.subarray(64, 72), before?.subarray(64, 72));
    t.equal(simulate(scene, [scene.keeper], pullOf(scene)), 400);
    const elsewhere = random();
    setTokens(scene, elsewhere, scene.mint, { owner: scene.stranger.publicKey });
    setTime(scene, START + PERIOD);
    t.equal(
      simulate(scene, [scene.keeper], withAccount(pullOf(scene), PULL.to, elsewhere)),
      undefined,
      'without destinations any account receives',
    );
  },
);

void t.test('an unknown instruction, or an instruction without data, fails with 114', async (t) => {
  const known = new Set([0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 0xe4]);
  for (let number = 0; number < 256; number++) {
    if (known.has(number)) continue;
    t.equal(simulate(base, [base.stranger], instruction(number, [])), 114, `instruction ${number}`);
  }
  const empty = instruction(0, []);
  empty.data = Buffer.alloc(0);
  t.equal(simulate(base, [base.stranger], empty), 114);
});

void t.test('a call of the event instruction by a wallet is refused', async (t) => {
  const forged = [Buffer.from('45a52e51cb9a1d', 'hex'), Buffer.of(1), Buffer.alloc(72)];
  const attempt = (...keys: ReturnType<typeof meta>[]) =>
    simulate(base, [base.stranger], instruction(0xe4, forged, ...keys));
  const self = base.stranger.publicKey;
  t.equal(attempt(), 'NotEnoughAccountKeys');
  t.equal(attempt(meta(EVENT_AUTHORITY), meta(self)), 'NotEnoughAccountKeys');
  t.equal(attempt(meta(EVENT_AUTHORITY)), 'MissingRequiredSignature');
  t.equal(attempt(meta(self, 's')), 600);
});

void t.test('the program accepts the addresses that the tests derive', async (t) => {
  t.equal(EVENT_AUTHORITY.toBase58(), '3Hnj4BYoDgtpBuqXfiy7Y8cNa3jXaNd4oqgSXBzkMcH7');
  t.ok(planOf(merchant.publicKey, 1n)[0].equals(plan));
});
