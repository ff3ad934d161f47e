import t from 'tap';
import { run } from '../fixtures/command.ts';
import { startServe } from '../fixtures/serve.ts';

void t.test("a merchant's name cannot control the terminal", async (t) => {
  const served = await startServe(t);
  const { key, appId } = await served.merchant();
  // As it was stored before such names were refused.
  const evil = '\u001b[31mred\u009b2J\u202egnp';
  await served.sql`update apps set name = ${evil} where id = ${appId}`;
  const env = { BILLING_API_KEY: key, BILLING_API_URL: served.url };
  const { code, stdout, stderr } = await run(t, ['trigger', 'payment_success'], env);
  t.equal(code, 0, stderr);
  t.match(stdout, /of \\x1b\[31mred\\x9b2J\\u202egnp:/);
  t.notMatch(stdout + stderr, /[\u001b\u0080-\u009f\u202a-\u202e]/);
});
