// Plans: what a merchant offers.
#include "program.h"

// A pull is still allowed at end_ts itself.
int has_ended(const struct plan *plan, i64 now) { return plan->data.end_ts != 0 && now > plan->data.end_ts; }

int same_terms(const struct terms *a, const struct terms *b) { return same(a, b, sizeof(struct terms)); }

int is_puller(const struct plan *plan, const address *key) {
    if (is_zero(key)) return 0; // an unused entry
    for (u64 i = 0; i < MAX_PULLERS; i++) {
        if (same_address(&plan->data.pullers[i], key)) return 1;
    }
    return 0;
}

// An end must leave room for a whole period.
static u64 check_end(i64 end_ts, const struct terms *terms, i64 now) {
    i64 length;
    TRY(period_seconds(terms, &length));
    REQUIRE(end_ts == 0 || end_ts >= now + length, INVALID_END_TS);
    return OK;
}

u64 create_plan(struct call *call) {
    REQUIRE(call->size == sizeof(struct plan_data), INVALID_INSTRUCTION_DATA);
    const struct plan_data *data = (const struct plan_data *)call->data;
    const account *merchant = &call->accounts[CREATE_MERCHANT];
    const account *created = &call->accounts[CREATE_PLAN];

    REQUIRE(data->terms.amount > 0, INVALID_AMOUNT);
    TRY(check_end(data->end_ts, &data->terms, call->now));
    REQUIRE(same_address(&data->mint, call->accounts[CREATE_MINT].key), MINT_MISMATCH);

    u8 bump;
    seed seeds[PDA_SEEDS];
    plan_seeds(seeds, merchant->key, (const u8 *)&data->plan_id, &bump);
    REQUIRE(find_bump(created->key, seeds, call->program, &bump) == OK, INVALID_PLAN_PDA);
    REQUIRE(!owned_by_us(call, created), PLAN_ALREADY_EXISTS);

    const account *payer = is_given(call, CREATE_PAYER) ? &call->accounts[CREATE_PAYER] : merchant;
    TRY(create_account(call, payer, created, seeds, sizeof(struct plan)));
    struct plan *plan = (struct plan *)created->data;
    plan->discriminator = PLAN_ACCOUNT;
    copy_address(&plan->owner, merchant->key);
    plan->bump = bump;
    plan->status = STATUS_ACTIVE;
    sol_memcpy_(&plan->data, data, sizeof(plan->data));
    plan->data.terms.created_at = call->now;
    return OK;
}

// The signer's view of the plan must be the live one, so that an old signed update cannot undo a later one.
static u64 check_expectation(const struct plan *plan, const struct update_plan_expectation *seen) {
    REQUIRE(plan->data.terms.created_at == seen->created_at, STALE_PLAN_APPROVAL);
    REQUIRE(plan->data.end_ts == seen->end_ts, STALE_PLAN_APPROVAL);
    REQUIRE(same(plan->data.pullers, seen->pullers, sizeof(seen->pullers)), STALE_PLAN_APPROVAL);
    REQUIRE(same(plan->data.metadata_uri, seen->metadata_uri, METADATA_SIZE), STALE_PLAN_APPROVAL);
    return OK;
}

// After sunset a plan only loses pullers, so that a compromised one can be shut out. Nothing else changes.
static u64 check_sunset_update(const struct plan *plan, const struct update_plan_data *data) {
    REQUIRE(data->status == STATUS_SUNSET && data->end_ts == plan->data.end_ts, PLAN_IMMUTABLE_AFTER_SUNSET);
    REQUIRE(same(data->metadata_uri, plan->data.metadata_uri, METADATA_SIZE), PLAN_IMMUTABLE_AFTER_SUNSET);
    for (u64 i = 0; i < MAX_PULLERS; i++) {
        const address *puller = &data->pullers[i];
        REQUIRE(is_zero(puller) || is_puller(plan, puller), PLAN_IMMUTABLE_AFTER_SUNSET);
    }
    return OK;
}

static u64 check_active_update(const struct plan *plan, const struct update_plan_data *data, i64 now) {
    REQUIRE(data->status == STATUS_SUNSET || data->status == STATUS_ACTIVE, INVALID_PLAN_STATUS);
    REQUIRE(data->status == STATUS_ACTIVE || data->end_ts != 0, SUNSET_REQUIRES_END_TS);
    REQUIRE(!has_ended(plan, now), PLAN_EXPIRED);
    i64 old_end = plan->data.end_ts;
    REQUIRE(old_end == 0 || (data->end_ts != 0 && data->end_ts <= old_end), PLAN_END_TS_CANNOT_EXTEND);
    // An end that stays may be less than a period away by now.
    return data->end_ts == old_end ? OK : check_end(data->end_ts, &plan->data.terms, now);
}

// Sunset, an earlier end, other pullers, other metadata. Amount, period, mint and destinations never change.
u64 update_plan(struct call *call) {
    const u64 size = sizeof(struct update_plan_data), size_with_expectation = size + sizeof(struct update_plan_expectation);
    REQUIRE(call->size == size || call->size == size_with_expectation, INVALID_INSTRUCTION_DATA);
    int emits = is_given(call, UPDATE_EVENT_AUTHORITY);
    REQUIRE(!emits || is_given(call, UPDATE_SELF), NOT_ENOUGH_ACCOUNT_KEYS);
    REQUIRE(emits || call->size == size, NOT_ENOUGH_ACCOUNT_KEYS);

    const struct update_plan_data *data = (const struct update_plan_data *)call->data;
    struct plan *plan = (struct plan *)call->accounts[UPDATE_PLAN].data;
    REQUIRE(same_address(&plan->owner, call->accounts[UPDATE_OWNER].key), NOT_PLAN_OWNER);
    if (call->size == size_with_expectation) {
        TRY(check_expectation(plan, (const struct update_plan_expectation *)(call->data + size)));
    }
    TRY(plan->status == STATUS_SUNSET ? check_sunset_update(plan, data) : check_active_update(plan, data, call->now));

    plan->status = data->status;
    plan->data.end_ts = data->end_ts;
    sol_memcpy_(plan->data.pullers, data->pullers, sizeof(data->pullers));
    sol_memcpy_(plan->data.metadata_uri, data->metadata_uri, METADATA_SIZE);
    return emits ? emit_plan_updated(call, plan) : OK;
}

u64 delete_plan(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    account *owner = &call->accounts[DELETE_OWNER];
    const struct plan *plan = (const struct plan *)call->accounts[DELETE_PLAN].data;
    REQUIRE(same_address(&plan->owner, owner->key), NOT_PLAN_OWNER);
    REQUIRE(has_ended(plan, call->now), PLAN_NOT_EXPIRED);
    return close_account(&call->accounts[DELETE_PLAN], owner);
}
