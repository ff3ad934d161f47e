import { Command, InvalidArgumentError } from 'commander';
import t from 'tap';
import { oneOf, sol, wholeNumber, withEnv } from '../../src/cli/arguments.ts';

void t.test('number and word arguments are parsed, or refused with the expected form', (t) => {
  t.equal(wholeNumber(0, 10)('10'), 10);
  t.equal(sol('0.25'), 0.25);
  t.equal(oneOf('free', 'pro')('pro'), 'pro');
  const wrong: [() => unknown, string][] = [
    ...['-1', '11', '1.5', '1e1', '0x1', '', ' 1'].map((value): [() => unknown, string] => [
      () => wholeNumber(0, 10)(value),
      'It must be a whole number from 0 to 10.',
    ]),
    [
      () => wholeNumber(0)('9007199254740993'),
      `It must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}.`,
    ],
    ...['-1', '1,5', '1e9', '.5', '1.0000000001'].map((value): [() => unknown, string] => [
      () => sol(value),
      'It must be an amount of SOL such as 0.25.',
    ]),
    [() => oneOf('free', 'pro')('Pro'), 'It must be one of free, pro.'],
  ];
  for (const [parse, message] of wrong) t.throws(parse, new InvalidArgumentError(message));
  t.end();
});

void t.test('--env-file is an option of every command that reads the configuration', (t) => {
  const command = withEnv(new Command('x'));
  command.parse(['--env-file', 'a.env'], { from: 'user' });
  t.same(command.opts(), { envFile: 'a.env' });
  t.end();
});
