import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM as P } from '../../../src/chain/clusters.ts';
import { TOKEN_PROGRAM as T } from '../../../src/chain/program/addresses.ts';
import { hasSilentCall } from '../../../src/chain/program/logs.ts';

const COMPUTE = 'ComputeBudget111111111111111111111111111111';
const call = (program: string, depth: number, ...inner: string[][]): string[] => [
  `Program ${program} invoke [${depth}]`,
  'Program log: something',
  ...inner.flat(),
  `Program ${program} consumed 1234 of 200000 compute units`,
  `Program ${program} success`,
];

void t.test(
  'the logs distinguish a program call that emits an event from a call without an event',
  (t) => {
    const event = (depth: number) => call(P, depth);
    const pull = call(P, 1, call(T, 2), event(2));
    const table: [string, string[], boolean][] = [
      ['a pull', [...call(COMPUTE, 1), ...pull, ...pull], false],
      ['an authority revoked, with its approval', call(P, 1, call(T, 2)), true],
      ['an authority closed', call(P, 1), true],
      [
        'an authority opened and a subscription made',
        [...call(P, 1, call(T, 2)), ...call(P, 1, event(2))],
        true,
      ],
      ['the second of two', [...pull, ...call(P, 1)], true],
      ['by another program, with its event', call(T, 1, call(P, 2, event(3))), false],
      ['by another program, without', call(T, 1, call(P, 2), call(T, 2)), true],
      [
        'an event of a call elsewhere does not count',
        call(T, 1, call(P, 2), call(P, 2, event(3))),
        true,
      ],
      ['nothing of the program', call(T, 1, call(COMPUTE, 2)), false],
      ['no logs', [], false],
      ['cut short', [...pull.slice(0, 3), 'Log truncated'], true],
      [
        'a log line in the form of an end',
        [
          `Program ${P} invoke [1]`,
          `Program log: Program ${P} success`,
          ...event(2),
          `Program ${P} success`,
        ],
        false,
      ],
    ];
    for (const [name, logs, silent] of table) t.equal(hasSilentCall(logs, P), silent, name);
    t.end();
  },
);
