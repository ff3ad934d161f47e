// Subscriptions: opened, cancelled and resumed by the subscriber.
#include "program.h"

// The authority must be the subscriber's, for the plan's mint.
static u64 check_authority_of(const struct authority *authority, const address *subscriber, const address *mint) {
    REQUIRE(same_address(&authority->user, subscriber), UNAUTHORIZED);
    REQUIRE(same_address(&authority->mint, mint), MINT_MISMATCH);
    return OK;
}

enum {
    SUBSCRIBE_SUBSCRIBER,
    SUBSCRIBE_MERCHANT,
    SUBSCRIBE_PLAN,
    SUBSCRIBE_SUBSCRIPTION,
    SUBSCRIBE_AUTHORITY,
    SUBSCRIBE_SYSTEM,
    SUBSCRIBE_EVENT_AUTHORITY,
    SUBSCRIBE_SELF,
    SUBSCRIBE_PAYER,
};

static u64 check_subscribe_accounts(const struct call *call, const account **payer) {
    const account *a = call->accounts;
    REQUIRE(call->account_count >= SUBSCRIBE_PAYER, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[SUBSCRIBE_SUBSCRIBER]));
    TRY(check_writable(&a[SUBSCRIBE_SUBSCRIBER]));
    TRY(check_owned_by_us(call, &a[SUBSCRIBE_PLAN]));
    TRY(check_writable(&a[SUBSCRIBE_SUBSCRIPTION]));
    TRY(check_authority(call, &a[SUBSCRIBE_AUTHORITY]));
    TRY(check_system_program(&a[SUBSCRIBE_SYSTEM]));
    return find_payer(call, SUBSCRIBE_PAYER, &a[SUBSCRIBE_SUBSCRIBER], payer);
}

// The plan must be the one that the data names, open, and have the terms that the subscriber agreed to.
static u64 check_plan_and_terms(const struct call *call, const struct subscribe_data *data, struct plan **plan) {
    const account *a = call->accounts;
    seed seeds[PDA_SEEDS];
    plan_seeds(seeds, a[SUBSCRIBE_MERCHANT].key, (const u8 *)&data->plan_id, &data->plan_bump);
    REQUIRE(derives(a[SUBSCRIBE_PLAN].key, seeds, PDA_SEEDS, call->program), INVALID_PLAN_PDA);
    TRY(load_plan(&a[SUBSCRIBE_PLAN], plan));
    REQUIRE((*plan)->status == STATUS_ACTIVE, PLAN_SUNSET);
    REQUIRE(!has_ended(*plan, call->now), PLAN_EXPIRED);
    REQUIRE(same_address(&(*plan)->data.mint, &data->mint), PLAN_TERMS_MISMATCH);
    REQUIRE(same_terms(&(*plan)->data.terms, &data->terms), PLAN_TERMS_MISMATCH);
    return OK;
}

