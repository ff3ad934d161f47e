// Subscriptions: opened, cancelled and resumed by the subscriber.
#include "program.h"

// The authority must be the subscriber's, for the plan's mint.
static u64 check_authority_of(const account *authority_account, const address *subscriber, const address *mint) {
    const struct authority *authority = (const struct authority *)authority_account->data;
    REQUIRE(same_address(&authority->user, subscriber), UNAUTHORIZED);
    REQUIRE(same_address(&authority->mint, mint), MINT_MISMATCH);
    return OK;
}

u64 subscribe(struct call *call) {
    REQUIRE(call->size == sizeof(struct subscribe_data), INVALID_INSTRUCTION_DATA);
    const struct subscribe_data *data = (const struct subscribe_data *)call->data;
    const account *subscriber = &call->accounts[SUBSCRIBE_SUBSCRIBER];
    const account *plan_account = &call->accounts[SUBSCRIBE_PLAN];
    const account *authority_account = &call->accounts[SUBSCRIBE_AUTHORITY];
    const account *created = &call->accounts[SUBSCRIBE_SUBSCRIPTION];
    const struct plan *plan = (const struct plan *)plan_account->data;
    const struct authority *authority = (const struct authority *)authority_account->data;

    REQUIRE(same_address(&plan->owner, call->accounts[SUBSCRIBE_MERCHANT].key), INVALID_PLAN_PDA);
    REQUIRE(plan->data.plan_id == data->plan_id && plan->bump == data->plan_bump, INVALID_PLAN_PDA);
    REQUIRE(plan->status == STATUS_ACTIVE, PLAN_SUNSET);
    REQUIRE(!has_ended(plan, call->now), PLAN_EXPIRED);
    REQUIRE(same_address(&plan->data.mint, &data->mint), PLAN_TERMS_MISMATCH);
    REQUIRE(same_terms(&plan->data.terms, &data->terms), PLAN_TERMS_MISMATCH);

    TRY(check_authority_of(authority_account, subscriber->key, &plan->data.mint));
    // I64_MIN stands for "created in this very transaction": its signer could not know the slot.
    i64 init_id = data->init_id == I64_MIN ? (i64)call->slot : data->init_id;
    REQUIRE(authority->init_id == init_id, STALE_SUBSCRIPTION_AUTHORITY);

    u8 bump;
    seed seeds[PDA_SEEDS];
    subscription_seeds(seeds, plan_account->key, subscriber->key, &bump);
    REQUIRE(find_bump(created->key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_PDA);
    REQUIRE(!owned_by_us(call, created), ALREADY_SUBSCRIBED);

    const account *payer = is_given(call, SUBSCRIBE_PAYER) ? &call->accounts[SUBSCRIBE_PAYER] : subscriber;
    TRY(create_account(call, payer, created, seeds, sizeof(struct subscription)));
    struct subscription *subscription = (struct subscription *)created->data;
    subscription->discriminator = SUBSCRIPTION_ACCOUNT;
    subscription->version = SUBSCRIPTION_VERSION;
    subscription->bump = bump;
    copy_address(&subscription->delegator, subscriber->key);
    copy_address(&subscription->delegatee, plan_account->key);
    copy_address(&subscription->payer, payer->key);
    subscription->init_id = init_id;
    subscription->terms = plan->data.terms;
    subscription->amount_pulled = 0;
    subscription->period_start = call->now;
    subscription->expires_at = 0;
    return emit_created(call, subscription, &plan->data.mint);
}

// Ends the subscription with the period that is running, paid or not, and at the latest with the plan.
// Where the plan is gone or another took its address nothing can be pulled any more, so it ends now.
u64 cancel_subscription(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    const account *plan_account = &call->accounts[CANCEL_PLAN];
    const struct plan *plan = (const struct plan *)plan_account->data;
    struct subscription *subscription = (struct subscription *)call->accounts[CANCEL_SUBSCRIPTION].data;

    REQUIRE(same_address(&subscription->delegator, call->accounts[CANCEL_SUBSCRIBER].key), UNAUTHORIZED);
    REQUIRE(subscription->expires_at == 0, SUBSCRIPTION_ALREADY_CANCELLED);
    REQUIRE(same_address(&subscription->delegatee, plan_account->key), SUBSCRIPTION_PLAN_MISMATCH);

    i64 end = call->now;
    if (owned_by_us(call, plan_account) && same_terms(&subscription->terms, &plan->data.terms)) {
        TRY(end_of_current_period(subscription, call->now, &end));
        // end_ts is the last second of the plan, expires_at the first without a pull.
        i64 plan_end = plan->data.end_ts;
        if (plan_end != 0 && end > plan_end) end = plan_end + 1;
    }
    subscription->expires_at = end;
    return emit_cancelled(call, subscription, &call->accounts[CANCEL_EVENT_AUTHORITY]);
}

// Ends the subscription at once, with both sides' signature. Naming the period they saw ties their approval to
// this subscription and not to one opened later at the same address.
u64 cancel_subscription_now(struct call *call) {
    REQUIRE(call->size == sizeof(i64), INVALID_INSTRUCTION_DATA);
    i64 period_start_seen;
    sol_memcpy_(&period_start_seen, call->data, sizeof(i64));
    const account *plan_account = &call->accounts[NOW_PLAN];
    const struct plan *plan = (const struct plan *)plan_account->data;
    struct subscription *subscription = (struct subscription *)call->accounts[NOW_SUBSCRIPTION].data;

    REQUIRE(same_address(&plan->owner, call->accounts[NOW_MERCHANT].key), NOT_PLAN_OWNER);
    REQUIRE(same_address(&subscription->delegator, call->accounts[NOW_SUBSCRIBER].key), UNAUTHORIZED);
    REQUIRE(same_address(&subscription->delegatee, plan_account->key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(subscription->period_start == period_start_seen, STALE_SUBSCRIPTION_APPROVAL);
    REQUIRE(subscription->expires_at == 0 || subscription->expires_at > call->now, SUBSCRIPTION_ALREADY_CANCELLED);

    subscription->expires_at = call->now;
    return emit_cancelled(call, subscription, &call->accounts[NOW_EVENT_AUTHORITY]);
}

// Takes a cancellation back before it takes effect. What was pulled in the period stays counted.
// Program 0.3.0 sent no data and no authority; 0.5.0 names the cancellation it means and brings the authority.
u64 resume_subscription(struct call *call) {
    int is_030 = call->size == 0;
    REQUIRE(is_030 || call->size == sizeof(i64), INVALID_INSTRUCTION_DATA);
    const account *subscriber = &call->accounts[RESUME_SUBSCRIBER];
    const account *plan_account = &call->accounts[RESUME_PLAN];
    const struct plan *plan = (const struct plan *)plan_account->data;
    struct subscription *subscription = (struct subscription *)call->accounts[RESUME_SUBSCRIPTION].data;

    REQUIRE(same_address(&subscription->delegator, subscriber->key), UNAUTHORIZED);
    REQUIRE(same_address(&subscription->delegatee, plan_account->key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(subscription->expires_at != 0, SUBSCRIPTION_NOT_CANCELLED);
    if (!is_030) {
        i64 expires_at_seen;
        sol_memcpy_(&expires_at_seen, call->data, sizeof(i64));
        REQUIRE(subscription->expires_at == expires_at_seen, STALE_SUBSCRIPTION_APPROVAL);
    }
    REQUIRE(!has_ended(plan, call->now), PLAN_EXPIRED);
    REQUIRE(same_terms(&subscription->terms, &plan->data.terms), PLAN_TERMS_MISMATCH);
    if (!is_030) {
        const account *authority_account = &call->accounts[RESUME_AUTHORITY];
        const struct authority *authority = (const struct authority *)authority_account->data;
        TRY(check_authority_of(authority_account, subscriber->key, &plan->data.mint));
        REQUIRE(authority->init_id == subscription->init_id, STALE_SUBSCRIPTION_AUTHORITY);
    }
    REQUIRE(subscription->expires_at > call->now, SUBSCRIPTION_CANCELLED);

    subscription->expires_at = 0;
    return emit_resumed(call, subscription, &call->accounts[is_030 ? RESUME_030_EVENT_AUTHORITY : RESUME_EVENT_AUTHORITY]);
}
