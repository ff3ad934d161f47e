// Billing periods. All times are unix seconds; a period is [start, start + length).
#include "program.h"

// The target has no signed division, so differences are taken and divided unsigned, after the order is known.
static u64 between(i64 earlier, i64 later) { return (u64)later - (u64)earlier; }

// Stores the length of a period. Terms outside what create_plan accepts are refused, so that the product is safe.
u64 period_seconds(const struct terms *terms, i64 *seconds) {
    REQUIRE(terms->period_hours >= 1 && terms->period_hours <= MAX_PERIOD_HOURS, INVALID_PERIOD_LENGTH);
    *seconds = (i64)(terms->period_hours * SECONDS_PER_HOUR);
    return OK;
}

// Moves the subscription to the period that `now` is in. Periods without a pull are skipped, not collected later.
// end_ts itself still belongs to the last period, so no period begins there. The caller has checked now <= end_ts.
u64 advance_period(struct subscription *subscription, i64 end_ts, i64 now) {
    i64 length;
    TRY(period_seconds(&subscription->terms, &length));
    i64 start = subscription->period_start;
    REQUIRE(now >= start, DELEGATION_NOT_STARTED);
    i64 last = end_ts != 0 && now >= end_ts ? end_ts - 1 : now;
    if (last < start || between(start, last) < (u64)length) return OK;
    subscription->period_start = start + (i64)(between(start, last) / (u64)length * (u64)length);
    subscription->amount_pulled = 0;
    return OK;
}

// The end, by the clock, of the period that `now` is in, whether or not anything was pulled in it.
u64 end_of_current_period(const struct subscription *subscription, i64 now, i64 *end) {
    i64 length;
    TRY(period_seconds(&subscription->terms, &length));
    i64 start = subscription->period_start;
    u64 whole = now > start ? between(start, now) / (u64)length * (u64)length : 0;
    REQUIRE(!__builtin_add_overflow(start + (i64)whole, length, end), ARITHMETIC_OVERFLOW);
    return OK;
}
