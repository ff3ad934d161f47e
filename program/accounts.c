// Checks of single accounts. Each instruction calls them in the order of the published program,
// so that both refuse a wrong transaction with the same code.
#include "program.h"

int owned_by_us(const struct call *call, const account *a) { return same_address(a->owner, call->program); }

int is_given(const struct call *call, u64 position) { return position < call->account_count; }

u64 check_signer(const account *a) { return a->signer ? OK : NOT_SIGNER; }

u64 check_writable(const account *a) { return a->writable ? OK : ACCOUNT_NOT_WRITABLE; }

u64 check_owned_by_us(const struct call *call, const account *a) {
    return owned_by_us(call, a) ? OK : ERROR_INVALID_ACCOUNT_OWNER;
}

u64 check_system_program(const account *a) { return is_zero(a->key) ? OK : NOT_SYSTEM_PROGRAM; }

u64 check_token_program(const account *a) {
    return same_address(a->key, &TOKEN_PROGRAM_ID) ? OK : INVALID_TOKEN_PROGRAM;
}

// The account must belong to SPL Token and to the token program that the instruction names.
// The published program takes Token-2022 too; this one refuses it.
static u64 check_token_data(const account *a, u64 size, u64 error) {
    REQUIRE(!same_address(a->owner, &TOKEN_2022_PROGRAM_ID), INVALID_TOKEN_PROGRAM);
    REQUIRE(same_address(a->owner, &TOKEN_PROGRAM_ID) && a->size == size, error);
    return OK;
}

u64 check_mint(const account *a, const account *token_program) {
    TRY(check_token_data(a, sizeof(struct mint), INVALID_MINT));
    REQUIRE(((const struct mint *)a->data)->initialized == 1, INVALID_MINT);
    return check_token_program(token_program);
}

u64 check_token_account(const account *a, const account *token_program) {
    TRY(check_token_data(a, sizeof(struct token_account), INVALID_TOKEN_ACCOUNT));
    return check_token_program(token_program);
}

static u64 check_contents(const account *a, u64 size, u8 discriminator) {
    REQUIRE(a->size == size, INVALID_ACCOUNT_DATA);
    REQUIRE(a->data[0] == discriminator, INVALID_ACCOUNT_DISCRIMINATOR);
    return OK;
}

u64 load_authority(const account *a, const struct authority **authority) {
    *authority = (const struct authority *)a->data;
    return check_contents(a, sizeof(struct authority), AUTHORITY_ACCOUNT);
}

u64 check_authority(const struct call *call, const account *a) {
    const struct authority *authority;
    REQUIRE(owned_by_us(call, a), INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    return load_authority(a, &authority);
}

u64 load_plan(const account *a, struct plan **plan) {
    *plan = (struct plan *)a->data;
    return check_contents(a, sizeof(struct plan), PLAN_ACCOUNT);
}

u64 check_version(const account *a) {
    const struct subscription *subscription = (const struct subscription *)a->data;
    REQUIRE(a->size >= 2, INVALID_ACCOUNT_DATA); // the discriminator and the version
    REQUIRE(subscription->discriminator == SUBSCRIPTION_ACCOUNT, INVALID_ACCOUNT_DISCRIMINATOR);
    REQUIRE(subscription->version <= SUBSCRIPTION_VERSION, DELEGATION_VERSION_MISMATCH);
    REQUIRE(subscription->version == SUBSCRIPTION_VERSION, MIGRATION_REQUIRED);
    return OK;
}

// A later program may append fields, so a longer account is read. Only a pull asks for the exact size.
u64 load_subscription(const account *a, struct subscription **subscription) {
    TRY(check_version(a));
    REQUIRE(a->size >= sizeof(struct subscription), INVALID_ACCOUNT_DATA);
    *subscription = (struct subscription *)a->data;
    return OK;
}

// For instructions that return the rent: they take every version.
u64 load_closing_subscription(const account *a, const struct subscription **subscription) {
    REQUIRE(a->size >= sizeof(struct subscription), INVALID_ACCOUNT_DATA);
    REQUIRE(a->data[0] == SUBSCRIPTION_ACCOUNT, INVALID_ACCOUNT_DISCRIMINATOR);
    *subscription = (const struct subscription *)a->data;
    return OK;
}

// The account at `position` pays the rent when it is given, `otherwise` pays when it is not.
u64 find_payer(const struct call *call, u64 position, const account *otherwise, const account **payer) {
    *payer = otherwise;
    if (!is_given(call, position)) return OK;
    *payer = &call->accounts[position];
    TRY(check_signer(*payer));
    return check_writable(*payer);
}
