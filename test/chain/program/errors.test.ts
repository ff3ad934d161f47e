import * as client from '@solana/subscriptions';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/chain/program/addresses.ts';
import {
  classifyPullError,
  describeTransactionError,
  type PullContext,
  type PullFailure,
} from '../../../src/chain/program/errors.ts';
import type { TokenAccount } from '../../../src/chain/program/layouts.ts';
import { PROGRAM_ERRORS } from '../../../src/chain/program/program-errors.ts';

// compute limit, compute price, one account creation, net, fee, memo
const layout = { pulls: [3, 4] };
const account: TokenAccount = {
  mint: 'mint',
  owner: 'owner',
  amount: 1000n,
  delegate: 'authority',
  delegatedAmount: 2n ** 64n - 1n,
  state: 'initialized',
};
const context: PullContext = { layout, logs: null, gross: 100n, subscriberAccount: account };
const custom = (code: number, index = 3) => ({ InstructionError: [index, { Custom: code }] });
const named = (name: unknown, index = 3) => ({ InstructionError: [index, name] });
const classify = (err: unknown, change: Partial<PullContext> = {}) => {
  const failure = classifyPullError(err, { ...context, ...change });
  return 'reason' in failure ? `${failure.kind} ${failure.reason}` : failure.kind;
};

void t.test('each error of a pull is classified as docs/chain.md lists it', (t) => {
  const table: [unknown, string, Partial<PullContext>?][] = [
    // The subscriber's.
    [
      custom(1),
      'subscriber insufficient_funds',
      { subscriberAccount: { ...account, amount: 99n } },
    ],
    [
      custom(1),
      'subscriber allowance_exhausted',
      { subscriberAccount: { ...account, delegatedAmount: 99n } },
    ],
    [
      custom(1),
      'subscriber insufficient_funds',
      { subscriberAccount: { ...account, amount: 99n, delegatedAmount: 99n } },
    ],
    [
      custom(1),
      'subscriber insufficient_funds',
      { subscriberAccount: { ...account, delegatedAmount: 100n } },
    ],
    [custom(1), 'subscriber insufficient_funds', { subscriberAccount: undefined }],
    [custom(1, 4), 'subscriber insufficient_funds', { subscriberAccount: null }],
    [
      custom(17),
      'subscriber account_frozen',
      { subscriberAccount: { ...account, state: 'frozen' } },
    ],
    [custom(4), 'subscriber delegate_replaced'],
    [custom(103), 'subscriber authority_closed'],
    [custom(136), 'subscriber authority_replaced'],
    [custom(110), 'subscriber account_closed', { subscriberAccount: null }],
    [custom(132), 'subscriber account_owner_changed'],
    // Caused by neither party: the state decides.
    [custom(400), 'already_collected'],
    [custom(400, 4), 'already_collected'],
    [custom(508), 'cancelled'],
    [custom(501), 'plan_ended'],
    [custom(128), 'plan_ended'],
    [custom(516), 'plan_closed'],
    [custom(519), 'plan_changed'],
    [named('InvalidAccountOwner'), 'subscription_closed'],
    ['AlreadyProcessed', 'already_processed'],
    // Ours.
    [custom(110), 'ours receiver_account_missing'],
    [custom(17), 'ours receiver_frozen'],
    [custom(130), 'ours not_a_puller'],
    [custom(506), 'ours destination_refused'],
    [custom(105), 'ours wrong_program_or_mint'],
    [custom(125), 'ours wrong_program_or_mint'],
    [custom(505), 'ours wrong_program_or_mint'],
    [custom(112), 'ours malformed'],
    [custom(113), 'ours malformed'],
    [custom(131), 'ours malformed'],
    [custom(129), 'ours malformed'],
    [custom(600), 'ours malformed'],
    [custom(407), 'ours clock_behind'],
    [custom(133), 'ours version'],
    [custom(134), 'ours version'],
    [named('IllegalOwner', 2), 'ours rejected'],
    [named('ComputationalBudgetExceeded'), 'ours compute_budget'],
    [named('ProgramFailedToComplete', 4), 'ours compute_budget'],
    [named('MissingAccount'), 'ours malformed'],
    [named({ BorshIoError: 'x' }), 'ours malformed'],
    [custom(1, 5), 'ours rejected'],
    [custom(103, 0), 'ours rejected'],
    ['BlockhashNotFound', 'ours blockhash_not_found'],
    ['InsufficientFundsForFee', 'ours keeper_out_of_sol'],
    [{ InsufficientFundsForRent: { account_index: 0 } }, 'ours keeper_out_of_sol'],
    ['AccountNotFound', 'ours keeper_out_of_sol'],
    ['WouldExceedMaxBlockCostLimit', 'ours rejected'],
    [{ DuplicateInstruction: 3 }, 'ours rejected'],
    [{ ProgramExecutionTemporarilyRestricted: { account_index: 1 } }, 'ours rejected'],
  ];
  for (const [err, expected, change] of table)
    t.equal(classify(err, change), expected, `${JSON.stringify(err)} ${expected}`);
  t.end();
});

