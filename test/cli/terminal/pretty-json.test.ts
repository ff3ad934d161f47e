import fc from 'fast-check';
import t from 'tap';
import { prettyJson } from '../../../src/cli/terminal/pretty-json.ts';

void t.test('prettyJson keeps each token as it was written', async (t) => {
  t.equal(
    prettyJson('{"n":9007199254740993,"e":1.50e3,"a":[1,[],{}],"n":"x, {y}: [\\"z\\"]"}'),
    [
      '{',
      '  "n": 9007199254740993,',
      '  "e": 1.50e3,',
      '  "a": [',
      '    1,',
      '    [],',
      '    {}',
      '  ],',
      '  "n": "x, {y}: [\\"z\\"]"',
      '}',
    ].join('\n'),
  );
  for (const text of ['', 'ok', '12', '"text"', 'null', '{"a":1', '<html>'])
    t.equal(prettyJson(text), undefined, text);
});

void t.test('prettyJson has the layout of JSON.stringify for every value', async () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())),
      (value) => prettyJson(JSON.stringify(value)) === JSON.stringify(value, null, 2),
    ),
  );
});

void t.test('prettyJson returns deeply nested JSON unformatted and without delay', async (t) => {
  const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  // Measures the time of the processor, because a busy machine may keep the test waiting.
  const began = process.cpuUsage();
  t.equal(prettyJson(deep(2048)), undefined);
  t.ok(process.cpuUsage(began).user < 100_000);
  t.type(prettyJson(deep(64)), 'string');
});
