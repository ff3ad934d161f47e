import { createHmac, timingSafeEqual } from 'node:crypto';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { signedHeaders, signingKeys } from '../../src/webhooks/sign.ts';

type Headers = Record<string, string>;

/** A receiver as docs/contract.md describes it, with nothing but node:crypto. */
function plainReceiver(secret: string, headers: Headers, body: Buffer): boolean {
  const timestamp = headers['x-service-timestamp'] ?? '';
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const expected = `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`;
  const given = headers['x-service-signature'] ?? '';
  return (
    given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected))
  );
}

function standardReceiver(secret: string, headers: Headers, body: Buffer): boolean {
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

const receivers = { plain: plainReceiver, standardwebhooks: standardReceiver };
const seconds = () => Math.floor(Date.now() / 1000);

function sign(secret: string, body: Buffer, timestamp = seconds(), id = 'event 1'): Headers {
  const list = signedHeaders([signingKeys(secret)], id, timestamp, body.toString());
  return Object.fromEntries(
    list.flatMap((name, index) => (index % 2 === 0 ? [[name, list[index + 1] ?? '']] : [])),
  );
}

for (const [name, accepts] of Object.entries(receivers)) {
  void t.test(`a receiver written with ${name} accepts any body as it was sent`, async (t) => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const secret = generateWebhookSecret();
        const body = Buffer.from(text);
        return accepts(secret, sign(secret, body), body);
      }),
    );
    t.pass();
  });

  void t.test(
    `a receiver written with ${name} rejects one changed byte, wherever it is`,
    async (t) => {
      const secret = generateWebhookSecret();
      const body = Buffer.from('{"id":"event 1","amount":"100"}');
      const headers = sign(secret, body);
      t.ok(accepts(secret, headers, body));
      for (let at = 0; at < body.length; at += 1) {
        const changed = Buffer.from(body);
        changed[at] = (changed[at] ?? 0) ^ 1;
        if (accepts(secret, headers, changed)) t.fail(`byte ${at}`);
      }
      t.notOk(accepts(secret, headers, body.subarray(1)));
    },
  );

  void t.test(
    `a receiver written with ${name} rejects a timestamp one second too old, and another secret`,
    async (t) => {
      const secret = generateWebhookSecret();
      const body = Buffer.from('{}');
      t.ok(accepts(secret, sign(secret, body, seconds() - 298), body));
      t.notOk(accepts(secret, sign(secret, body, seconds() - 301), body));
      t.notOk(accepts(generateWebhookSecret(), sign(secret, body), body));
    },
  );
}

void t.test(
  'the timestamp is part of the signature: an old signature with a new timestamp is rejected',
  async (t) => {
    const secret = generateWebhookSecret();
    const body = Buffer.from('{}');
    const old = sign(secret, body, seconds() - 600);
    const fresh = {
      ...old,
      'x-service-timestamp': String(seconds()),
      'webhook-timestamp': String(seconds()),
    };
    t.notOk(plainReceiver(secret, fresh, body));
    t.notOk(standardReceiver(secret, fresh, body));
  },
);

void t.test('the signature headers are those of docs/contract.md', async (t) => {
  const headers = sign(generateWebhookSecret(), Buffer.from('{}'), 1_700_000_000);
  t.equal(headers['content-type'], 'application/json');
  t.match(headers['x-service-signature'], /^sha256=[0-9a-f]{64}$/);
  t.equal(headers['x-service-timestamp'], '1700000000');
  t.equal(headers['webhook-id'], 'event 1');
});
