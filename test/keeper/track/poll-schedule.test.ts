import t from 'tap';
import { keeperTimes } from '../../../src/keeper/base/times.ts';
import * as schedule from '../../../src/keeper/track/poll-schedule.ts';

const shouldPoll = (one: schedule.Polled, root: schedule.Root, now: number) =>
  schedule.shouldPoll(one, root, now, keeperTimes.poll);
const isSentAgain = (one: Parameters<typeof schedule.isSentAgain>[0], now: number) =>
  schedule.isSentAgain(one, now, keeperTimes.send.resendMs);

const sent: schedule.Polled = {
  takenAt: 0,
  polledAt: 0,
  sends: 1,
  isOwn: true,
  status: null,
  slot: null,
};
const silent = { slot: 0n, receivedAt: -Infinity };
const confirmed = { slot: 7n, err: null, commitment: 'confirmed' } as const;

void t.test('a young transaction is polled often, an old one every second', (t) => {
  t.notOk(shouldPoll(sent, silent, 100));
  t.ok(shouldPoll(sent, silent, 150));
  t.notOk(shouldPoll({ ...sent, polledAt: 10_000 }, silent, 10_900));
  t.ok(shouldPoll({ ...sent, polledAt: 10_000 }, silent, 11_000));
  t.end();
});

void t.test(
  'while a stream reports what lands, an unseen transaction is polled every two seconds',
  (t) => {
    const streaming = { slot: 6n, receivedAt: 1900 };
    t.notOk(shouldPoll(sent, streaming, 1999));
    t.ok(shouldPoll(sent, streaming, 2000));
    t.end();
  },
);

void t.test('a landed transaction is polled once it is rooted, and rarely before', (t) => {
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
  'a finalized transaction is not polled, nor is an unsent one unless another process may have sent it',
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
