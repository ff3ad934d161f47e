// Plans: the terms that a merchant publishes.
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

// An end must be at least one period away.
static u64 check_end(i64 end_ts, const struct terms *terms, i64 now) {
    i64 length;
    TRY(period_seconds(terms, &length));
    REQUIRE(end_ts == 0 || end_ts >= now + length, INVALID_END_TS);
    return OK;
}

enum { CREATE_MERCHANT, CREATE_PLAN, CREATE_MINT, CREATE_SYSTEM, CREATE_TOKEN_PROGRAM, CREATE_PAYER };

static u64 check_create_accounts(const struct call *call, const account **payer) {
    const account *a = call->accounts;
    REQUIRE(call->account_count >= CREATE_PAYER, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[CREATE_MERCHANT]));
    TRY(check_writable(&a[CREATE_MERCHANT]));
    TRY(check_writable(&a[CREATE_PLAN]));
    TRY(check_mint(&a[CREATE_MINT], &a[CREATE_TOKEN_PROGRAM]));
    TRY(check_token_program(&a[CREATE_TOKEN_PROGRAM]));
    TRY(check_system_program(&a[CREATE_SYSTEM]));
    return find_payer(call, CREATE_PAYER, &a[CREATE_MERCHANT], payer);
}

u64 create_plan(struct call *call) {
    const struct plan_data *data = (const struct plan_data *)call->data;
    const account *merchant = &call->accounts[CREATE_MERCHANT];
    const account *created = &call->accounts[CREATE_PLAN];
    const account *payer;
    REQUIRE(data->terms.amount > 0, INVALID_AMOUNT);
    TRY(check_end(data->end_ts, &data->terms, call->now));
    TRY(check_create_accounts(call, &payer));
    REQUIRE(same_address(&data->mint, call->accounts[CREATE_MINT].key), MINT_MISMATCH);
    REQUIRE(created->size == 0, PLAN_ALREADY_EXISTS);

    u8 bump;
    seed seeds[PDA_SEEDS];
    plan_seeds(seeds, merchant->key, (const u8 *)&data->plan_id, &bump);
    REQUIRE(find_bump(created->key, seeds, call->program, &bump) == OK, INVALID_PLAN_PDA);
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

// The plan must be as its signer saw it, so that an old signed update cannot undo a later one.
static u64 check_seen(const struct plan *plan, const struct update_plan_data *data) {
    REQUIRE(plan->data.terms.created_at == data->seen.created_at, STALE_PLAN_APPROVAL);
    REQUIRE(plan->data.end_ts == data->seen.end_ts, STALE_PLAN_APPROVAL);
    REQUIRE(same(plan->data.pullers, data->seen.pullers, sizeof(data->seen.pullers)), STALE_PLAN_APPROVAL);
    REQUIRE(same(plan->data.metadata_uri, data->seen.metadata_uri, METADATA_SIZE), STALE_PLAN_APPROVAL);
    return OK;
}

// After sunset the owner can only remove pullers, which shuts out a compromised one.
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
    REQUIRE(data->status != STATUS_SUNSET || data->end_ts != 0, SUNSET_REQUIRES_END_TS);
    REQUIRE(data->status == STATUS_SUNSET || data->status == STATUS_ACTIVE, INVALID_PLAN_STATUS);
    REQUIRE(!has_ended(plan, now), PLAN_EXPIRED);
    i64 old_end = plan->data.end_ts;
    REQUIRE(old_end == 0 || (data->end_ts != 0 && data->end_ts <= old_end), PLAN_END_TS_CANNOT_EXTEND);
    // An end that stays may be less than a period away.
    return data->end_ts == old_end ? OK : check_end(data->end_ts, &plan->data.terms, now);
}

enum { UPDATE_OWNER, UPDATE_PLAN, UPDATE_EVENT_AUTHORITY, UPDATE_SELF, UPDATE_ACCOUNTS };

// Sunset, an earlier end, other pullers, other metadata. Amount, period, mint and destinations never change.
u64 update_plan(struct call *call) {
    const account *a = call->accounts;
    const struct update_plan_data *data = (const struct update_plan_data *)call->data;
    struct plan *plan;
    REQUIRE(call->account_count == UPDATE_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[UPDATE_OWNER]));
    TRY(check_writable(&a[UPDATE_PLAN]));
    TRY(check_owned_by_us(call, &a[UPDATE_PLAN]));
    TRY(load_plan(&a[UPDATE_PLAN], &plan));
    REQUIRE(same_address(&plan->owner, a[UPDATE_OWNER].key), NOT_PLAN_OWNER);
    TRY(check_seen(plan, data));
    TRY(plan->status == STATUS_SUNSET ? check_sunset_update(plan, data) : check_active_update(plan, data, call->now));

    plan->status = data->status;
    plan->data.end_ts = data->end_ts;
    sol_memcpy_(plan->data.pullers, data->pullers, sizeof(data->pullers));
    sol_memcpy_(plan->data.metadata_uri, data->metadata_uri, METADATA_SIZE);
    const struct emitter by = {&a[UPDATE_EVENT_AUTHORITY], &a[UPDATE_SELF]};
    return emit_plan_updated(call, &by, a[UPDATE_PLAN].key, plan);
}

enum { DELETE_OWNER, DELETE_PLAN, DELETE_ACCOUNTS };

u64 delete_plan(struct call *call) {
    account *a = call->accounts;
    struct plan *plan;
    REQUIRE(call->account_count == DELETE_ACCOUNTS, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[DELETE_OWNER]));
    TRY(check_writable(&a[DELETE_OWNER]));
    TRY(check_writable(&a[DELETE_PLAN]));
    TRY(check_owned_by_us(call, &a[DELETE_PLAN]));
    TRY(load_plan(&a[DELETE_PLAN], &plan));
    REQUIRE(same_address(&plan->owner, a[DELETE_OWNER].key), NOT_PLAN_OWNER);
    REQUIRE(has_ended(plan, call->now), PLAN_NOT_EXPIRED);
    return close_account(&a[DELETE_PLAN], &a[DELETE_OWNER]);
}
