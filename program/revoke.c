// Closing a subscription account for its rent.
#include "program.h"

// Nothing can be pulled under this subscription any more, whatever the subscriber does.
static int is_over(const struct call *call, const struct subscription *subscription) {
    const account *plan_account = &call->accounts[REVOKE_PLAN];
    if (!owned_by_us(call, plan_account)) return 1;
    const struct plan *plan = (const struct plan *)plan_account->data;
    return has_ended(plan, call->now) || !same_terms(&subscription->terms, &plan->data.terms);
}

// The subscriber may close once the cancellation took effect; whoever else paid the rent, also when it is over
// for the plan's sake. The rent goes to who paid it.
u64 revoke_delegation(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    account *authority = &call->accounts[REVOKE_AUTHORITY];
    account *closed = &call->accounts[REVOKE_SUBSCRIPTION];
    const struct subscription *subscription = (const struct subscription *)closed->data;
    REQUIRE(same_address(&subscription->delegatee, call->accounts[REVOKE_PLAN].key), SUBSCRIPTION_PLAN_MISMATCH);

    int expired = subscription->expires_at != 0 && subscription->expires_at <= call->now;
    if (same_address(&subscription->delegator, authority->key)) {
        REQUIRE(expired, SUBSCRIPTION_NOT_CANCELLED);
    } else {
        REQUIRE(same_address(&subscription->payer, authority->key), UNAUTHORIZED);
        REQUIRE(expired || is_over(call, subscription), UNAUTHORIZED);
    }
    return close_to_payer(call, closed, authority, &subscription->payer, REVOKE_RECEIVER);
}
