// The SPL Token program, called.
#include "program.h"

enum { TOKEN_APPROVE = 4, TOKEN_REVOKE = 5, TOKEN_TRANSFER_CHECKED = 12 };

struct PACKED token_approve {
    u8 number;
    u64 amount;
};

struct PACKED token_transfer_checked {
    u8 number;
    u64 amount;
    u8 decimals;
};

// Makes `delegate` the delegate of the owner's token account, without a limit: the limits are the subscriptions'.
u64 approve(const struct call *call, const account *token, const account *delegate, const account *owner) {
    const struct token_approve data = {TOKEN_APPROVE, ~0UL};
    const account_meta accounts[] = {{token->key, 1, 0}, {delegate->key, 0, 0}, {owner->key, 0, 1}};
    const instruction what = {&TOKEN_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&data, sizeof(data)};
    return invoke(call, &what, 0, 0);
}

u64 revoke_approval(const struct call *call, const account *token, const account *owner) {
    const u8 data[] = {TOKEN_REVOKE};
    const account_meta accounts[] = {{token->key, 1, 0}, {owner->key, 0, 1}};
    const instruction what = {&TOKEN_PROGRAM_ID, accounts, COUNT(accounts), data, sizeof(data)};
    return invoke(call, &what, 0, 0);
}

// The token account must be the user's own associated one for the mint.
u64 check_users_token_account(const account *token, const address *user, const address *mint) {
    const struct token_account *contents = (const struct token_account *)token->data;
    REQUIRE(same_address(&contents->owner, user), UNAUTHORIZED);
    REQUIRE(same_address(&contents->mint, mint), MINT_MISMATCH);
    REQUIRE(is_associated_token_account(token, user, mint), INVALID_ASSOCIATED_TOKEN_ACCOUNT);
    return OK;
}

// Moves `amount` between the two token accounts of a transfer_subscription, signed by its authority.
// The token program itself checks balance, allowance, freezing and the delegate, with its own errors.
u64 transfer_as_delegate(const struct call *call, u64 amount) {
    const account *authority_account = &call->accounts[PULL_AUTHORITY];
    const struct authority *authority = (const struct authority *)authority_account->data;
    const struct mint *mint = (const struct mint *)call->accounts[PULL_MINT].data;
    const struct token_transfer_checked data = {TOKEN_TRANSFER_CHECKED, amount, mint->decimals};
    const account_meta accounts[] = {
        {call->accounts[PULL_FROM].key, 1, 0},
        {call->accounts[PULL_MINT].key, 0, 0},
        {call->accounts[PULL_TO].key, 1, 0},
        {authority_account->key, 0, 1},
    };
    const instruction what = {&TOKEN_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&data, sizeof(data)};
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, &authority->user, &authority->mint, &authority->bump);
    return invoke(call, &what, seeds, PDA_SEEDS);
}
