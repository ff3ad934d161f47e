import t from 'tap';
import type { SubscriptionState } from '../../../src/db/subscriptions/state.ts';
import {
  isDueSoon,
  isToAnnounce,
  lookAheadAt,
  nextRead,
  noticesUntil,
} from '../../../src/domain/collecting/look-ahead.ts';

const due = new Date('2026-03-01T00:00:00Z');
const state = (changes: Partial<SubscriptionState> = {}) =>
  ({
    status: 'active',
    cancelRequestedAt: null,
    nextPaymentDue: due,
    announcedDue: null,
    paidThrough: null,
    periodAnchor: null,
    ...changes,
  }) as SubscriptionState;

void t.test(
  'a payment is announced a quarter of its period before it is due, at most 3 days',
  async (t) => {
    const before = (periodHours: number) =>
      (due.getTime() - lookAheadAt(due, periodHours).getTime()) / 60_000;
    t.equal(before(1), 15);
    t.equal(before(24), 6 * 60);
    t.equal(before(7 * 24), 42 * 60);
    t.equal(before(288), 72 * 60);
    t.equal(before(730), 72 * 60);
    t.equal(before(8760), 72 * 60);
  },
);

void t.test(
  'each due time of an active subscription without a cancel request is announced once',
  async (t) => {
    t.ok(isToAnnounce(state()));
    t.notOk(isToAnnounce(state({ announcedDue: new Date(due) })));
    t.ok(isToAnnounce(state({ announcedDue: new Date(due.getTime() - 1000) })));
    t.notOk(isToAnnounce(state({ cancelRequestedAt: due })));
    t.notOk(isToAnnounce(state({ nextPaymentDue: null })), 'paused, or the plan ends');
    for (const status of ['past_due', 'cancelled', 'expired'] as const)
      t.notOk(isToAnnounce(state({ status })), status);
  },
);

const terms = {
  periodHours: 24,
  graceHours: null,
  collectionWindow: 0,
  billedFrom: null,
  planEndsAt: null,
  noticeHours: null,
};

void t.test('a plan with noticeHours sends one notice per listed hour, each once', async (t) => {
  const hours = [720, 168, 24];
  const yearly = { ...terms, periodHours: 8760, noticeHours: hours };
  const before = (hoursBefore: number) => new Date(due.getTime() - hoursBefore * 3_600_000);
  const sent = (announcedNotices: number) => state({ announcedDue: due, announcedNotices });
  t.same(nextRead(state(), yearly), before(720));
  t.same(nextRead(sent(1), yearly), before(168));
  t.same(nextRead(sent(2), yearly), before(24));
  t.same(nextRead(sent(3), yearly), due);
  t.notOk(isDueSoon(state(), 8760, before(721), hours));
  t.ok(isDueSoon(state(), 8760, before(720), hours));
  t.notOk(isDueSoon(sent(1), 8760, before(169), hours));
  t.ok(isDueSoon(sent(1), 8760, before(168), hours));
  t.notOk(isDueSoon(sent(3), 8760, before(1), hours));
  t.equal(noticesUntil(before(100), due, 8760, hours), 2, 'a missed one is not sent later');
  const later = new Date(due.getTime() + 3_600_000);
  t.ok(isDueSoon({ ...sent(3), nextPaymentDue: later }, 8760, before(1), hours), 'anew');
});

void t.test(
  'the keeper reads a subscription first to announce its payment, then to collect it',
  async (t) => {
    t.same(nextRead(state(), terms), new Date('2026-02-28T18:00:00Z'));
    t.same(nextRead(state({ announcedDue: due }), terms), due);
    t.same(nextRead(state({ status: 'past_due' }), terms), due);
    t.equal(nextRead(state({ nextPaymentDue: null }), terms), null);
  },
);

void t.test(
  'with a collection window, the reads to announce and to collect are at the end of a window',
  async (t) => {
    const odd = new Date('2026-03-01T00:00:01Z');
    const paid = { paidThrough: odd, nextPaymentDue: odd, periodAnchor: odd };
    const windows = { ...terms, collectionWindow: 900 };
    t.same(nextRead(state(paid), windows), new Date('2026-02-28T18:15:00Z'));
    t.same(
      nextRead(state({ ...paid, announcedDue: odd }), windows),
      new Date('2026-03-01T00:15:00Z'),
    );
  },
);
