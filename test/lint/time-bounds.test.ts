import { type Rule, RuleTester } from 'eslint';
import t from 'tap';

const { href } = new URL('./time-bounds.js', import.meta.url);
const { default: rule } = (await import(href)) as { default: Rule.RuleModule };

const elapsed = [{ messageId: 'elapsed' }];
const began = 'const began = performance.now();';

void t.test(
  'the lint rule reports upper bounds on elapsed time, but not lower bounds',
  async (t) => {
    RuleTester.describe = (_: string, run: () => void) => run();
    RuleTester.it = (name: string, run: () => void) => {
      run();
      t.pass(name);
    };
    new RuleTester().run('time-bounds', rule, {
      valid: [
        `${began} ok(performance.now() - began >= 1000);`,
        `${began} const waited = performance.now() - began; ok(waited > 900);`,
        'ok(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300);',
        'const ago = new Date(Date.now() - 65_000);',
        'until("it is paid", holds); until("it is paid", holds, 60_000);',
        't.test("many rows", { timeout: 600_000 }, run);',
      ].map((code) => ({ name: code, code })),
      invalid: [
        `${began} ok(performance.now() - began < 5000);`,
        `${began} ok(5000 >= performance.now() - began);`,
        `${began} const waited = performance.now() - began; ok(waited <= 250);`,
        `${began} let waited; run(() => { waited = performance.now() - began; }); ok(waited < 250);`,
        `const took = async () => { ${began} await run(); return performance.now() - began; }; ok((await took()) < 9);`,
        `const times = []; ${began} times.push(performance.now() - began); ok(Math.max(...times) < 9);`,
        `const times = []; ${began} times.push(performance.now() - began); ok(times.sort()[9] < 9);`,
        'ok(Math.abs(Date.parse(at) - Date.now()) < 5000);',
        'const deadline = Date.now() + 15_000; while (Date.now() < deadline) run();',
        'const deadline = Date.now() + 15_000; if (Date.now() > deadline) throw new Error();',
      ]
        .map((code) => ({ name: code, code, errors: elapsed }))
        .concat(
          [
            'until("it is paid", holds, 15_000);',
            'fetch(url, { signal: AbortSignal.timeout(5_000) });',
          ].map((code) => ({ name: code, code, errors: [{ messageId: 'patience' }] })),
          [
            {
              name: 'a limit',
              code: 't.test("x", { timeout: 120_000 }, run);',
              errors: [{ messageId: 'limit' }],
            },
          ],
        ),
    });
  },
);
