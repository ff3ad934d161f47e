import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../../src/chain/program/addresses.ts';
import {
  type AccountNotification,
  followAccounts,
  type FollowAccountsOptions,
} from '../../../src/chain/streams/accounts.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { startNode, until } from '../../fixtures/stream-node.ts';

const log = pino({ level: 'silent' });
type Node = Awaited<ReturnType<typeof startNode>>;

/**
 * Subscriptions are numbered as they come; addresses of which `refuses` says so are refused, and
 * with `accountUnsubscribe` the end of a subscription.
 */
async function startAccountsNode(t: Test, refuses: (address: unknown) => boolean = () => false) {
  const node = await startNode(t);
  const ids = new Map<unknown, number>();
  let last = 1000;
  let unanswered = 0;
  let most = 0;
  node.onRequest((socket, { id, method, params }) => {
    if (method === 'accountUnsubscribe' && refuses(method)) {
      const error = { code: -32602, message: 'Invalid subscription id.' };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, error }));
      return;
    }
    if (method !== 'accountSubscribe') {
      socket.send(
        JSON.stringify({ jsonrpc: '2.0', id, result: method === 'slotSubscribe' ? 1 : true }),
      );
      return;
    }
    unanswered += 1;
    most = Math.max(most, unanswered);
    setImmediate(() => {
      unanswered -= 1;
      const refused = refuses(params[0]);
      if (!refused) ids.set(params[0], (last += 1));
      const outcome = refused
        ? { error: { code: -32600, message: 'too many subscriptions' } }
        : { result: ids.get(params[0]) };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
    });
  });
  const send = (address: string, slot: number, owner = TOKEN_PROGRAM) =>
    node.notify('accountNotification', ids.get(address) ?? 0, {
      context: { slot },
      value: {
        owner,
        lamports: 7,
        data: [Buffer.from(address).toString('base64'), 'base64'],
        executable: false,
      },
    });
  return { ...node, ids, send, maxUnanswered: () => most };
}

function follow(t: Test, node: Pick<Node, 'url'>, options: Partial<FollowAccountsOptions> = {}) {
  const notifications: AccountNotification[] = [];
  let gaps = 0;
  const follower = followAccounts({
    urls: [node.url],
    maxAccounts: 1000,
    onNotification: (notification) => notifications.push(notification),
    onGap: () => (gaps += 1),
    log,
    ...options,
  });
  t.teardown(() => follower.close());
  return { follower, notifications, gaps: () => gaps };
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `account ${index}`);
const subscribed = (node: Node, method = 'accountSubscribe') =>
  node.requests.filter((request) => request.method === method).map(({ params }) => params[0]);

void t.test(
  'each change is reported with address and slot; a closed account is empty and owned by System',
  async (t) => {
    const node = await startAccountsNode(t);
    const { follower, notifications } = follow(t, node);
    t.equal(node.sockets.length, 0, 'nothing is opened for nothing');
    for (const address of ['a', 'b', 'a']) t.ok(follower.add(address));
    await until(() => follower.followed() === 2);
    t.same(subscribed(node), ['a', 'b']);
    node.send('b', 8);
    node.send('a', 9, SYSTEM_PROGRAM);
    node.notify('accountNotification', 4, 'of no account');
    node.send('b', 10);
    await until(() => notifications.length === 3);
    t.match(notifications, [
      { address: 'b', slot: 8n, owner: TOKEN_PROGRAM, lamports: 7n, data: Buffer.from('b') },
      { address: 'a', slot: 9n, owner: SYSTEM_PROGRAM },
      { address: 'b', slot: 10n },
    ]);
  },
);

