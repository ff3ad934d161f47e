// No request of a client may cause a 500 or remain without a response, and every response conforms
// to the OpenAPI document (the fixture judges each). The long form makes 20,000 requests, FUZZ_RUNS
// any number; a failure prints the seed and the smallest request that shows it.
import { isUtf8 } from 'node:buffer';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { messageOf } from '../../src/errors.ts';
import { apiDocument, chainApi } from '../fixtures/http.ts';
import { isLong } from '../fixtures/long.ts';
import { insertEvent, insertPayment, insertSubscription } from '../fixtures/rows.ts';

const runs = Number(process.env.FUZZ_RUNS ?? (isLong ? 20_000 : 3000));
const atOnce = 25;
// Placeholder for deeply nested brackets, so that a report stays readable.
const deep = 'deep';

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: unknown[];
  format?: string;
}
interface Operation {
  parameters?: { in: string; name: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
}

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    '',
    '\0',
    'a\0b',
    '\ud800',
    '\udfff\ud800',
    'é'.repeat(200),
    '💶',
    ' ',
    '\r\n',
    '-1',
    '0',
    '1e999',
    'NaN',
    'null',
    '../..',
    '%00',
    "' or 1=1 --",
    '{{7*7}}',
  ),
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -0,
    -1,
    1.5,
    1e308,
    2 ** 53,
    Number.MAX_SAFE_INTEGER,
    [],
    {},
    [[[[]]]],
    { $gt: '' },
    { __proto__: null, a: 1 },
  ),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.jsonValue({ maxDepth: 4 }),
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
);

/** Whether a day of this name (YYYY-MM-DD) exists. */
function isDay(name: string): boolean {
  const time = Date.parse(name);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(name);
}

/** What is broken in each second request, beside the odd values of all. */
const damages = fc.oneof(
  fc.record({
    kind: fc.constant('bytes' as const),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }).filter((bytes) => !isUtf8(bytes)),
    at: fc.nat({ max: 200 }),
  }),
  fc.record({
    kind: fc.constant('date' as const),
    name: fc.constantFrom('endsAt', 'since', 'until', 'from', 'to', 'x'),
    date: fc.oneof(
      fc
        .tuple(fc.integer({ min: 0, max: 10_000 }), fc.nat({ max: 14 }), fc.nat({ max: 33 }))
        .map((parts) => parts.map((part) => String(part).padStart(2, '0')).join('-'))
        .filter((day) => !isDay(day)),
      fc.constantFrom(
        '2027-02-31T00:00:00Z',
        '2027-02-28T25:00:00Z',
        '2027-02-28T23:59:60Z',
        '2027-02-28T00:00:00+99:00',
        '9999-12-31T23:59:59-23:00',
        '1969-12-31',
        '-000001-01-01',
        '+275760-09-13T00:00:00Z',
      ),
    ),
  }),
  fc
    .record({
      kind: fc.constant('encoding' as const),
      encoding: fc.constantFrom('gzip', 'br', 'deflate', 'identity', '', 'x, gzip'),
      isPacked: fc.boolean(),
      charset: fc.constantFrom('utf-8', 'utf-16', 'latin1', '"'),
    })
    .filter(({ encoding, isPacked }) => isPacked || !/^(identity)?$/.test(encoding)),
  fc.record({
    kind: fc.constant('header' as const),
    name: fc.constantFrom(
      'authorization',
      'content-length',
      'content-type',
      'cookie',
      'expect',
      'host',
      'idempotency-key',
      'if-none-match',
      'origin',
      'range',
      'transfer-encoding',
      'x-forwarded-for',
      'x-request-id',
    ),
    value: fc
      .uint8Array({ maxLength: 60 })
      .map((bytes) => Buffer.from(bytes).toString('latin1'))
      .filter((value) => /[^\x20-\x7e]/.test(value)),
  }),
);
type Damage = typeof damages extends fc.Arbitrary<infer T> ? T : never;

interface Parts {
  query: string[];
  headers: Record<string, string>;
  body: Buffer;
}

