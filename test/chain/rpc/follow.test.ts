import t from 'tap';
import * as rules from '../../../src/chain/rpc/follow.ts';
import type { SignatureStatus } from '../../../src/chain/rpc/responses.ts';
import { STATUSES_AT_ONCE } from '../../../src/chain/rpc/transactions.ts';
import { keeperTimes } from '../../../src/keeper/base/times.ts';

const shouldPoll = (one: rules.Followed, root: rules.Root, now: number) =>
  rules.shouldPoll(one, root, now, keeperTimes.poll);
const isSentAgain = (one: rules.Followed, now: number) =>
  rules.isSentAgain(one, now, keeperTimes.send.resendMs);

const sent: rules.Followed = {
  ...{ signature: 'signature', bytes: Buffer.of(), sentAt: 0 },
  takenAt: 0,
  polledAt: 0,
  sends: 1,
  isOwn: true,
  status: null,
  slot: null,
};
const silent = { slot: 0n, receivedAt: -Infinity };
const confirmed = { slot: 7n, err: null, commitment: 'confirmed' } as const;
const processed = { ...confirmed, commitment: 'processed' } as const;

void t.test(
  'a recently sent transaction is polled often, an older transaction every second',
  (t) => {
    t.notOk(shouldPoll(sent, silent, 100));
    t.ok(shouldPoll(sent, silent, 150));
    t.notOk(shouldPoll({ ...sent, polledAt: 10_000 }, silent, 10_900));
    t.ok(shouldPoll({ ...sent, polledAt: 10_000 }, silent, 11_000));
    t.end();
  },
);

void t.test(
  'while a stream reports what lands, an unseen transaction is polled every two seconds',
  (t) => {
    const streaming = { slot: 6n, receivedAt: 1900 };
    t.notOk(shouldPoll(sent, streaming, 1999));
    t.ok(shouldPoll(sent, streaming, 2000));
    t.end();
  },
);

void t.test('a landed transaction is polled rarely until its slot is rooted, then at once', (t) => {
  for (const landed of [
    { ...sent, slot: 7n, polledAt: 10_000 },
    { ...sent, slot: 7n, status: confirmed, polledAt: 10_000 },
  ]) {
    t.notOk(shouldPoll(landed, { slot: 6n, receivedAt: 24_900 }, 24_999));
    t.ok(
      shouldPoll(landed, { slot: 6n, receivedAt: 24_900 }, 25_000),
      'a fork may have dropped it',
    );
    t.ok(shouldPoll(landed, { slot: 7n, receivedAt: 12_000 }, 12_000));
    t.ok(
      shouldPoll(landed, { slot: 6n, receivedAt: 9000 }, 11_000),
      'the stream tells nothing any more',
    );
  }
  t.end();
});

void t.test(
  'a finalized transaction is not polled, nor is a transaction that no process can have sent',
  (t) => {
    t.notOk(
      shouldPoll({ ...sent, status: { ...confirmed, commitment: 'finalized' } }, silent, 60_000),
    );
    t.notOk(shouldPoll({ ...sent, sends: 0 }, silent, 60_000));
    t.ok(shouldPoll({ ...sent, sends: 0, isOwn: false }, silent, 60_000));
    t.end();
  },
);

void t.test(
  'an unseen transaction is sent again after two seconds, later if its status was not polled since',
  (t) => {
    const one = { ...sent, sentAt: 10_000 };
    t.ok(isSentAgain({ ...one, sends: 0, sentAt: -Infinity }, 0), 'the first time at once');
    t.notOk(isSentAgain({ ...one, polledAt: 10_500 }, 11_999));
    t.ok(isSentAgain({ ...one, polledAt: 10_500 }, 12_000));
    t.notOk(isSentAgain(one, 15_999));
    t.ok(isSentAgain(one, 16_000));
    t.notOk(isSentAgain({ ...one, slot: 7n }, 60_000), 'a notice has it');
    t.notOk(isSentAgain({ ...one, slot: 7n, status: confirmed }, 60_000));
    t.end();
  },
);

void t.test('a status is recorded with its slot once it is confirmed', (t) => {
  const one = rules.follow(sent);
  rules.see(one, processed, 9n);
  t.match(one, { status: processed, slot: null }, 'a notification may still name another slot');
  rules.see(one, confirmed, 9n);
  t.match(one, { status: confirmed, slot: 7n });
  rules.see(one, processed, 9n);
  t.match(one, { status: confirmed, slot: 7n }, 'an endpoint lags');
  rules.see(one, { ...processed, slot: 8n }, 9n);
  t.match(one, { status: { slot: 8n, commitment: 'processed' } }, 'in another block after a fork');
  t.end();
});

void t.test('a transaction that a fork drops is sent again at once', (t) => {
  const now = performance.now();
  const one = { ...sent, status: confirmed, slot: 7n, sentAt: now, polledAt: now };
  rules.see(one, null, 6n);
  t.notOk(isSentAgain(one, now), 'an endpoint that has not reached the slot says nothing');
  rules.see(one, null, 7n);
  t.match(one, { status: null, slot: null });
  t.ok(isSentAgain(one, now));
  t.end();
});

void t.test('a landing reported by the stream that no poll confirms is forgotten', (t) => {
  const one = { ...sent, slot: 7n, sentAt: 10_000, polledAt: 10_500 };
  rules.see(one, null, 6n);
  t.equal(one.slot, null);
  t.notOk(isSentAgain(one, 11_999), 'but it is not sent at once');
  t.end();
});

void t.test('a transaction with a doubted failure counts as unseen', (t) => {
  const doubted: SignatureStatus = { ...processed, err: 'any', isDoubted: true };
  const one = rules.follow(sent);
  rules.see(one, doubted, 9n);
  t.match(one, { status: null, slot: null });
  rules.see(one, confirmed, 9n);
  rules.see(one, doubted, 9n);
  t.match(one, { status: null, slot: null, sentAt: -Infinity });
  t.end();
});

void t.test(
  'a successful status counts when confirmed, a failed status only when finalized',
  (t) => {
    const [failing, final] = [{ err: 'any' }, { commitment: 'finalized' }] as const;
    for (const [status, outcome] of [
      [null, undefined],
      [processed, undefined],
      [confirmed, 'landed'],
      [{ ...confirmed, ...final }, 'landed'],
      [{ ...processed, ...failing }, undefined],
      [{ ...confirmed, ...failing }, undefined],
      [{ ...confirmed, ...failing, ...final }, 'failed'],
    ] as const)
      t.equal(rules.outcomeOf(status), outcome);
    t.end();
  },
);

void t.test(
  'statuses of many transactions are read in as few requests as an endpoint allows',
  async (t) => {
    const some = Array.from({ length: STATUSES_AT_ONCE + 1 }, (_, index) =>
      rules.follow({ ...sent, signature: `${index}` }),
    );
    const asked: number[] = [];
    const rpc: Parameters<typeof rules.pollStatuses>[0] = {
      getSignatureStatuses: async (signatures, options) => {
        asked.push(signatures.length);
        t.same(options, { history: true });
        const statuses = signatures.map((one) => (one === '256' ? confirmed : null));
        return { slot: 9n, witnesses: 1, statuses };
      },
    };
    const before = performance.now();
    await rules.pollStatuses(rpc, some, { history: true });
    t.same(asked, [STATUSES_AT_ONCE, 1]);
    t.ok(some.every(({ polledAt }) => polledAt >= before));
    t.same(
      some.filter(({ status }) => status !== null).map(({ signature }) => signature),
      ['256'],
    );
  },
);
