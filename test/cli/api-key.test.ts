// Errors for malformed API keys. They contain no part of the key.
import t from 'tap';
import { keyFault } from '../../src/cli/api-key.ts';
import { generateKey } from '../../src/domain/accounts/keys.ts';

void t.test('keyFault accepts generated API keys and gives the reason for other text', (t) => {
  for (let made = 0; made < 200; made += 1) {
    t.equal(keyFault(generateKey('development').key), undefined);
    t.equal(keyFault(generateKey('production').key), undefined);
  }
  const { key } = generateKey('development');
  const cases: [string, RegExp][] = [
    ['', /empty/],
    [`${key} ${key}`, /white space/],
    [`${key.slice(0, 20)}\n${key.slice(20)}`, /white space/],
    ['eyJhbGciOiJIUzI1NiJ9.e30.x', /access token of a wallet sign-in/],
    ['whsec_abc', /signing secret/],
    [key.slice(8), /should start with sk_test_/],
    [`${key.slice(0, -1)}0`, /a character after sk_test_ that no key has/],
    [key.slice(0, 40), /32 characters after sk_test_ and should have 43 or 44/],
    [key + key.slice(8), /should have 43 or 44/],
  ];
  for (const [text, words] of cases) {
    const fault = keyFault(text) ?? '';
    t.match(fault, words);
    if (text.length > 20) t.notOk(fault.includes(text.slice(8, 20)), 'no part of it');
  }
  t.end();
});
