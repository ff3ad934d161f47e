// What the account tables of accounts.h demand, put to the accounts of a call.
#include "program.h"

int owned_by_us(const struct call *call, const account *a) { return same_address(a->owner, call->program); }

int is_given(const struct call *call, u64 position) { return position < call->account_count; }

static u64 check_token_owner(const account *a, u64 size, u64 error) {
    REQUIRE(!same_address(a->owner, &TOKEN_2022_PROGRAM_ID), INVALID_TOKEN_PROGRAM);
    REQUIRE(same_address(a->owner, &TOKEN_PROGRAM_ID) && a->size == size, error);
    return OK;
}

static u64 check_event_authority(const struct call *call, const account *a) {
    seed seeds[EVENT_AUTHORITY_SEEDS];
    event_authority_seeds(seeds);
    REQUIRE(derives(a->key, seeds, EVENT_AUTHORITY_SEEDS, call->program), INVALID_EVENT_AUTHORITY);
    return OK;
}

static u64 check_contents(const account *a, u64 size, u8 discriminator) {
    REQUIRE(a->size == size, INVALID_ACCOUNT_DATA);
    REQUIRE(a->data[0] == discriminator, INVALID_ACCOUNT_DISCRIMINATOR);
    return OK;
}

static u64 check_authority(const struct call *call, const account *a) {
    TRY(check_contents(a, sizeof(struct authority), AUTHORITY_ACCOUNT));
    const struct authority *authority = (const struct authority *)a->data;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, &authority->user, &authority->mint, &authority->bump);
    REQUIRE(derives(a->key, seeds, PDA_SEEDS, call->program), INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    return OK;
}

static u64 check_plan(const struct call *call, const account *a) {
    TRY(check_contents(a, sizeof(struct plan), PLAN_ACCOUNT));
    const struct plan *plan = (const struct plan *)a->data;
    seed seeds[PDA_SEEDS];
    plan_seeds(seeds, &plan->owner, (const u8 *)&plan->data.plan_id, &plan->bump);
    REQUIRE(derives(a->key, seeds, PDA_SEEDS, call->program), INVALID_PLAN_PDA);
    return OK;
}

static u64 check_subscription(const struct call *call, const account *a, u8 flags) {
    if (flags & ANY_VERSION) {
        // A later version only appends, so that whoever paid the rent can always get it back.
        REQUIRE(a->size >= sizeof(struct subscription), INVALID_ACCOUNT_DATA);
        REQUIRE(a->data[0] == SUBSCRIPTION_ACCOUNT, INVALID_ACCOUNT_DISCRIMINATOR);
    } else {
        TRY(check_contents(a, sizeof(struct subscription), SUBSCRIPTION_ACCOUNT));
    }
    const struct subscription *subscription = (const struct subscription *)a->data;
    if (!(flags & ANY_VERSION)) {
        REQUIRE(subscription->version <= SUBSCRIPTION_VERSION, DELEGATION_VERSION_MISMATCH);
        REQUIRE(subscription->version == SUBSCRIPTION_VERSION, MIGRATION_REQUIRED);
    }
    seed seeds[PDA_SEEDS];
    subscription_seeds(seeds, &subscription->delegatee, &subscription->delegator, &subscription->bump);
    REQUIRE(derives(a->key, seeds, PDA_SEEDS, call->program), INVALID_SUBSCRIPTION_PDA);
    return OK;
}

static u64 check_kind(const struct call *call, const account *a, const struct account_rule *rule) {
    switch (rule->kind) {
    case SYSTEM_PROGRAM:
        REQUIRE(same_address(a->key, &SYSTEM_PROGRAM_ID), NOT_SYSTEM_PROGRAM);
        return OK;
    case TOKEN_PROGRAM:
        REQUIRE(same_address(a->key, &TOKEN_PROGRAM_ID), INVALID_TOKEN_PROGRAM);
        return OK;
    case MINT:
        TRY(check_token_owner(a, sizeof(struct mint), INVALID_MINT));
        REQUIRE(((const struct mint *)a->data)->initialized, INVALID_MINT);
        return OK;
    case TOKEN_ACCOUNT:
        return check_token_owner(a, sizeof(struct token_account), INVALID_TOKEN_ACCOUNT);
    case EVENT_AUTHORITY:
        return check_event_authority(call, a);
    case SELF_PROGRAM:
        REQUIRE(same_address(a->key, call->program), INVALID_SELF_PROGRAM);
        return OK;
    case AUTHORITY:
    case PLAN:
    case SUBSCRIPTION:
        break;
    default:
        return OK;
    }
    if (!owned_by_us(call, a)) return rule->flags & MAY_BE_CLOSED ? OK : rule->when_not_ours;
    if (rule->kind == AUTHORITY) return check_authority(call, a);
    if (rule->kind == PLAN) return check_plan(call, a);
    return check_subscription(call, a, rule->flags);
}

// Puts `rules` to the accounts of the call, in order. Accounts beyond the table are ignored.
u64 check_accounts(const struct call *call, const struct account_rule *rules, u64 count) {
    for (u64 i = 0; i < count; i++) {
        const struct account_rule *rule = &rules[i];
        const account *a = &call->accounts[i];
        if (!is_given(call, i)) {
            REQUIRE(rule->flags & OPTIONAL, NOT_ENOUGH_ACCOUNT_KEYS);
            continue;
        }
        REQUIRE(!(rule->flags & SIGNER) || a->signer, NOT_SIGNER);
        REQUIRE(!(rule->flags & WRITABLE) || a->writable, ACCOUNT_NOT_WRITABLE);
        TRY(check_kind(call, a, rule));
    }
    return OK;
}
