// The pull: a plan's owner or one of its pullers moves tokens from a subscriber to one of the plan's destinations.
#include "program.h"

enum {
    PULL_SUBSCRIPTION,
    PULL_PLAN,
    PULL_AUTHORITY,
    PULL_FROM,
    PULL_TO,
    PULL_CALLER,
    PULL_MINT,
    PULL_TOKEN_PROGRAM,
    PULL_EVENT_AUTHORITY,
    PULL_SELF,
    PULL_ACCOUNTS,
};

static u64 check_pull_accounts(const struct call *call) {
    const account *a = call->accounts;
    REQUIRE(call->account_count >= PULL_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_owned_by_us(call, &a[PULL_SUBSCRIPTION]));
    TRY(check_writable(&a[PULL_SUBSCRIPTION]));
    REQUIRE(owned_by_us(call, &a[PULL_PLAN]), PLAN_CLOSED);
    TRY(check_authority(call, &a[PULL_AUTHORITY]));
    TRY(check_writable(&a[PULL_FROM]));
    TRY(check_writable(&a[PULL_TO]));
    TRY(check_signer(&a[PULL_CALLER]));
    TRY(check_token_program(&a[PULL_TOKEN_PROGRAM]));
    TRY(check_mint(&a[PULL_MINT], &a[PULL_TOKEN_PROGRAM]));
    TRY(check_token_account(&a[PULL_FROM], &a[PULL_TOKEN_PROGRAM]));
    return check_token_account(&a[PULL_TO], &a[PULL_TOKEN_PROGRAM]);
}

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
    return OK;
}

// The terms come before the plan's address, as in the published program: a subscription of another plan is refused
// with 519, or with 505 when both plans have the same terms.
static u64 load_pulled(const struct call *call, const struct plan *plan, struct subscription **subscription) {
    const account *a = call->accounts;
    const struct transfer_data *data = (const struct transfer_data *)call->data;
    TRY(load_subscription(&a[PULL_SUBSCRIPTION], subscription));
    REQUIRE(a[PULL_SUBSCRIPTION].size == sizeof(struct subscription), INVALID_ACCOUNT_DATA);
    REQUIRE(same_terms(&(*subscription)->terms, &plan->data.terms), PLAN_TERMS_MISMATCH);
    REQUIRE(same_address(&(*subscription)->delegatee, a[PULL_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(same_address(&(*subscription)->delegator, &data->delegator), UNAUTHORIZED);
    i64 expires_at = (*subscription)->expires_at;
    REQUIRE(expires_at == 0 || call->now < expires_at, SUBSCRIPTION_CANCELLED);
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

// Authority, mint and token accounts must be the subscriber's and the plan's.
static u64 check_money_path(const struct call *call, const struct subscription *subscription, const struct transfer_data *data) {
    const account *a = call->accounts;
    const struct authority *authority = (const struct authority *)a[PULL_AUTHORITY].data;
    const struct token_account *receiver = (const struct token_account *)a[PULL_TO].data;
    REQUIRE(same_address(a[PULL_MINT].key, &data->mint), MINT_MISMATCH);
    REQUIRE(same_address(&authority->user, &data->delegator), INVALID_DELEGATE_PDA);
    REQUIRE(same_address(&authority->mint, &data->mint), INVALID_DELEGATE_PDA);
    REQUIRE(authority->init_id == subscription->init_id, STALE_SUBSCRIPTION_AUTHORITY);
    TRY(check_owner_and_mint(&a[PULL_FROM], &data->delegator, &data->mint));
    REQUIRE(is_associated_token_account(&a[PULL_FROM], &data->delegator, &data->mint), INVALID_ASSOCIATED_TOKEN_ACCOUNT);
    REQUIRE(same_address(&receiver->mint, &data->mint), MINT_MISMATCH);
    return OK;
}

u64 transfer_subscription(struct call *call) {
    const account *a = call->accounts;
    const struct transfer_data *data = (const struct transfer_data *)call->data;
    struct plan *plan;
    struct subscription *subscription;
    TRY(check_pull_accounts(call));
    TRY(load_plan(&a[PULL_PLAN], &plan));
    i64 end_ts = plan->data.end_ts;
    TRY(check_against_plan(call, plan, data));
    TRY(load_pulled(call, plan, &subscription));
    TRY(take_from_period(subscription, data->amount, end_ts, call->now));
    TRY(check_money_path(call, subscription, data));
    struct transfer transfer = {
        .subscription = &a[PULL_SUBSCRIPTION],
        .authority = &a[PULL_AUTHORITY],
        .from = &a[PULL_FROM],
        .to = &a[PULL_TO],
        .caller = &a[PULL_CALLER],
        .mint = &a[PULL_MINT],
        .amount = data->amount,
    };
    TRY(transfer_as_delegate(call, &transfer));
    TRY(period_end(subscription, end_ts, &transfer.period_end));
    const struct emitter by = {&a[PULL_EVENT_AUTHORITY], &a[PULL_SELF]};
    return emit_transfer(call, &by, &transfer);
}
