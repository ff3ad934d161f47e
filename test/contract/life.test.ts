// docs/contract.md: what happens to subscriptions, and what merchants are told of it. One play of
// everything that can happen: real wallets on a real chain, a real keeper, a dispatcher as its own
// process, an HTTPS server of the merchant's. The tests look at what came of it.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { CLUSTERS } from '../../src/chain/clusters.ts';
import type { Keypair } from '../../src/chain/keypair.ts';
import { authorityAddress } from '../../src/chain/program/addresses.ts';
import { cancelSubscription, resumeSubscription } from '../../src/chain/program/instructions.ts';
import { verifyWebhook } from '../../src/client/webhook.ts';
import {
  contractEventTypes,
  type EventType,
  standardEventTypes,
} from '../../src/db/delivering/events.ts';
import { pullsOnChain } from '../fixtures/agreement.ts';
import { HOUR, startStage, type Plan, type Subscription } from '../fixtures/billing.ts';
import { start } from '../fixtures/command.ts';
import { encryptionKey, testApi } from '../fixtures/http.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { approve, revokeApproval } from '../fixtures/tokens.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

interface Event {
  id: string;
  type: EventType;
  createdAt: string;
  data: Record<string, unknown>;
}
interface Shown {
  id: string;
  status: string;
  paidThrough: string | null;
  nextPaymentDue: string | null;
  cancelRequestedAt: string | null;
}

const PERIOD = 24;
const AMOUNT = 10_000_000n;
const FEE = 100_000n;
/** 2^53 + 1: no number of JavaScript's. */
const HUGE = 9_007_199_254_740_993n;
const base58 = /^[1-9A-HJ-NP-Za-km-z]+$/;
const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const began = Date.now();
const stage = await startStage(t);
const { sql, net } = stage;
const api = await testApi(t, {
  database: { sql, url: stage.databaseUrl },
  rpcUrl: net.rpcUrl,
  network: {
    programId: net.programId,
    mint: net.mint,
    puller: stage.keeper.address,
    treasury: stage.treasury.address,
  },
  environment: 'production',
});
const fixture = (name: string) => new URL(`../fixtures/tls/${name}`, import.meta.url);
const receiver = await startReceiver(t, (response) => response.writeHead(204).end(), {
  tls: { key: await readFile(fixture('leaf.key')), cert: await readFile(fixture('leaf.pem')) },
});
const dispatch = start(t, ['dispatch'], {
  BILLING_ENV: 'production',
  DATABASE_URL: stage.databaseUrl,
  ENCRYPTION_KEY: encryptionKey,
  METRICS_PORT: '0',
  WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  WEBHOOK_DNS_SERVERS: await startNameServer(t, () => ['127.0.0.1']),
  NODE_EXTRA_CA_CERTS: fileURLToPath(fixture('ca.pem')),
});
await dispatch.line('dispatch is running');

const merchant = await api.signIn('merchant', stage.wallet());
const plans = {
  coffee: await stage.plan({ amount: AMOUNT, periodHours: PERIOD, merchant: merchant.keypair }),
  huge: await stage.plan({ amount: HUGE, periodHours: PERIOD, merchant: merchant.keypair }),
};
const secrets: Record<string, string> = {};
for (const { appId } of Object.values(plans)) {
  const url = `https://secure.example:${receiver.port}/hook`;
  const { body } = await api.call<{ secret: string }>('POST', `/merchant/apps/${appId}/webhooks`, {
    token: merchant.token,
    body: { url },
  });
  secrets[appId] = body.data.secret;
}

/** A wallet that opens a subscription on chain. */
async function open(
  plan: Plan,
  usdc: bigint,
  payer?: Keypair,
): Promise<{ wallet: Keypair; pda: string; plan: Plan }> {
  const wallet = stage.wallet({ usdc });
  return { wallet, plan, pda: await stage.open(plan, wallet, payer) };
}

/** And registers it with the service. */
async function join(plan: Plan, usdc: bigint, payer?: Keypair): Promise<Subscription> {
  const opened = await open(plan, usdc, payer);
  const { token } = await api.signIn('subscriber', opened.wallet);
  const body = { appId: plan.appId, planId: plan.id, subscriptionPda: opened.pda };
  const answer = await api.call<Shown>('POST', '/subscriber/subscriptions', { token, body });
  if (answer.status !== 201) throw new Error(`not registered: ${answer.text}`);
  return { ...opened, id: answer.body.data.id };
}

