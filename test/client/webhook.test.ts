// docs/contract.md, Events: what a receiver does with a webhook request; `verifyWebhook` of
// billing/webhook does it. Signed by what the dispatcher signs with.
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import {
  verifyWebhook,
  WebhookVerificationError,
  type WebhookFault,
  type WebhookHeaders,
} from '../../src/client/webhook.ts';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { signedHeaders, signingKeys } from '../../src/webhooks/sign.ts';

const secret = generateWebhookSecret();
const now = new Date('2026-01-31T12:00:00.400Z');
const seconds = Math.floor(now.getTime() / 1000);
const text =
  '{"id":"e1", "type":"payment_success","data":{"amountGross":"9007199254740993","planName":"Kaffee ☕"}}';

function signed(
  body = text,
  { at = seconds, id = 'e1', key = secret } = {},
): Record<string, string> {
  const flat = signedHeaders([signingKeys(key)], id, at, body);
  return Object.fromEntries(
    flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1]!]] : [])),
  );
}

/** Why it is refused; undefined when it is not. */
function fault(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  key = secret,
  at = now,
): WebhookFault | undefined {
  try {
    verifyWebhook(body, headers, key, at);
    return undefined;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return error.reason;
    throw error;
  }
}

const without = (headers: Record<string, string>, ...names: string[]) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));

void t.test(
  'a request of the service verifies with headers and body in any form, and its event is returned',
  async (t) => {
    const headers = signed();
    const cased = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]),
    );
    for (const given of [
      headers,
      cased,
      new Headers(headers),
      new Map(Object.entries(headers)),
      Object.entries(headers),
    ])
      for (const body of [text, Buffer.from(text), new Uint8Array(Buffer.from(text))])
        t.match(verifyWebhook(body, given, secret, now), { id: 'e1', type: 'payment_success' });
    t.equal(
      verifyWebhook(text, signed(text, { at: Math.floor(Date.now() / 1000) }), secret).id,
      'e1',
      'by the clock when no time is given',
    );
  },
);

void t.test(
  'the signature is sha256= and the hex HMAC of timestamp, dot and raw body',
  async (t) => {
    const signature = `sha256=${createHmac('sha256', secret).update(`${seconds}.${text}`).digest('hex')}`;
    t.equal(
      fault(text, { 'X-Service-Signature': signature, 'X-Service-Timestamp': String(seconds) }),
      undefined,
    );
    for (const wrong of [
      signature.slice(7),
      signature.toUpperCase(),
      `${signature}0`,
      signature.slice(0, -1),
      `${signature.slice(0, -1)}g`,
      `${signature}, ${signature}`,
      'sha256=',
      '',
      'é',
    ])
      t.equal(
        fault(text, { 'x-service-signature': wrong, 'x-service-timestamp': String(seconds) }),
        'bad_signature',
        wrong,
      );
  },
);

void t.test(
  'one of the two signature headers is enough, and every header that is present must be valid',
  async (t) => {
    const headers = signed();
    t.equal(fault(text, without(headers, 'x-service-signature', 'x-service-timestamp')), undefined);
    t.equal(
      fault(text, without(headers, 'webhook-signature', 'webhook-id', 'webhook-timestamp')),
      undefined,
    );
    t.equal(
      fault(text, without(headers, 'x-service-signature', 'webhook-signature')),
      'missing_signature',
    );
    t.equal(
      fault(text, { ...headers, 'x-service-signature': `sha256=${'0'.repeat(64)}` }),
      'bad_signature',
    );
    t.equal(
      fault(text, { ...headers, 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` }),
      'bad_signature',
    );
    t.equal(fault(text, { ...headers, 'webhook-id': 'other' }), 'bad_signature');
    const standard = headers['webhook-signature']!;
    t.equal(
      fault(text, { ...headers, 'webhook-signature': `v1,other v1a,x ${standard}` }),
      undefined,
      'one of a list',
    );
  },
);

void t.test(
  'during a rotation both the new secret and the previous one are accepted',
  async (t) => {
    const previous = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';
    const flat = signedHeaders([signingKeys(secret), signingKeys(previous)], 'e1', seconds, text);
    const headers = Object.fromEntries(
      flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1]!]] : [])),
    );
    t.equal(fault(text, headers), undefined);
    t.equal(fault(text, headers, previous), undefined);
    t.equal(fault(text, headers, 'whsec_AAAA'), 'bad_signature');
    t.equal(fault(`${text} `, headers), 'bad_signature');
  },
);

void t.test('a timestamp more than 300 seconds in the past or the future is refused', async (t) => {
  const whole = new Date(seconds * 1000);
  for (const away of [0, 1, 299, 300, -1, -299, -300])
    t.equal(fault(text, signed(text, { at: seconds + away }), secret, whole), undefined, `${away}`);
  for (const away of [301, -301, 86_400, -86_400])
    t.equal(
      fault(text, signed(text, { at: seconds + away }), secret, whole),
      'timestamp_out_of_tolerance',
      `${away}`,
    );
  for (const name of ['x-service-timestamp', 'webhook-timestamp']) {
    for (const wrong of [
      '',
      'now',
      '1e9',
      '-1',
      `${seconds}.5`,
      ` ${seconds}`,
      `${seconds}, ${seconds}`,
      '9'.repeat(400),
    ])
      t.equal(fault(text, { ...signed(), [name]: wrong }), 'bad_timestamp', wrong.slice(0, 20));
    t.equal(fault(text, without(signed(), name)), 'bad_timestamp');
    t.equal(
      fault(text, { ...signed(), [name]: String(seconds + 1) }),
      'bad_signature',
      'a moved timestamp is not what was signed',
    );
  }
});

void t.test('the signature is over the raw body: a re-serialised body is refused', async (t) => {
  const headers = signed();
  t.equal(fault(JSON.stringify(JSON.parse(text)), headers), 'bad_signature');
  await fc.assert(
    fc.asyncProperty(
      fc.nat(Buffer.byteLength(text) - 1),
      fc.integer({ min: 1, max: 255 }),
      async (index, flip) => {
        const changed = Buffer.from(text);
        changed.writeUInt8(changed.readUInt8(index) ^ flip, index);
        return fault(changed, headers) === 'bad_signature';
      },
    ),
    { numRuns: 300 },
  );
  t.throws(
    () => verifyWebhook(JSON.parse(text) as string, headers, secret, now),
    TypeError,
    'a parsed body is a mistake of the caller',
  );
});

void t.test(
  'a signature by another secret is refused, and a missing secret throws a TypeError',
  async (t) => {
    t.equal(fault(text, signed(), generateWebhookSecret()), 'bad_signature');
    t.equal(
      fault(text, without(signed(), 'x-service-signature'), 'whsec_'),
      'bad_signature',
      'an empty key signs nothing',
    );
    t.throws(() => verifyWebhook(text, signed(), '', now), TypeError);
  },
);

void t.test('a signed body that is not an event is refused', async (t) => {
  for (const body of ['', 'x', 'null', '[]', '{}', '{"id":"e1"}', '7'])
    t.equal(fault(body, signed(body)), 'bad_body', body);
});
