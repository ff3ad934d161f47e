// An environment file is read as systemd reads it; environment-file.tools.ts compares with systemd.
import t from 'tap';
import { parseEnvironmentFile } from '../../src/config/environment-file.ts';

void t.test('nasty lines', (t) => {
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
});
