// The subscription authority: the address that a wallet makes the delegate of its token account.
#include "program.h"

enum { INIT_USER, INIT_AUTHORITY, INIT_MINT, INIT_TOKENS, INIT_SYSTEM, INIT_TOKEN_PROGRAM, INIT_PAYER };

// Creates the wallet's authority for a mint and approves it. When the authority exists it only approves again,
// which repairs a revoked approval; the recorded payer stays.
u64 init_subscription_authority(struct call *call) {
    const account *a = call->accounts;
    REQUIRE(call->account_count >= INIT_PAYER, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[INIT_USER]));
    TRY(check_writable(&a[INIT_USER]));
    TRY(check_writable(&a[INIT_AUTHORITY]));
    TRY(check_writable(&a[INIT_TOKENS]));
    TRY(check_mint(&a[INIT_MINT], &a[INIT_TOKEN_PROGRAM]));
    TRY(check_token_account(&a[INIT_TOKENS], &a[INIT_TOKEN_PROGRAM]));
    TRY(check_token_program(&a[INIT_TOKEN_PROGRAM]));
    TRY(check_system_program(&a[INIT_SYSTEM]));
    const account *payer;
    TRY(find_payer(call, INIT_PAYER, &a[INIT_USER], &payer));

    const address *user = a[INIT_USER].key, *mint = a[INIT_MINT].key;
    u8 bump;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, user, mint, &bump);
    REQUIRE(find_bump(a[INIT_AUTHORITY].key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_AUTHORITY_PDA);

    if (a[INIT_AUTHORITY].size == 0) {
        TRY(create_account(call, payer, &a[INIT_AUTHORITY], seeds, sizeof(struct authority)));
        struct authority *authority = (struct authority *)a[INIT_AUTHORITY].data;
        authority->discriminator = AUTHORITY_ACCOUNT;
        copy_address(&authority->user, user);
        copy_address(&authority->mint, mint);
        copy_address(&authority->payer, payer->key);
        authority->bump = bump;
        authority->init_id = (i64)call->slot;
    }
    TRY(check_owner_and_mint(&a[INIT_TOKENS], user, mint));
    REQUIRE(is_associated_token_account(&a[INIT_TOKENS], user, mint), INVALID_ASSOCIATED_TOKEN_ACCOUNT);
    return approve(call, &a[INIT_TOKENS], &a[INIT_AUTHORITY], &a[INIT_USER]);
}

// Closes an authority of this program. The rent goes to the recorded payer.
static u64 close_authority(const struct call *call, account *user, account *closed, u64 receiver) {
    const struct authority *authority;
    TRY(load_authority(closed, &authority));
    REQUIRE(same_address(&authority->user, user->key), UNAUTHORIZED);
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, &authority->user, &authority->mint, &authority->bump);
    REQUIRE(derives(closed->key, seeds, PDA_SEEDS, call->program), INVALID_SUBSCRIPTION_AUTHORITY_PDA);
    return close_to_payer(call, closed, user, &authority->payer, receiver);
}

enum { CLOSE_USER, CLOSE_AUTHORITY, CLOSE_RECEIVER };

// Closes the authority and leaves the token approval. Subscriptions opened under it stay dead when the wallet
// creates it again, because the new one has another init_id.
u64 close_subscription_authority(struct call *call) {
    account *a = call->accounts;
    REQUIRE(call->account_count >= CLOSE_RECEIVER, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[CLOSE_USER]));
    TRY(check_writable(&a[CLOSE_USER]));
    TRY(check_writable(&a[CLOSE_AUTHORITY]));
    TRY(check_owned_by_us(call, &a[CLOSE_AUTHORITY]));
    return close_authority(call, &a[CLOSE_USER], &a[CLOSE_AUTHORITY], CLOSE_RECEIVER);
}

enum { REVOKE_USER, REVOKE_TOKENS, REVOKE_MINT, REVOKE_TOKEN_PROGRAM, REVOKE_AUTHORITY, REVOKE_RECEIVER };

// Revokes the approval, unless the delegate is another, and closes the authority when it is open.
u64 revoke_subscription_authority(struct call *call) {
    account *a = call->accounts;
    REQUIRE(call->account_count >= REVOKE_RECEIVER, NOT_ENOUGH_ACCOUNT_KEYS);
    TRY(check_signer(&a[REVOKE_USER]));
    TRY(check_writable(&a[REVOKE_USER]));
    TRY(check_writable(&a[REVOKE_TOKENS]));
    TRY(check_token_program(&a[REVOKE_TOKEN_PROGRAM]));
    TRY(check_mint(&a[REVOKE_MINT], &a[REVOKE_TOKEN_PROGRAM]));
    TRY(check_token_account(&a[REVOKE_TOKENS], &a[REVOKE_TOKEN_PROGRAM]));
    TRY(check_writable(&a[REVOKE_AUTHORITY]));

    const address *user = a[REVOKE_USER].key, *mint = a[REVOKE_MINT].key;
    TRY(check_owner_and_mint(&a[REVOKE_TOKENS], user, mint));
    REQUIRE(is_associated_token_account(&a[REVOKE_TOKENS], user, mint), INVALID_ASSOCIATED_TOKEN_ACCOUNT);
    u8 bump;
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, user, mint, &bump);
    REQUIRE(find_bump(a[REVOKE_AUTHORITY].key, seeds, call->program, &bump) == OK, INVALID_SUBSCRIPTION_AUTHORITY_PDA);

    const struct token_account *tokens = (const struct token_account *)a[REVOKE_TOKENS].data;
    if (tokens->delegate_tag != 0 && same_address(&tokens->delegate, a[REVOKE_AUTHORITY].key))
        TRY(revoke_approval(call, &a[REVOKE_TOKENS], &a[REVOKE_USER]));

    // The close comes last: the runtime refuses a CPI after the program itself moved lamports.
    if (!owned_by_us(call, &a[REVOKE_AUTHORITY])) return OK;
    return close_authority(call, &a[REVOKE_USER], &a[REVOKE_AUTHORITY], REVOKE_RECEIVER);
}
