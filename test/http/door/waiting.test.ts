// Routes that wait take a place for each request. A client and the process each have a limited
// number of places.
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { createTokens } from '../../../src/domain/accounts/tokens.ts';
import { type PlaceKind, Places } from '../../../src/http/door/waiting.ts';
import { clientAt, crowdMerchants } from '../../fixtures/crowd.ts';
import { jwtSecret, publicUrl, randomAddress } from '../../fixtures/http.ts';
import { insertOffer, insertPlan } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { until } from '../../fixtures/webhooks.ts';

/** The shape of an answer of the feed. */
interface FeedAnswer {
  data: { cursor: string };
}
const sample = { type: 'payment_success' };

void t.test(
  'waiting requests may use half of an address’s connections, with a limit per kind of request',
  async (t) => {
    const served = await startServe(t, { CONNECTIONS_PER_ADDRESS: '8' });
    const { sql, port } = served;
    const merchant = await served.merchant();
    const planId = await insertPlan(sql, merchant);
    const wallet = randomAddress();
    const tokens = createTokens([jwtSecret], publicUrl);
    const { token } = await tokens.issue({ wallet, role: 'subscriber', page: null });
    const offered = (secret: string | null) =>
      insertOffer(sql, { wallet, planId, secret, origin: null });
    const [own, ofPage] = [await offered(null), await offered('a-secret')];
    const app = `/merchant/apps/${merchant.appId}`;
    const [holder, one, other] = [
      clientAt(port, '127.0.0.9'),
      clientAt(port, '127.0.0.9'),
      clientAt(port, '127.0.0.10'),
    ] as const;
    t.teardown(() => [one, other].forEach((client) => client.close()));
    const { text: first } = await one.get(`${app}/events/next`, merchant.token);
    let { cursor } = (JSON.parse(first) as FeedAnswer).data;

    const transaction = { transaction: 'AA==' };
    const poll = (client = one) =>
      client.get(`/subscriber/offers/${own}?wait=8&known=offered`, token);
    const follow = async (client = one, wait = 15) => {
      const path = `${app}/events/next?wait=${wait}&after=${encodeURIComponent(cursor)}`;
      const answer = await client.get(path, merchant.token);
      if (answer.status === 200) ({ cursor } = (JSON.parse(answer.text) as FeedAnswer).data);
      return answer;
    };

    let answered = 0;
    const polls = Array.from({ length: 4 }, async () => {
      await poll(holder);
      answered += 1;
    });
    for (const each of polls) each.catch(() => undefined);
    // Without a place, a fifth one is answered at once with what is known.
    await until(async () => (await one.get(`/subscriber/offers/${own}`, token)).status === 200);
    for (const probe of [
      () => poll(),
      () => one.get(`/checkout/offers/${ofPage}?wait=8&known=offered`, 'a-secret'),
    ])
      t.match(await probe(), { status: 200, text: /"state":"offered"/ });
    t.equal(answered, 0, 'those that have a place still wait');
    t.equal((await other.get(`/subscriber/offers/${own}?wait=1`, token)).status, 200);

    // Paying, events and merchants’ servers have places of their own.
    for (const ask of [
      () => one.post('/subscriber/transactions', token, transaction),
      () => one.post('/merchant/transactions', merchant.token, transaction),
    ])
      t.match(await ask(), { status: 400 });
    t.equal((await follow(one, 1)).status, 200);
    t.equal((await one.post(`${app}/events/sample`, merchant.token, sample)).status, 200);

    holder.close();
    const second = await served.merchant();
    const theirs = `/merchant/apps/${second.appId}/events/next`;
    const next = JSON.parse((await one.get(theirs, second.token)).text) as FeedAnswer;
    const path = `${theirs}?wait=1&after=${encodeURIComponent(next.data.cursor)}`;
    const reader = clientAt(port, '127.0.0.9');
    const feeds = Array.from({ length: 4 }, async () => {
      for (;;) if ((await follow(reader)).status !== 200) await delay(50);
    });
    for (const each of feeds) each.catch(() => undefined);
    const refused = /of this address or server wait/;
    await until(async () => refused.test((await one.get(path, second.token)).text));
    t.equal((await other.get(path, second.token)).status, 200, 'another address can');
    t.match(await one.post('/merchant/transactions', merchant.token, transaction), { status: 400 });
    reader.close();
    await until(async () => (await one.get(path, second.token)).status === 200);
  },
);

