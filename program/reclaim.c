// Returns what an account holds above its rent to the recorded payer or owner, since the rent of Solana falls.
#include "program.h"

enum { RECLAIM_TARGET, RECLAIM_RECEIVER, RECLAIM_ACCOUNTS };

// The address that gets the rent when the account closes.
static u64 recorded_receiver(const account *target, const address **receiver) {
    REQUIRE(target->size > 0, INVALID_ACCOUNT_DATA);
    const struct authority *authority;
    const struct subscription *subscription;
    struct plan *plan;
    switch (target->data[0]) {
    case AUTHORITY_ACCOUNT:
        TRY(load_authority(target, &authority));
        *receiver = &authority->payer;
        return OK;
    case PLAN_ACCOUNT:
        TRY(load_plan(target, &plan));
        *receiver = &plan->owner;
        return OK;
    case SUBSCRIPTION_ACCOUNT:
        TRY(check_version(target));
        TRY(load_closing_subscription(target, &subscription));
        *receiver = &subscription->payer;
        return OK;
    default:
        return INVALID_ACCOUNT_DISCRIMINATOR;
    }
}

// Anyone may send this instruction: the receiver is the one on record.
u64 reclaim_excess_rent(struct call *call) {
    account *target = &call->accounts[RECLAIM_TARGET], *to = &call->accounts[RECLAIM_RECEIVER];
    const address *receiver;
    u64 minimum, total;
    REQUIRE(call->account_count == RECLAIM_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_writable(target));
    TRY(check_writable(to));
    TRY(check_owned_by_us(call, target));
    TRY(recorded_receiver(target, &receiver));
    REQUIRE(same_address(receiver, to->key), UNAUTHORIZED);
    TRY(rent_exempt_minimum(target->size, &minimum));
    REQUIRE(*target->lamports > minimum, NO_EXCESS_LAMPORTS);
    REQUIRE(!__builtin_add_overflow(*to->lamports, *target->lamports - minimum, &total), ARITHMETIC_OVERFLOW);
    *to->lamports = total;
    *target->lamports = minimum;
    return OK;
}