void t.test(
  'accounts per connection, accounts in total and concurrent requests are limited',
  async (t) => {
    const node = await startAccountsNode(t);
    const { follower } = follow(t, node, { maxAccounts: 250, perConnection: 100 });
    t.equal(names(300).filter((name) => follower.add(name)).length, 250);
    await until(() => follower.followed() === 250);
    t.equal(node.sockets.length, 3);
    t.ok(node.maxUnanswered() <= 150, 'fifty on each');
    follower.drop('account 7');
    t.ok(follower.add('another'), 'in its place');
    await until(() => node.ids.has('another'));
    t.same(subscribed(node, 'accountUnsubscribe'), [node.ids.get('account 7')]);
    t.equal(node.sockets.length, 3);
  },
);

void t.test('a refused unsubscribe drops no account that waits for a subscription', async (t) => {
  const node = await startAccountsNode(t, (what) => what === 'accountUnsubscribe');
  const { follower } = follow(t, node);
  for (const name of names(200)) follower.add(name);
  await until(() => node.ids.has('account 0'));
  await until(() => follower.followed() > 0);
  follower.drop('account 0');
  await until(() => follower.followed() === 199);
  t.same(subscribed(node, 'accountUnsubscribe'), [node.ids.get('account 0')]);
  t.ok(follower.add('another'), 'and stops no further one');
  await until(() => node.ids.has('another'));
});

void t.test(
  'after a refusal no further accounts are subscribed for a while, and the others stay',
  async (t) => {
    const wait = stopClock(t);
    let refusing = true;
    const node = await startAccountsNode(
      t,
      (address) => refusing && Number(String(address).slice(8)) >= 10,
    );
    const { follower, notifications, gaps } = follow(t, node, { refusedMs: 300 });
    for (const name of names(100)) follower.add(name);
    await until(() => follower.followed() === 10 && !follower.add('account 50'));
    const asked = subscribed(node).length;
    t.ok(asked < 100);
    node.send('account 3', 5);
    await until(() => notifications.length === 1);
    t.equal(node.sockets.length, 1, 'on the same connection');
    refusing = false;
    wait(299);
    t.notOk(follower.add('account 50'));
    wait(1);
    t.ok(follower.add('account 50'));
    await until(() => follower.followed() === 11);
    t.equal(gaps(), 0);
  },
);

void t.test(
  'after a reconnect all accounts are subscribed again, and then the gap is reported',
  async (t) => {
    const node = await startAccountsNode(t);
    const { follower, notifications, gaps } = follow(t, node);
    for (const name of names(120)) follower.add(name);
    await until(() => follower.followed() === 120);
    t.equal(gaps(), 0, 'none at first: a caller that adds accounts has just read them');
    follower.drop('account 0');
    node.sockets[0]!.terminate();
    await until(() => gaps() === 1);
    t.equal(follower.followed(), 119);
    t.notOk(subscribed(node).slice(120).includes('account 0'));
    node.send('account 119', 3);
    await until(() => notifications.length === 1);
    // A message that cannot be read is a known gap too.
    node.notify('accountNotification', node.ids.get('account 1')!, {
      context: { slot: 1 },
      value: { owner: 7 },
    });
    await until(() => gaps() === 2);
  },
);

void t.test(
  'a subscription that was dropped before its response is cancelled at the node and reports nothing',
  async (t) => {
    const node = await startAccountsNode(t);
    const { follower, notifications } = follow(t, node);
    follower.add('a');
    await until(() => subscribed(node).length === 1);
    follower.drop('a');
    await until(() => subscribed(node, 'accountUnsubscribe').length === 1);
    follower.add('b');
    await until(() => follower.followed() === 1);
    node.send('a', 1);
    node.send('b', 2);
    await until(() => notifications.length === 1);
    t.equal(notifications[0]?.address, 'b');
  },
);

void t.test('after close() the stream follows no account', async (t) => {
  const node = await startAccountsNode(t);
  const { follower, notifications } = follow(t, node);
  follower.add('a');
  await until(() => follower.followed() === 1);
  follower.close();
  t.notOk(follower.add('b'));
  node.send('a', 1);
  await new Promise((resolve) => setTimeout(resolve, 300));
  t.same([notifications.length, node.sockets.length], [0, 1]);
});