void t.test(
  'behind a trusted proxy a client’s waiting requests count for the client’s address',
  async (t) => {
    const { sql, port } = await startServe(t, { TRUST_PROXY: '127.0.0.1' });
    const merchants = await crowdMerchants(sql, 204);
    const agent = new Agent({ keepAlive: true });
    t.teardown(() => agent.destroy());
    const ask = async (path: string, key: string, from: string) => {
      const headers = { authorization: `Bearer ${key}`, 'x-forwarded-for': from };
      const asked = request({ port, host: '127.0.0.1', path, agent, headers });
      const [response] = (await once(asked.end(), 'response')) as [IncomingMessage];
      return { status: response.statusCode, text: await text(response) };
    };
    const cursors = await Promise.all(
      merchants.map(async ({ key, path }) => {
        const answer = JSON.parse((await ask(path, key, '203.0.113.9')).text) as FeedAnswer;
        return answer.data.cursor;
      }),
    );
    const follow = (n: number, from: string, wait = 15) => {
      const index = Math.floor(n / 4);
      const query = `wait=${wait}&after=${encodeURIComponent(cursors[index]!)}`;
      return ask(`${merchants[index]!.path}?${query}`, merchants[index]!.key, from);
    };
    // One address asks for 200 of the 500 places, and gets 100: half of its connections.
    const held = Array.from({ length: 200 }, (_, n) => follow(n, '203.0.113.7'));
    let refused = 0;
    for (const each of held)
      each.then(
        ({ status }) => (refused += status === 429 ? 1 : 0),
        () => undefined,
      );
    await until(() => Promise.resolve(refused > 0));
    t.equal((await follow(203, '198.51.100.9', 1)).status, 200, 'another client of the proxy');
  },
);

void t.test(
  'waiting requests of an IPv6 /56 count as one address, those of its /48 as two',
  (t) => {
    const places = new Places({ connections: 64, perAddress: 6 });
    const taken = (kind: PlaceKind, ips: readonly string[]) =>
      ips.map((ip) => places.take(kind, ip)).filter((place) => place !== undefined);
    const some = (count: number, ip: (n: number) => string) =>
      Array.from({ length: count }, (_, n) => ip(n));
    // 16 places for events, of which an address gets 3: half of its connections.
    t.equal(
      taken(
        'events',
        some(9, () => '10.0.0.1'),
      ).length,
      3,
    );
    const narrow = taken(
      'events',
      some(9, (n) => `2001:db8:1:${n}::1`),
    );
    t.equal(narrow.length, 3, 'a /56');
    t.equal(
      taken(
        'events',
        some(9, (n) => `2001:db8:1:1${n}00::1`),
      ).length,
      3,
      'the rest of a /48',
    );
    t.equal(
      taken(
        'events',
        some(90, (n) => `10.1.0.${n}`),
      ).length,
      7,
      'all',
    );
    t.equal(taken('events', ['10.9.0.1']).length, 0);
    t.equal(taken('paying', ['10.9.0.1', '10.0.0.1']).length, 2, 'another kind has its own');
    // 8 places for payments, of which an address gets 2: a quarter.
    t.equal(
      taken(
        'paying',
        some(9, () => '10.0.0.2'),
      ).length,
      2,
    );
    narrow[0]!();
    t.equal(taken('events', ['10.9.0.1', '10.9.0.1']).length, 1, 'a place that is given back');
    t.end();
  },
);