void t.test(
  'a failure with an ambiguous cause is classified as unknown, never as the subscriber’s',
  (t) => {
    for (const [err, change] of [
      [custom(17), { subscriberAccount: undefined }],
      [custom(110), { subscriberAccount: undefined }],
      [custom(3), {}],
      [custom(99), {}],
      [custom(9999), {}],
      [named('InsufficientFunds'), {}],
      ['SomethingNew', {}],
      [{ SomethingNew: 1 }, {}],
      [{ InstructionError: 'nonsense' }, {}],
      [{ InstructionError: [] }, {}],
      [{ InstructionError: [3] }, {}],
      [undefined, {}],
      [null, {}],
      [42, {}],
      [{}, {}],
    ] as [unknown, Partial<PullContext>][]) {
      t.equal(classify(err, change), 'unknown', JSON.stringify(err));
    }
    t.end();
  },
);

void t.test(
  'a small custom error code counts as the token program’s unless the logs name another program',
  (t) => {
    const logs = (program: string) => [
      `Program ${SUBSCRIPTIONS_PROGRAM} invoke [1]`,
      `Program ${program} invoke [2]`,
      'Program log: Error: insufficient funds',
      `Program ${program} failed: custom program error: 0x1`,
      `Program ${SUBSCRIPTIONS_PROGRAM} failed: custom program error: 0x1`,
    ];
    t.equal(classify(custom(1), { logs: logs(TOKEN_PROGRAM) }), 'subscriber insufficient_funds');
    t.equal(classify(custom(1), { logs: logs(SYSTEM_PROGRAM) }), 'ours rejected');
    t.equal(classify(custom(1), { logs: logs(ASSOCIATED_TOKEN_PROGRAM) }), 'ours rejected');
    t.equal(
      classify(custom(1), { logs: logs('Vote111111111111111111111111111111111111111') }),
      'unknown',
    );
    t.equal(
      classify(custom(1), {
        logs: [`Program ${SUBSCRIPTIONS_PROGRAM} failed: custom program error: 0x1`],
      }),
      'unknown',
    );
    const forged = [
      `Program log: Program ${SYSTEM_PROGRAM} failed: custom program error: 0x1`,
      ...logs(TOKEN_PROGRAM),
    ];
    t.equal(
      classify(custom(1), { logs: forged }),
      'subscriber insufficient_funds',
      'a program’s own words are no verdict',
    );
    t.end();
  },
);

void t.test('failures of kind "ours" and "unknown" include the error detail', (t) => {
  const detail = (failure: PullFailure) => ('detail' in failure ? failure.detail : undefined);
  t.equal(
    detail(classifyPullError(custom(130, 4), context)),
    'instruction 4: error 130 (Unauthorized)',
  );
  t.equal(detail(classifyPullError(custom(9999), context)), 'instruction 3: error 9999');
  t.equal(detail(classifyPullError('BlockhashNotFound', context)), 'BlockhashNotFound');
  t.equal(describeTransactionError(named('MissingAccount', 1)), 'instruction 1: MissingAccount');
  t.equal(
    describeTransactionError({ InsufficientFundsForRent: { account_index: 0 } }),
    '{"InsufficientFundsForRent":{"account_index":0}}',
  );
  t.end();
});

void t.test(
  'the table of error codes equals that of the published client, plus codes of later versions',
  (t) => {
    const pascal = (name: string) =>
      name
        .replace('SUBSCRIPTIONS_ERROR__', '')
        .split('_')
        .map((word) => `${word.slice(0, 1)}${word.slice(1).toLowerCase()}`)
        .join('');
    const theirs = Object.entries(client).filter(([name]) =>
      name.startsWith('SUBSCRIPTIONS_ERROR__'),
    ) as [string, number][];
    t.ok(theirs.length > 50);
    for (const [name, code] of theirs)
      t.equal(PROGRAM_ERRORS.get(code), pascal(name), String(code));
    const added = [...PROGRAM_ERRORS.keys()].filter(
      (code) => !theirs.some(([, known]) => known === code),
    );
    t.same(added, [137, 138, 408, 520, 521, 522, 604]);
    t.end();
  },
);
