// Closing a subscription account for its rent, which always goes to the recorded payer.
#include "program.h"

enum { REVOKE_BY, REVOKE_SUBSCRIPTION, REVOKE_PLAN, REVOKE_RECEIVER };

// Whether the plan itself ends the subscription: closed, past its end, or recreated with other terms.
static u64 is_over(const struct call *call, const struct subscription *subscription, int *over) {
    const account *plan_account = &call->accounts[REVOKE_PLAN];
    *over = 1;
    if (!owned_by_us(call, plan_account)) return OK;
    struct plan *plan;
    TRY(load_plan(plan_account, &plan));
    *over = has_ended(plan, call->now) || !same_terms(&subscription->terms, &plan->data.terms);
    return OK;
}

// The published program closes fixed and recurring delegations here too. This one has none.
static u64 load_revoked(const account *a, const struct subscription **subscription) {
    REQUIRE(a->size >= HEADER_SIZE, INVALID_HEADER_DATA);
    REQUIRE(a->data[0] == SUBSCRIPTION_ACCOUNT, INVALID_ACCOUNT_DISCRIMINATOR);
    return load_closing_subscription(a, subscription);
}

// The subscriber can close once the cancellation took effect, a payer other than the subscriber also
// when the plan ended the subscription.
u64 revoke_delegation(struct call *call) {
    account *a = call->accounts;
    account *by = &a[REVOKE_BY], *closed = &a[REVOKE_SUBSCRIPTION];
    const struct subscription *subscription;
    REQUIRE(call->account_count >= REVOKE_PLAN, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(by));
    TRY(check_writable(by));
    TRY(check_writable(closed));
    TRY(check_owned_by_us(call, closed));
    TRY(load_revoked(closed, &subscription));
    REQUIRE(is_given(call, REVOKE_PLAN), NOT_ENOUGH_ACCOUNT_KEYS);
    REQUIRE(same_address(&subscription->delegatee, a[REVOKE_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);

    int expired = subscription->expires_at != 0 && subscription->expires_at <= call->now;
    if (same_address(&subscription->delegator, by->key)) {
        REQUIRE(expired, SUBSCRIPTION_NOT_CANCELLED);
    } else {
        int over;
        REQUIRE(same_address(&subscription->payer, by->key), UNAUTHORIZED);
        TRY(is_over(call, subscription, &over));
        REQUIRE(expired || over, UNAUTHORIZED);
    }
    return close_to_payer(call, closed, by, &subscription->payer, REVOKE_RECEIVER);
}

enum { ABANDONED_PAYER, ABANDONED_SUBSCRIPTION, ABANDONED_AUTHORITY, ABANDONED_PLAN, ABANDONED_ACCOUNTS };

// Whether the subscription's authority is closed or was created anew. Within the slot of its creation a closed
// one could come back with the same init_id, so it counts as closed only after that slot.
static int is_abandoned(const struct call *call, const struct subscription *subscription) {
    const account *authority_account = &call->accounts[ABANDONED_AUTHORITY];
    if (!owned_by_us(call, authority_account)) return (i64)call->slot > subscription->init_id;
    const struct authority *authority;
    if (load_authority(authority_account, &authority) != OK) return 1;
    return authority->init_id != subscription->init_id;
}

// The recorded payer closes a subscription whose authority is gone. The mint comes from the plan,
// so that an authority for another mint cannot stand in.
u64 revoke_abandoned_subscription(struct call *call) {
    account *a = call->accounts;
    account *payer = &a[ABANDONED_PAYER], *closed = &a[ABANDONED_SUBSCRIPTION];
    const struct subscription *subscription;
    struct plan *plan;
    REQUIRE(call->account_count >= ABANDONED_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(payer));
    TRY(check_writable(payer));
    TRY(check_writable(closed));
    TRY(check_owned_by_us(call, closed));
    TRY(load_closing_subscription(closed, &subscription));
    REQUIRE(same_address(&subscription->payer, payer->key), UNAUTHORIZED);
    REQUIRE(same_address(&subscription->delegatee, a[ABANDONED_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);
    REQUIRE(owned_by_us(call, &a[ABANDONED_PLAN]), PLAN_CLOSED);
    TRY(load_plan(&a[ABANDONED_PLAN], &plan));

    u8 bump;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, &subscription->delegator, &plan->data.mint, &bump);
    REQUIRE(find_bump(a[ABANDONED_AUTHORITY].key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    REQUIRE(is_abandoned(call, subscription), UNAUTHORIZED);
    return close_account(closed, payer);
}
