// Calls of the SPL Token program.
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

// Makes `delegate` the delegate of the owner's token account without a limit; the subscriptions have the limits.
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

u64 check_owner_and_mint(const account *token, const address *owner, const address *mint) {
    const struct token_account *contents = (const struct token_account *)token->data;
    REQUIRE(same_address(&contents->owner, owner), UNAUTHORIZED);
    REQUIRE(same_address(&contents->mint, mint), MINT_MISMATCH);
    return OK;
}

// Moves the amount from a subscriber's token account, signed by the authority. The token program itself checks
// balance, allowance, freezing and the delegate, with its own errors.
u64 transfer_as_delegate(const struct call *call, const struct transfer *transfer) {
    const struct authority *authority = (const struct authority *)transfer->authority->data;
    const struct mint *mint = (const struct mint *)transfer->mint->data;
    const struct token_transfer_checked data = {TOKEN_TRANSFER_CHECKED, transfer->amount, mint->decimals};
    const account_meta accounts[] = {
        {transfer->from->key, 1, 0},
        {transfer->mint->key, 0, 0},
        {transfer->to->key, 1, 0},
        {transfer->authority->key, 0, 1},
    };
    const instruction what = {&TOKEN_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&data, sizeof(data)};
    seed seeds[PDA_SEEDS];
    authority_seeds(seeds, &authority->user, &authority->mint, &authority->bump);
    return invoke(call, &what, seeds, PDA_SEEDS);
}
