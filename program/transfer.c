// The pull: a plan's owner or one of its pullers moves tokens from a subscriber to one of the plan's destinations.
#include "program.h"

static int may_pull(const struct plan *plan, const address *caller) {
    return same_address(&plan->owner, caller) || is_puller(plan, caller);
}

// The owner of the receiving token account decides. A plan without destinations takes any.
static int may_receive(const struct plan *plan, const address *owner) {
    int listed = 0;
    for (u64 i = 0; i < MAX_DESTINATIONS; i++) {
        if (is_zero(&plan->data.destinations[i])) continue;
        if (same_address(&plan->data.destinations[i], owner)) return 1;
        listed = 1;
    }
    return !listed;
}

static u64 check_against_plan(const struct call *call, const struct plan *plan, const struct transfer_data *data) {
    const struct token_account *receiver = (const struct token_account *)call->accounts[PULL_TO].data;
    REQUIRE(same_address(&plan->data.mint, &data->mint), MINT_MISMATCH);
    REQUIRE(!has_ended(plan, call->now), PLAN_EXPIRED);
    REQUIRE(may_pull(plan, call->accounts[PULL_CALLER].key), UNAUTHORIZED);
    REQUIRE(may_receive(plan, &receiver->owner), UNAUTHORIZED_DESTINATION);
    // To the payer's own account nothing would move, yet the period would count as collected.
    REQUIRE(!same_address(call->accounts[PULL_TO].key, call->accounts[PULL_FROM].key), UNAUTHORIZED_DESTINATION);
    return OK;
}

// Counts the amount against the period, or refuses it.
static u64 take_from_period(struct subscription *subscription, u64 amount, i64 end_ts, i64 now) {
    REQUIRE(amount > 0, INVALID_AMOUNT);
    TRY(advance_period(subscription, end_ts, now));
    u64 available;
    REQUIRE(!__builtin_sub_overflow(subscription->terms.amount, subscription->amount_pulled, &available), ARITHMETIC_UNDERFLOW);
    REQUIRE(amount <= available, AMOUNT_EXCEEDS_PERIOD_LIMIT);
    subscription->amount_pulled += amount; // at most terms.amount
    return OK;
}

// The end of the period for the event, not beyond the plan's.
static u64 period_end(const struct subscription *subscription, i64 end_ts, i64 *end) {
    i64 length;
    TRY(period_seconds(&subscription->terms, &length));
    REQUIRE(!__builtin_add_overflow(subscription->period_start, length, end), ARITHMETIC_OVERFLOW);
    if (end_ts != 0 && *end > end_ts) *end = end_ts;
    return OK;
}

// Authority, mint and token accounts must all be the subscriber's and the plan's.
static u64 check_money_path(const struct call *call, const struct subscription *subscription, const struct transfer_data *data) {
    const struct authority *authority = (const struct authority *)call->accounts[PULL_AUTHORITY].data;
    const struct token_account *receiver = (const struct token_account *)call->accounts[PULL_TO].data;
    REQUIRE(same_address(call->accounts[PULL_MINT].key, &data->mint), MINT_MISMATCH);
    REQUIRE(same_address(&authority->user, &data->delegator), INVALID_DELEGATE_PDA);
    REQUIRE(same_address(&authority->mint, &data->mint), INVALID_DELEGATE_PDA);
    REQUIRE(authority->init_id == subscription->init_id, STALE_SUBSCRIPTION_AUTHORITY);
    TRY(check_users_token_account(&call->accounts[PULL_FROM], &data->delegator, &data->mint));
    REQUIRE(same_address(&receiver->mint, &data->mint), MINT_MISMATCH);
    return OK;
}

u64 transfer_subscription(struct call *call) {
    REQUIRE(call->size == sizeof(struct transfer_data), INVALID_INSTRUCTION_DATA);
    const struct transfer_data *data = (const struct transfer_data *)call->data;
    const struct plan *plan = (const struct plan *)call->accounts[PULL_PLAN].data;
    struct subscription *subscription = (struct subscription *)call->accounts[PULL_SUBSCRIPTION].data;
    i64 end_ts = plan->data.end_ts;

    TRY(check_against_plan(call, plan, data));
    // The plan's address first: two plans published in one second may have the same terms.
    REQUIRE(same_address(&subscription->delegatee, call->accounts[PULL_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(same_terms(&subscription->terms, &plan->data.terms), PLAN_TERMS_MISMATCH);
    REQUIRE(same_address(&subscription->delegator, &data->delegator), UNAUTHORIZED);
    REQUIRE(subscription->expires_at == 0 || call->now < subscription->expires_at, SUBSCRIPTION_CANCELLED);
    TRY(take_from_period(subscription, data->amount, end_ts, call->now));
    i64 end;
    TRY(period_end(subscription, end_ts, &end));
    TRY(check_money_path(call, subscription, data));
    TRY(transfer_as_delegate(call, data->amount));
    return emit_transfer(call, data->amount, end);
}
