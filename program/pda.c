// Addresses derived from seeds: those the program owns or signs for, and associated token accounts.
#include "program.h"

static const u8 AUTHORITY_SEED[] = "SubscriptionAuthority";
static const u8 PLAN_SEED[] = "plan";
static const u8 SUBSCRIPTION_SEED[] = "subscription";
static const u8 EVENT_AUTHORITY_SEED[] = "event_authority";

// The first bump that derives an address off the curve for this program's address; a constant, as the address is.
static const u8 EVENT_AUTHORITY_BUMP = 251;

static void put_seed(seed *to, const void *bytes, u64 size) {
    to->bytes = bytes;
    to->size = size;
}

void authority_seeds(seed *seeds, const address *user, const address *mint, const u8 *bump) {
    put_seed(&seeds[0], AUTHORITY_SEED, sizeof(AUTHORITY_SEED) - 1);
    put_seed(&seeds[1], user, sizeof(address));
    put_seed(&seeds[2], mint, sizeof(address));
    put_seed(&seeds[3], bump, 1);
}

void plan_seeds(seed *seeds, const address *owner, const u8 *plan_id, const u8 *bump) {
    put_seed(&seeds[0], PLAN_SEED, sizeof(PLAN_SEED) - 1);
    put_seed(&seeds[1], owner, sizeof(address));
    put_seed(&seeds[2], plan_id, sizeof(u64));
    put_seed(&seeds[3], bump, 1);
}

void subscription_seeds(seed *seeds, const address *plan, const address *subscriber, const u8 *bump) {
    put_seed(&seeds[0], SUBSCRIPTION_SEED, sizeof(SUBSCRIPTION_SEED) - 1);
    put_seed(&seeds[1], plan, sizeof(address));
    put_seed(&seeds[2], subscriber, sizeof(address));
    put_seed(&seeds[3], bump, 1);
}

void event_authority_seeds(seed *seeds) {
    put_seed(&seeds[0], EVENT_AUTHORITY_SEED, sizeof(EVENT_AUTHORITY_SEED) - 1);
    put_seed(&seeds[1], &EVENT_AUTHORITY_BUMP, 1);
}

// Whether `key` is the address that `seeds`, bump included, derive.
int derives(const address *key, const seed *seeds, u64 count, const address *program) {
    address derived;
    return sol_create_program_address(seeds, count, program, &derived) == OK && same_address(&derived, key);
}

// Finds the canonical bump of the seeds (without their last, the bump) and stores it in `bump`.
// The answer is 0 when `key` is the address they derive.
u64 find_bump(const address *key, const seed *seeds, const address *program, u8 *bump) {
    address derived;
    TRY(sol_try_find_program_address(seeds, PDA_SEEDS - 1, program, &derived, bump));
    return !same_address(&derived, key);
}

int is_associated_token_account(const account *token, const address *owner, const address *mint) {
    seed seeds[3];
    put_seed(&seeds[0], owner, sizeof(address));
    put_seed(&seeds[1], &TOKEN_PROGRAM_ID, sizeof(address));
    put_seed(&seeds[2], mint, sizeof(address));
    address derived;
    u8 bump;
    return sol_try_find_program_address(seeds, COUNT(seeds), &ASSOCIATED_TOKEN_PROGRAM_ID, &derived, &bump) == OK &&
           same_address(&derived, token->key);
}