u64 subscribe(struct call *call) {
    const struct subscribe_data *data = (const struct subscribe_data *)call->data;
    const account *a = call->accounts;
    const account *payer, *created = &a[SUBSCRIBE_SUBSCRIPTION];
    const address *subscriber = a[SUBSCRIBE_SUBSCRIBER].key;
    struct plan *plan;
    const struct authority *authority;
    TRY(check_subscribe_accounts(call, &payer));
    TRY(check_plan_and_terms(call, data, &plan));
    TRY(load_authority(&a[SUBSCRIBE_AUTHORITY], &authority));
    TRY(check_authority_of(authority, subscriber, &plan->data.mint));
    // I64_MIN means an authority created in this slot, whose number the signer could not know.
    i64 init_id = data->init_id == I64_MIN ? (i64)call->slot : data->init_id;
    REQUIRE(authority->init_id == init_id, STALE_SUBSCRIPTION_AUTHORITY);

    u8 bump;
    seed seeds[PDA_SEEDS];
    subscription_seeds(seeds, a[SUBSCRIBE_PLAN].key, subscriber, &bump);
    REQUIRE(find_bump(created->key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_PDA);
    REQUIRE(created->size == 0, ALREADY_SUBSCRIBED);
    TRY(create_account(call, payer, created, seeds, sizeof(struct subscription)));
    struct subscription *subscription = (struct subscription *)created->data;
    subscription->discriminator = SUBSCRIPTION_ACCOUNT;
    subscription->version = SUBSCRIPTION_VERSION;
    subscription->bump = bump;
    copy_address(&subscription->delegator, subscriber);
    copy_address(&subscription->delegatee, a[SUBSCRIBE_PLAN].key);
    copy_address(&subscription->payer, payer->key);
    subscription->init_id = init_id;
    subscription->terms = plan->data.terms;
    subscription->amount_pulled = 0;
    subscription->period_start = call->now;
    subscription->expires_at = 0;
    const struct emitter by = {&a[SUBSCRIBE_EVENT_AUTHORITY], &a[SUBSCRIBE_SELF]};
    return emit_created(call, &by, subscription, &plan->data.mint);
}

enum { CANCEL_SUBSCRIBER, CANCEL_PLAN, CANCEL_SUBSCRIPTION, CANCEL_EVENT_AUTHORITY, CANCEL_SELF, CANCEL_ACCOUNTS };

// When the cancellation takes effect: at the end of the current period, at the latest with the plan.
// A closed or recreated plan cannot be pulled under, so the cancellation then takes effect now.
static u64 end_of_cancelled(const struct call *call, const struct subscription *subscription, i64 *end) {
    const account *plan_account = &call->accounts[CANCEL_PLAN];
    *end = call->now;
    if (!owned_by_us(call, plan_account)) return OK;
    struct plan *plan;
    TRY(load_plan(plan_account, &plan));
    if (!same_terms(&subscription->terms, &plan->data.terms)) return OK;
    TRY(end_of_current_period(subscription, call->now, end));
    // end_ts is the last second of the plan, expires_at the first second without a pull.
    i64 plan_end = plan->data.end_ts;
    if (plan_end != 0 && *end > plan_end) *end = plan_end + 1;
    return OK;
}

u64 cancel_subscription(struct call *call) {
    const account *a = call->accounts;
    struct subscription *subscription;
    REQUIRE(call->account_count == CANCEL_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[CANCEL_SUBSCRIBER]));
    TRY(check_owned_by_us(call, &a[CANCEL_SUBSCRIPTION]));
    TRY(check_writable(&a[CANCEL_SUBSCRIPTION]));
    TRY(load_subscription(&a[CANCEL_SUBSCRIPTION], &subscription));
    REQUIRE(same_address(&subscription->delegator, a[CANCEL_SUBSCRIBER].key), UNAUTHORIZED);
    REQUIRE(subscription->expires_at == 0, SUBSCRIPTION_ALREADY_CANCELLED);
    REQUIRE(same_address(&subscription->delegatee, a[CANCEL_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);

    i64 end;
    TRY(end_of_cancelled(call, subscription, &end));
    subscription->expires_at = end;
    const struct emitter by = {&a[CANCEL_EVENT_AUTHORITY], &a[CANCEL_SELF]};
    return emit_cancelled(call, &by, subscription);
}

static i64 seen_time(const struct call *call) {
    i64 time;
    sol_memcpy_(&time, call->data, sizeof(time));
    return time;
}

enum { NOW_SUBSCRIBER, NOW_MERCHANT, NOW_PLAN, NOW_SUBSCRIPTION, NOW_EVENT_AUTHORITY, NOW_SELF, NOW_ACCOUNTS };

// Ends the subscription at once, with both sides' signature. The data names the period that both saw,
// which ties their approval to this subscription and not to a later one at the same address.
u64 cancel_subscription_now(struct call *call) {
    const account *a = call->accounts;
    struct plan *plan;
    struct subscription *subscription;
    REQUIRE(call->account_count == NOW_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[NOW_SUBSCRIBER]));
    TRY(check_signer(&a[NOW_MERCHANT]));
    TRY(check_owned_by_us(call, &a[NOW_PLAN]));
    TRY(check_owned_by_us(call, &a[NOW_SUBSCRIPTION]));
    TRY(check_writable(&a[NOW_SUBSCRIPTION]));
    TRY(load_plan(&a[NOW_PLAN], &plan));
    REQUIRE(same_address(&plan->owner, a[NOW_MERCHANT].key), NOT_PLAN_OWNER);
    TRY(load_subscription(&a[NOW_SUBSCRIPTION], &subscription));
    REQUIRE(same_address(&subscription->delegator, a[NOW_SUBSCRIBER].key), UNAUTHORIZED);
    REQUIRE(same_address(&subscription->delegatee, a[NOW_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(subscription->period_start == seen_time(call), STALE_SUBSCRIPTION_APPROVAL);
    REQUIRE(subscription->expires_at == 0 || subscription->expires_at > call->now, SUBSCRIPTION_ALREADY_CANCELLED);

    subscription->expires_at = call->now;
    const struct emitter by = {&a[NOW_EVENT_AUTHORITY], &a[NOW_SELF]};
    return emit_cancelled(call, &by, subscription);
}

enum { RESUME_SUBSCRIBER, RESUME_PLAN, RESUME_SUBSCRIPTION, RESUME_AUTHORITY, RESUME_EVENT_AUTHORITY, RESUME_SELF, RESUME_ACCOUNTS };

// The plan must still be the one subscribed to, and the authority the one it was opened under.
static u64 check_resumable(const struct call *call, const struct subscription *subscription) {
    const account *a = call->accounts;
    struct plan *plan;
    const struct authority *authority;
    REQUIRE(owned_by_us(call, &a[RESUME_PLAN]), PLAN_CLOSED);
    TRY(load_plan(&a[RESUME_PLAN], &plan));
    REQUIRE(!has_ended(plan, call->now), PLAN_EXPIRED);
    REQUIRE(same_terms(&subscription->terms, &plan->data.terms), PLAN_TERMS_MISMATCH);
    TRY(load_authority(&a[RESUME_AUTHORITY], &authority));
    TRY(check_authority_of(authority, a[RESUME_SUBSCRIBER].key, &plan->data.mint));
    REQUIRE(authority->init_id == subscription->init_id, STALE_SUBSCRIPTION_AUTHORITY);
    return OK;
}

// Takes a cancellation back before it takes effect. The amount pulled in the period stays counted.
// The data names the end that the signer saw, so that an old signed resume cannot undo a later cancellation.
u64 resume_subscription(struct call *call) {
    const account *a = call->accounts;
    struct subscription *subscription;
    REQUIRE(call->account_count == RESUME_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[RESUME_SUBSCRIBER]));
    TRY(check_owned_by_us(call, &a[RESUME_SUBSCRIPTION]));
    TRY(check_writable(&a[RESUME_SUBSCRIPTION]));
    TRY(check_authority(call, &a[RESUME_AUTHORITY]));
    TRY(load_subscription(&a[RESUME_SUBSCRIPTION], &subscription));
    REQUIRE(same_address(&subscription->delegator, a[RESUME_SUBSCRIBER].key), UNAUTHORIZED);
    REQUIRE(same_address(&subscription->delegatee, a[RESUME_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(subscription->expires_at != 0, SUBSCRIPTION_NOT_CANCELLED);
    REQUIRE(subscription->expires_at == seen_time(call), STALE_SUBSCRIPTION_APPROVAL);
    TRY(check_resumable(call, subscription));
    REQUIRE(subscription->expires_at > call->now, SUBSCRIPTION_CANCELLED);

    subscription->expires_at = 0;
    const struct emitter by = {&a[RESUME_EVENT_AUTHORITY], &a[RESUME_SELF]};
    return emit_resumed(call, &by, subscription);
}