/** Breaks the parts of one request in place. */
function breakParts(parts: Parts, damage: Damage): void {
  const { query, headers, body } = parts;
  if (damage.kind === 'bytes') {
    const at = Math.min(damage.at, body.length);
    parts.body = Buffer.concat([body.subarray(0, at), damage.bytes, body.subarray(at)]);
    query.push(`externalId=${Buffer.from(damage.bytes).toString('hex').replace(/../g, '%$&')}`);
  } else if (damage.kind === 'date') {
    query.push(`${damage.name}=${encodeURIComponent(damage.date)}`);
    const end = body.lastIndexOf('}');
    const field = `${body.length > 2 ? ',' : ''}"${damage.name}":"${damage.date}"}`;
    if (end >= 0) parts.body = Buffer.concat([body.subarray(0, end), Buffer.from(field)]);
  } else if (damage.kind === 'encoding') {
    headers['content-encoding'] = damage.encoding;
    if ('content-type' in headers)
      headers['content-type'] = `application/json; charset=${damage.charset}`;
    if (damage.isPacked) parts.body = gzipSync(body);
  } else headers[damage.name] = damage.value;
}

void t.test(
  `${runs} random requests all get a response, and none is a 500`,
  { timeout: 600_000 },
  async (t) => {
    const api = await chainApi(t, {
      ping: async () => ({ status: 200, durationMs: 1, error: null, response: '' }),
      readSmallFile: async () => ({ httpStatus: 404, error: null, response: null }),
    });
    const [mine, other] = [await api.merchant(), await api.merchant()];
    await api.sql`update merchants set tier = 'pro' where id = ${mine.merchantId}`;
    const plan = await api.publishedPlan(mine);
    const subscriber = await api.signIn('subscriber', api.funded());
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const hook = await api.call<{ id: string }>('POST', `/merchant/apps/${mine.appId}/webhooks`, {
      token: mine.key,
      body: { url: 'https://a.test/' },
    });
    const subscription = await insertSubscription(
      api.sql,
      { appId: mine.appId, planId: plan.id },
      { subscriberWallet: subscriber.wallet },
    );
    await insertPayment(api.sql, subscription, '2026-01-01');
    const session = await api.call<{ id: string }>(
      'POST',
      `/merchant/apps/${mine.appId}/checkout-sessions`,
      { token: mine.key, body: { planId: plan.id } },
    );
    const { eventId, deliveryId } = await insertEvent(api.sql, subscription);

    const known = [
      mine.appId,
      other.appId,
      plan.id,
      subscription,
      eventId,
      deliveryId!,
      hook.body.data.id,
      '01999999-0000-7000-8000-000000000000',
    ];
    const addresses = [
      subscriptionPda,
      plan.planPda,
      subscriber.wallet,
      mine.wallet,
      generateKeypair().address,
    ];
    const words = [
      'active',
      'failed',
      'pending',
      'period_end',
      'force',
      'merchant',
      'sunset',
      '2026-01-01',
      '2026-01-01T00:00:00Z',
      '10000000',
      'https://a.test/x',
      'Name',
    ];
    const plausible = fc.oneof(
      fc.constantFrom<unknown>(...known, ...addresses, ...words),
      fc.integer({ min: 1, max: 9000 }),
    );
    const value = fc.oneof({ weight: 3, arbitrary: plausible }, { weight: 2, arbitrary: strange });

    const typical: Record<string, unknown> = {
      name: 'Name',
      amount: '10000000',
      periodHours: 24,
      url: 'https://a.test/x',
      appId: mine.appId,
      planId: plan.id,
      subscriptionPda,
      wallet: mine.wallet,
      subscriberWallet: subscriber.wallet,
      status: 'active',
      since: '2026-01-01',
      until: '2026-02-01T00:00:00Z',
      limit: 5,
      email: 'a@b.test',
      description: 'Text',
      transaction: 'AQ==',
      websiteUrl: 'https://a.test/',
      checkoutSessionId: session.body.data.id,
      externalId: 'customer-1',
      returnOrigins: ['https://a.test'],
      successUrl: 'https://a.test/x',
      cancelUrl: 'https://a.test/x',
    };
    const fitting = (key: string) =>
      fc.oneof(
        { weight: 5, arbitrary: fc.constant(typical[key] ?? 'x') },
        { weight: 1, arbitrary: value },
      );

    const document = (await apiDocument()) as unknown as {
      paths: Record<string, Record<string, Operation>>;
      components: { schemas: Record<string, Schema> };
    };
    const pages = [
      '/s/{planId}',
      '/checkout/{checkoutSessionId}',
      '/account',
      '/dashboard',
      '/assets/{keyId}',
    ];
    const operations: { path: string; method: string; operation: Operation }[] = [
      ...Object.entries(document.paths).flatMap(([path, found]) =>
        Object.entries(found).map(([method, operation]) => ({ path, method, operation })),
      ),
      ...pages.map((path) => ({ path, method: 'get', operation: {} })),
    ];

    const request = fc.constantFrom(...operations).chain(({ path, method, operation }) => {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
      const own: Record<string, string> = {
        appId: mine.appId,
        planId: plan.id,
        subscriptionId: subscription,
        webhookId: hook.body.data.id,
        deliveryId: deliveryId!,
        eventId,
        keyId: known[7]!,
        checkoutSessionId: session.body.data.id,
      };
      const segment = (name: string) =>
        fc.oneof(
          { weight: 6, arbitrary: fc.constant(own[name]!) },
          { weight: 2, arbitrary: fc.constantFrom(...known) },
          { weight: 1, arbitrary: strange.map((text) => encode(text)) },
        );
      const queries = (operation.parameters ?? [])
        .filter((parameter) => parameter.in === 'query')
        .map(({ name }) => name);
      const schema = operation.requestBody?.content['application/json']?.schema;
      const properties = Object.keys(schema?.properties ?? {});
      const required = schema?.required ?? [];
      const withIds = (ids: readonly string[]) =>
        names.reduce((url, name, place) => url.replace(`{${name}}`, ids[place]!), path);
      const caller = path.startsWith('/subscriber') ? subscriber : mine;
      // Mostly fields that exist, mostly with values that fit them; sometimes neither.
      const fields = (keys: string[]) =>
        fc
          .tuple(
            fc
              .subarray(keys)
              .chain((some) =>
                fc.tuple(...some.map((key) => fc.tuple(fc.constant(key), fitting(key)))),
              ),
            fc.dictionary(
              fc.oneof(fc.constantFrom(...keys, 'limit'), fc.string({ maxLength: 12 })),
              value,
              { maxKeys: 1 },
            ),
          )
          .map(([some, extra]) => ({ ...Object.fromEntries(some), ...extra }));
      const anything = fc.record({
        path: fc.tuple(...names.map(segment)).map(withIds),
        method: fc.oneof(
          { weight: 12, arbitrary: fc.constant(method.toUpperCase()) },
          {
            weight: 1,
            arbitrary: fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'HEAD'),
          },
        ),
        token: fc.oneof(
          {
            weight: 10,
            arbitrary: fc.constantFrom(caller.token, caller === mine ? mine.key : caller.token),
          },
          {
            weight: 2,
            arbitrary: fc.constantFrom(
              mine.key,
              other.key,
              subscriber.token,
              undefined,
              'sk_test_x',
              'x.y.z',
            ),
          },
        ),
        query: fc.option(fields(queries.length > 0 ? queries : ['x']), { nil: {} }),
        body: fc.oneof(
          {
            weight: 6,
            arbitrary: fields(properties.length > 0 ? properties : ['x']).map((object) =>
              JSON.stringify(object),
            ),
          },
          { weight: 1, arbitrary: strange.map((any) => JSON.stringify(any)) },
          { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 100 }) },
          { weight: 1, arbitrary: fc.constant(deep) },
        ),
        type: fc.oneof(
          { weight: 12, arbitrary: fc.constant('application/json') },
          {
            weight: 1,
            arbitrary: fc.constantFrom(
              'text/plain',
              'application/xml',
              'multipart/form-data',
              'application/json; charset=x',
              '',
            ),
          },
        ),
        headers: fc.dictionary(
          fc.constantFrom(
            'idempotency-key',
            'x-request-id',
            'x-forwarded-for',
            'accept',
            'if-none-match',
            'range',
            'origin',
          ),
          fc.string({ maxLength: 300 }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
          { maxKeys: 2 },
        ),
        damage: damages,
      });
      // As a careful client sends it, before it is damaged.
      const valid = fc.record({
        path: fc.constant(withIds(names.map((name) => own[name]!))),
        method: fc.constant(method.toUpperCase()),
        token: fc.constant<string | undefined>(caller.token),
        query: fc.constant({}),
        body: fc.constant(
          JSON.stringify(Object.fromEntries(required.map((key) => [key, typical[key]]))),
        ),
        type: fc.constant('application/json'),
        headers: fc.constant<Record<string, string>>({}),
        damage: damages,
      });
      return fc.oneof({ weight: 9, arbitrary: anything }, { weight: 1, arbitrary: valid });
    });

    let made = 0;
    const broken = { bytes: 0, date: 0, encoding: 0, header: 0 };
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { minLength: atOnce, maxLength: atOnce }),
        async (requests) => {
          await Promise.all(
            requests.map(
              async ({ path, method, token, query, body, type, headers, ...rest }, n) => {
                const damage = n % 2 === 0 ? rest.damage : null;
                const bodiless = method === 'GET' || method === 'HEAD';
                const parts: Parts = {
                  query: Object.entries(query).map(
                    ([name, given]) => `${encode(name)}=${encode(given)}`,
                  ),
                  headers: { ...headers, ...(bodiless ? {} : { 'content-type': type }) },
                  body: Buffer.from(body === deep ? '['.repeat(20_000) : body),
                };
                if (damage !== null) breakParts(parts, damage);
                const url = parts.query.length === 0 ? path : `${path}?${parts.query.join('&')}`;
                const { status, text } = await api.call(method as 'GET', url, {
                  token,
                  headers: parts.headers,
                  ...(bodiless ? {} : { payload: parts.body }),
                });
                made += 1;
                if (damage !== null) broken[damage.kind] += 1;
                statuses.set(status, (statuses.get(status) ?? 0) + 1);
                if (status >= 500)
                  throw new Error(
                    `${status}: ${method} ${url} ${body.slice(0, 300)} ${JSON.stringify(damage)}: ${text}`,
                  );
              },
            ),
          );
        },
      ),
      {
        numRuns: Math.ceil(runs / atOnce),
        endOnFailure: true,
        // The requests of a failing round are long; its error says which of them it was.
        reporter: ({ failed, seed, counterexamplePath, errorInstance }) => {
          if (failed)
            throw new Error(
              `${messageOf(errorInstance).slice(0, 2000)} (seed ${seed}, path ${String(counterexamplePath)})`,
            );
        },
      },
    );
    t.ok(made >= runs, `${made} requests: ${JSON.stringify(Object.fromEntries(statuses))}`);
    const counts = Object.values(broken);
    const all = counts.reduce((sum, count) => sum + count);
    t.ok(all >= made / 2 && all < made, `${all} were broken: ${JSON.stringify(broken)}`);
    t.ok(Math.min(...counts) > made / 20, `of each kind: ${JSON.stringify(broken)}`);
    for (const status of [200, 201, 400, 401, 403, 404, 409])
      t.ok(statuses.has(status), `${status} was among the answers`);
  },
);

function encode(given: unknown): string {
  const text = typeof given === 'string' ? given : JSON.stringify(given);
  try {
    return encodeURIComponent(text);
  } catch {
    // Lone surrogates have no encoding; send what some clients would.
    return '%ED%A0%80';
  }
}
