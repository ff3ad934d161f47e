// The subscription authority: the address a wallet makes the delegate of its token account.
#include "program.h"

// Creates the wallet's authority for a mint, once, and approves it. Run again it only approves again:
// that is how a revoked approval is repaired, and the payer on record stays.
u64 init_subscription_authority(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    const account *user = &call->accounts[INIT_USER];
    const account *mint = &call->accounts[INIT_MINT];
    const account *tokens = &call->accounts[INIT_TOKENS];
    const account *created = &call->accounts[INIT_AUTHORITY];

    u8 bump;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, user->key, mint->key, &bump);
    REQUIRE(find_bump(created->key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    TRY(check_users_token_account(tokens, user->key, mint->key));

    if (!owned_by_us(call, created)) {
        const account *payer = is_given(call, INIT_PAYER) ? &call->accounts[INIT_PAYER] : user;
        TRY(create_account(call, payer, created, seeds, sizeof(struct authority)));
        struct authority *authority = (struct authority *)created->data;
        authority->discriminator = AUTHORITY_ACCOUNT;
        copy_address(&authority->user, user->key);
        copy_address(&authority->mint, mint->key);
        copy_address(&authority->payer, payer->key);
        authority->bump = bump;
        authority->init_id = (i64)call->slot;
    }
    return approve(call, tokens, created, user);
}

// Closes the authority and leaves the token approval. Nothing can be pulled after it; subscriptions opened
// under it stay dead even when it is created again, because their init_id is another.
u64 close_subscription_authority(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    account *user = &call->accounts[CLOSE_USER];
    account *closed = &call->accounts[CLOSE_AUTHORITY];
    const struct authority *authority = (const struct authority *)closed->data;
    REQUIRE(same_address(&authority->user, user->key), UNAUTHORIZED);
    return close_to_payer(call, closed, user, &authority->payer, CLOSE_RECEIVER);
}

// Takes the approval back and closes the authority, when it is still open.
u64 revoke_subscription_authority(struct call *call) {
    REQUIRE(call->size == 0, INVALID_INSTRUCTION_DATA);
    account *user = &call->accounts[UNAPPROVE_USER];
    const account *tokens = &call->accounts[UNAPPROVE_TOKENS];
    const account *mint = &call->accounts[UNAPPROVE_MINT];
    account *closed = &call->accounts[UNAPPROVE_AUTHORITY];

    u8 bump;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, user->key, mint->key, &bump);
    REQUIRE(find_bump(closed->key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    TRY(check_users_token_account(tokens, user->key, mint->key));

    // Another delegate is not ours to take away.
    const struct token_account *contents = (const struct token_account *)tokens->data;
    if (contents->delegate_tag == 1 && same_address(&contents->delegate, closed->key)) TRY(revoke_approval(call, tokens, user));

    // Last: a CPI after lamports were moved would find the balances in disorder.
    if (!owned_by_us(call, closed)) return OK;
    const struct authority *authority = (const struct authority *)closed->data;
    return close_to_payer(call, closed, user, &authority->payer, UNAPPROVE_RECEIVER);
}
