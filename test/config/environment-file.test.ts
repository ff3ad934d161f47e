// An environment file is read as systemd reads it; environment-file.tools.ts compares with systemd.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { environmentText, parseEnvironmentFile } from '../../src/config/environment-file.ts';

void t.test(
  'quotes, comments and shell substitutions in values are read literally or dropped',
  (t) => {
    const lines: [string, Record<string, string>][] = [
      ['MAIL_FROM=Billing <billing@example.com>', { MAIL_FROM: 'Billing <billing@example.com>' }],
      ['URL=https://x/?a=1&b=2#c', { URL: 'https://x/?a=1&b=2#c' }],
      ['PASSWORD=$(reboot)`id`$HOME', { PASSWORD: '$(reboot)`id`$HOME' }],
      ['A=b # no comment', { A: 'b # no comment' }],
      ['# A=b\n;B=c\n\n  C=d', { C: 'd' }],
      ['A = spaced \t', { A: 'spaced' }],
      ['A="two  words "tail', { A: 'two  words tail' }],
      ["A='$x \\'", { A: '$x \\' }],
      ['A="\\"\\\\\\$\\n"', { A: '"\\$\\n' }],
      ['A=first\\\nsecond', { A: 'firstsecond' }],
      ['A=a\\ \\"b', { A: 'a "b' }],
      ['A="first\nsecond"', { A: 'first\nsecond' }],
      ['A=b\r\nC=d\r\n', { A: 'b', C: 'd' }],
      ['export A=b\n1A=b\nÄ=b\nA', {}],
      ['A=b\nA=c', { A: 'c' }],
      ['A=', { A: '' }],
    ];
    for (const [text, wanted] of lines) t.same(parseEnvironmentFile(text), wanted, text);
    t.throws(() => parseEnvironmentFile('\uFEFFA=b'), /begins with a byte order mark/);
    t.end();
  },
);

void t.test(
  'a shell reads the same values from a written environment file and executes nothing in it',
  (t) => {
    const dir = t.testdir();
    const file = join(dir, 'env');
    const names = ['A', '_b', 'BILLING_API_URL'];
    const printed = names.map((name) => `"$${name}"`).join(' ');
    const bySh = (text: string) => {
      writeFileSync(file, text);
      const script = `set -a; . '${file}'; printf '%s\\0' ${printed}`;
      const out = execFileSync('/bin/sh', ['-euc', script], { cwd: dir, encoding: 'utf8' });
      return Object.fromEntries(names.map((name, index) => [name, out.split('\0')[index]]));
    };
    const unit = fc.constantFrom(...Array.from(`aé \t\n\r'"\\$\`#;&|<>(){}*?!~=`), '$(id)', '"\'');
    const value = fc.string({ unit, maxLength: 12 });
    const values = fc.tuple(value, value, value);
    fc.assert(
      fc.property(values, (some) => {
        const given = Object.fromEntries(names.map((name, index) => [name, some[index] ?? '']));
        const text = environmentText(given);
        t.same(parseEnvironmentFile(text), given);
        t.same(bySh(text), given, text);
      }),
      {
        numRuns: 100,
        examples: [
          [['x; touch ran', "'; touch ran; '", '`touch ran`']],
          [['', "it's $(HOME)", '\n']],
        ],
      },
    );
    t.throws(() => environmentText({ 'A;id': 'b' }), /no environment can have/);
    t.throws(() => environmentText({ A: 'a\0b' }), /no environment can have/);
    t.end();
  },
);