const { coffee, huge } = plans;
const rich = 1_000_000_000n;
const all = {
  leaving: await join(coffee, rich, stage.keeper),
  poor: await join(coffee, 1n),
  exhausted: await join(coffee, rich),
  forced: await join(coffee, rich),
  revoking: await join(coffee, rich),
  returning: await join(coffee, rich),
  dismissed: await join(coffee, rich),
  huge: await join(huge, 3n * HUGE),
};
const unregistered = await open(coffee, rich);
const { exhausted } = all;
await stage.send(
  [exhausted.wallet],
  [
    approve({
      owner: exhausted.wallet.address,
      mint: net.mint,
      delegate: authorityAddress(net.programId, exhausted.wallet.address, net.mint).address,
      amount: AMOUNT - 1n,
    }),
  ],
);

const has = async (subscription: Subscription, type: EventType, count = 1) =>
  (await stage.events(subscription)).filter((event) => event.type === type).length >= count;
const told = (what: string, wanted: [Subscription, EventType, number?][]) =>
  stage.until(what, async () =>
    (await Promise.all(wanted.map(([one, type, count]) => has(one, type, count)))).every(Boolean),
  );

await stage.startKeeper();
const payers = [all.leaving, all.forced, all.revoking, all.returning, all.dismissed, all.huge];
await told('the first period is collected', [
  ...payers.map((one): [Subscription, EventType] => [one, 'payment_success']),
  [all.poor, 'payment_failed'],
  [exhausted, 'payment_failed'],
]);
await stage.quiet();
const show = async (subscription: Subscription) =>
  (
    await api.call<Shown>(
      'GET',
      `/merchant/apps/${subscription.plan.appId}/subscriptions/${subscription.id}`,
      { token: merchant.token },
    )
  ).body.data;
const paid = await show(all.leaving);
const balances = {
  merchant: await stage.balance(merchant.wallet),
  treasury: await stage.balance(stage.treasury.address),
  huge: await stage.balance(all.huge.wallet.address),
  unregistered: await stage.balance(unregistered.wallet.address),
};

const parties = ({ wallet, pda, plan }: Subscription) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});
const cancel = (mode: string, { id, plan }: Subscription) =>
  api.call<Shown>('POST', `/merchant/apps/${plan.appId}/subscriptions/${id}/cancel`, {
    token: merchant.token,
    body: { mode },
  });
for (const one of [all.leaving, all.returning])
  await stage.send([one.wallet], [cancelSubscription(net.programId, parties(one))]);
await stage.send(
  [all.revoking.wallet],
  [revokeApproval({ owner: all.revoking.wallet.address, mint: net.mint })],
);
const [forced, dismissed] = [
  await cancel('force', all.forced),
  await cancel('period_end', all.dismissed),
];
await told('what the wallets did is seen', [
  [all.leaving, 'cancel_requested'],
  [all.returning, 'cancel_requested'],
  [all.revoking, 'delegation_revoked'],
]);
const asked = await show(all.leaving);
const { expiresAt } = (await stage.onChain(all.returning))!;
await stage.send(
  [all.returning.wallet],
  [resumeSubscription(net.programId, { ...parties(all.returning), mint: net.mint, expiresAt })],
);
await told('the resumption is seen', [[all.returning, 'subscription_resumed']]);
const beforeTheEnd = (await stage.events(all.leaving)).map(({ type }) => type);

net.passSeconds(PERIOD * HOUR + 5);
await told('the period is over', [
  [all.leaving, 'cancel_finalized'],
  [all.dismissed, 'cancel_finalized'],
  [all.returning, 'payment_success', 2],
  [all.huge, 'payment_success', 2],
  [all.revoking, 'payment_failed'],
]);
await stage.quiet();
const [{ count }] = await sql<[{ count: number }]>`
  select count(*)::int as count from all_deliveries`;
await stage.until('everything is delivered', async () => receiver.requests.length >= count);

const requests = receiver.requests.map((request) => {
  const event = JSON.parse(request.body.toString()) as Event;
  return { ...request, event, secret: secrets[String(event.data.appId)] ?? '' };
});
const events = requests.map(({ event }) => event);
const of = (type: EventType, subscription?: Subscription) =>
  events.filter(
    (event) =>
      event.type === type &&
      (subscription === undefined || event.data.subscriptionId === subscription.id),
  );
const ids = Object.values(all).map(({ id }) => id);
const whose = ({ data }: Event) => Object.values(all).find(({ id }) => id === data.subscriptionId)!;

rule('The service collects recurring payments from subscribers for merchants.', async (t) => {
  const pulls = await pullsOnChain(stage, all.returning);
  t.equal(pulls.length, 2, 'one each period');
  t.equal(pulls[1]!.periodStart - pulls[0]!.periodStart, BigInt(PERIOD * HOUR));
  t.equal(await stage.balance(all.returning.wallet.address), rich - 2n * AMOUNT);
});

rule(
  'The subscriber then registers that account with the service; from then on the keeper follows it and collects its payments.',
  async (t) => {
    for (const one of payers) t.ok((await pullsOnChain(stage, one)).length > 0);
    t.equal(balances.unregistered, rich, 'what is on chain and not registered is left alone');
    t.equal(await stage.balance(unregistered.wallet.address), rich);
    const [row] =
      await sql`select 1 from subscriptions where subscription_pda = ${unregistered.pda}`;
    t.equal(row, undefined);
  },
);

rule('Payments are in USDC.', async (t) => {
  t.equal(CLUSTERS['mainnet-beta'].usdcMint, 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v');
  // stage.balance is of the token account of the mint that USDC_MINT names here.
  t.equal(balances.huge, 3n * HUGE - HUGE);
});

rule(
  'The platform fee is taken out of the gross amount; the merchant receives the rest, the net amount.',
  async (t) => {
    const hugeFee = HUGE / 100n;
    t.equal(balances.treasury - 1n, 5n * FEE + hugeFee);
    t.equal(
      balances.merchant - rich,
      5n * (AMOUNT - FEE) + HUGE - hugeFee,
      'what the wallet had, and the net amounts',
    );
    for (const { data } of of('payment_success'))
      t.equal(
        BigInt(String(data.amountNet)),
        BigInt(String(data.amountGross)) - BigInt(String(data.platformFee)),
      );
  },
);

rule(
  "When something happens to a subscription, the merchant's HTTPS endpoint receives a signed webhook.",
  (t) => {
    t.equal(requests.length, count);
    for (const { body, headers, secret, event, at } of requests) {
      t.equal(headers.host, `secure.example:${receiver.port}`);
      t.equal(verifyWebhook(body, headers, secret, new Date(at)).id, event.id);
    }
  },
);

rule(
  "An event that the keeper or an action on a subscription causes is sent by POST to the app's webhook endpoint.",
  async (t) => {
    for (const { method, path } of requests) t.same([method, path], ['POST', '/hook']);
    const stored = await sql<{ id: string; body: string }[]>`
      select id, body from events where type <> 'invoice_uncollectible'`;
    t.same(
      new Map(requests.map(({ event, body }) => [event.id, body.toString()])),
      new Map(stored.map(({ id, body }) => [id, body])),
    );
    t.ok(
      of('payment_success').length > 0 && of('cancel_forced').length > 0,
      'of the keeper and of a merchant',
    );
  },
);

rule("`id` | string | the event's id, the same for each delivery of it", (t) => {
  t.equal(new Set(events.map(({ id }) => id)).size, events.length);
  for (const { event, headers } of requests) {
    t.match(event.id, /^[0-9a-f-]{36}$/);
    t.equal(headers['webhook-id'], event.id);
  }
});

rule('`type` | string | one of the types below', (t) => {
  t.same(
    [...new Set(events.map(({ type }) => type))].sort(),
    [...standardEventTypes].sort(),
    'all seven, and one of ours',
  );
  t.same(
    standardEventTypes.filter((type) => !(contractEventTypes as readonly string[]).includes(type)),
    ['subscription_resumed'],
  );
  // As the document has it: every event of every type.
  for (const event of events) t.doesNotThrow(() => api.contract.event(event), event.type);
  t.throws(() => api.contract.event({ ...events[0], surplus: 1 }));
  t.throws(() => api.contract.event({ ...events[0], data: {} }));
});

rule('`createdAt` | ISO 8601 string | when the event was created', (t) => {
  for (const { event, at } of requests) {
    t.match(event.createdAt, iso);
    const createdAt = Date.parse(event.createdAt);
    t.ok(createdAt >= began && createdAt <= at, 'between the start of the test and its arrival');
  }
});

rule("`data.subscriptionId` | string | the subscription's id", (t) => {
  for (const { data } of events) t.ok(ids.includes(String(data.subscriptionId)));
});

rule('`data.subscriptionPda` | string | its address on chain, in Base58', (t) => {
  for (const event of events) t.equal(event.data.subscriptionPda, whose(event).pda);
});

rule('`data.planId` | string | its plan', (t) => {
  for (const event of events) t.equal(event.data.planId, whose(event).plan.id);
});

rule("`data.planName` | string | the plan's name", (t) => {
  for (const { data } of events) t.equal(data.planName, 'plan');
});

rule("`data.subscriberWallet` | string | the subscriber's wallet, in Base58", (t) => {
  for (const event of events) t.equal(event.data.subscriberWallet, whose(event).wallet.address);
});

rule("`data.merchantWallet` | string | the merchant's wallet, in Base58", (t) => {
  for (const { data } of events) t.equal(data.merchantWallet, merchant.wallet);
});

rule('`data.amountGross` | string | what the subscriber paid, in base units of USDC', (t) => {
  for (const event of of('payment_success'))
    t.equal(event.data.amountGross, String(whose(event).plan.terms.amount));
  t.equal(
    of('payment_success', all.huge)[0]?.data.amountGross,
    '9007199254740993',
    'beyond 2^53, to the last digit',
  );
});

rule("`data.platformFee` | string | the fee's part of it", (t) => {
  for (const event of of('payment_success'))
    t.equal(event.data.platformFee, String(whose(event).plan.terms.amount / 100n));
});

rule("`data.amountNet` | string | the merchant's part of it", (t) => {
  for (const event of of('payment_success')) {
    const { amount } = whose(event).plan.terms;
    t.equal(event.data.amountNet, String(amount - amount / 100n));
  }
});

rule(
  "`data.txSignature` | string | the signature of the payment's transaction (payment events)",
  async (t) => {
    const told = of('payment_success');
    t.equal(told.length, 8);
    for (const event of told) {
      const signature = String(event.data.txSignature);
      t.match(signature, base58);
      const pulls = await pullsOnChain(stage, whose(event));
      t.equal(
        pulls.filter((pull) => pull.signature === signature).length,
        1,
        'a pull of this subscription, whatever others its transaction paid',
      );
    }
  },
);

rule(
  '`data.nextPaymentDue` | ISO 8601 string | when the next payment is due (payment events)',
  (t) => {
    for (const { data } of [...of('payment_success'), ...of('payment_failed')])
      t.match(data.nextPaymentDue, iso);
    t.equal(of('payment_success', all.leaving)[0]?.data.nextPaymentDue, paid.nextPaymentDue);
    t.equal(paid.nextPaymentDue, paid.paidThrough);
    const [first, second] = of('payment_success', all.returning).map(({ data }) =>
      Date.parse(String(data.nextPaymentDue)),
    );
    t.equal(Math.abs(second! - first!), PERIOD * HOUR * 1000);
  },
);

rule(
  '`data.cancelRequestedAt` | ISO 8601 string | when the cancellation was requested (`cancel_requested`)',
  (t) => {
    for (const { type, data } of events)
      t.equal('cancelRequestedAt' in data, type === 'cancel_requested', type);
    for (const { data } of of('cancel_requested')) t.match(data.cancelRequestedAt, iso);
    t.equal(
      of('cancel_requested', all.leaving)[0]?.data.cancelRequestedAt,
      asked.cancelRequestedAt,
    );
  },
);

rule('An event has only the fields that its type calls for.', (t) => {
  const fields = new Set(events.flatMap(({ data }) => Object.keys(data)));
  for (const { data } of events) t.ok(Object.keys(data).length < fields.size);
});

rule('An event about a cancellation has no `amountGross` and no `txSignature`.', (t) => {
  for (const type of ['cancel_requested', 'cancel_finalized', 'cancel_forced'] as const) {
    t.ok(of(type).length > 0);
    for (const { data } of of(type)) t.notOk('amountGross' in data || 'txSignature' in data, type);
  }
});

rule('A receiver looks at `type` before it reads the fields of a payment.', (t) => {
  // One that does finds them all, every time.
  let gross = 0n;
  for (const { type, data } of events)
    if (type === 'payment_success') gross += BigInt(data.amountGross as string);
  t.equal(gross, 6n * AMOUNT + 2n * HUGE);
  for (const { type, data } of events)
    if (type !== 'payment_success') t.notOk('amountGross' in data, type);
});

rule(
  '`subscription_created` | a subscription whose account is confirmed on chain is registered | `subscriptionId`, `planId`, `subscriberWallet`',
  (t) => {
    t.same(
      of('subscription_created')
        .map(({ data }) => data.subscriptionId)
        .sort(),
      [...ids].sort(),
      'once each',
    );
    for (const { data } of of('subscription_created'))
      t.match(data, { subscriptionId: String, planId: String, subscriberWallet: base58 });
  },
);

rule(
  '`payment_success` | the keeper collected a payment | `amountGross`, `amountNet`, `txSignature`, `nextPaymentDue`',
  async (t) => {
    for (const { data } of of('payment_success'))
      t.match(data, {
        amountGross: /^\d+$/,
        amountNet: /^\d+$/,
        txSignature: base58,
        nextPaymentDue: iso,
        status: 'active',
      });
    for (const one of Object.values(all)) {
      const pulls = (await pullsOnChain(stage, one)).map(({ signature }) => signature);
      t.same(
        of('payment_success', one)
          .map(({ data }) => data.txSignature)
          .sort(),
        pulls.sort(),
        'exactly one of each',
      );
    }
  },
);

rule(
  '`payment_failed` | a payment failed: the balance was too small or the delegation used up | `subscriptionId`, `subscriberWallet`',
  (t) => {
    for (const { data } of of('payment_failed'))
      t.match(data, { subscriptionId: String, subscriberWallet: base58, status: 'past_due' });
    t.match(of('payment_failed', all.poor)[0]?.data, { failureReason: 'insufficient_funds' });
    t.match(of('payment_failed', exhausted)[0]?.data, { failureReason: 'allowance_exhausted' });
    for (const one of payers.filter((payer) => payer !== all.revoking))
      t.same(of('payment_failed', one), []);
  },
);

rule(
  '`cancel_requested` | the subscriber or the merchant asked for the end | `subscriptionId`, `cancelRequestedAt`',
  (t) => {
    for (const one of [all.leaving, all.returning])
      t.match(of('cancel_requested', one), [
        {
          data: { subscriptionId: one.id, cancelRequestedAt: iso, cancelRequestedBy: 'subscriber' },
        },
      ]);
    t.equal(dismissed.status, 200);
    t.match(of('cancel_requested', all.dismissed), [
      {
        data: {
          subscriptionId: all.dismissed.id,
          cancelRequestedAt: dismissed.body.data.cancelRequestedAt,
          cancelRequestedBy: 'merchant',
        },
      },
    ]);
    t.equal(of('cancel_requested').length, 3);
  },
);

rule(
  '`cancel_finalized` | the paid period is over and the account on chain is closed | `subscriptionId`',
  async (t) => {
    t.same(
      beforeTheEnd,
      ['subscription_created', 'payment_success', 'cancel_requested'],
      'not before the prepaid period has elapsed',
    );
    t.match(of('cancel_finalized', all.leaving), [
      { data: { subscriptionId: all.leaving.id, accountClosed: true, status: 'cancelled' } },
    ]);
    t.equal(await stage.onChain(all.leaving), null);
    t.equal(of('cancel_finalized').length, 2);
    t.equal((await pullsOnChain(stage, all.leaving)).length, 1, 'and nothing more was collected');
  },
);

rule(
  '`cancel_forced` | the merchant ended the subscription at once | `subscriptionId`',
  async (t) => {
    t.match(forced, { status: 200, body: { data: { status: 'cancelled' } } });
    t.match(of('cancel_forced'), [
      { data: { subscriptionId: all.forced.id, status: 'cancelled' } },
    ]);
    t.equal((await pullsOnChain(stage, all.forced)).length, 1);
  },
);

rule(
  '`delegation_revoked` | the subscriber took the delegation back | `subscriptionId`, `subscriberWallet`',
  (t) => {
    const { id, wallet } = all.revoking;
    t.match(
      of('delegation_revoked'),
      [{ data: { subscriptionId: id, subscriberWallet: wallet.address } }],
      'once',
    );
  },
);
