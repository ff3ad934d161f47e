// Creates and closes accounts of the program.
#include "program.h"

// `seeds` derive the address that signs; none when all signers signed the transaction.
u64 invoke(const struct call *call, const instruction *what, const seed *seeds, u64 seed_count) {
    const signer signers[] = {{seeds, seed_count}};
    return sol_invoke_signed_c(what, call->accounts, call->account_count, signers, seed_count > 0);
}

// System program instructions, by their number.
enum { SYSTEM_ASSIGN = 1, SYSTEM_TRANSFER = 2, SYSTEM_ALLOCATE = 8 };

struct PACKED system_amount {
    u32 number;
    u64 amount;
};

struct PACKED system_assign {
    u32 number;
    address owner;
};

u64 rent_exempt_minimum(u64 size, u64 *lamports) {
    struct rent rent;
    TRY(sol_get_rent_sysvar(&rent));
    // The threshold is a double and this target has no floating point; clusters use 1.0 and 2.0 only.
    const u64 ONE = 0x3ff0000000000000, TWO = 0x4000000000000000;
    REQUIRE(rent.exemption_threshold == ONE || rent.exemption_threshold == TWO, ERROR_UNSUPPORTED_SYSVAR);
    const u64 account_overhead = 128;
    *lamports = (account_overhead + size) * rent.lamports_per_byte * (rent.exemption_threshold == TWO ? 2 : 1);
    return OK;
}

// Creates a zeroed account of this program at a derived address, by transfer, allocate and assign:
// the System program's one-step creation refuses an address that already has lamports.
u64 create_account(const struct call *call, const account *payer, const account *created, const seed *seeds, u64 size) {
    u64 minimum;
    TRY(rent_exempt_minimum(size, &minimum));
    if (*created->lamports < minimum) {
        const struct system_amount data = {SYSTEM_TRANSFER, minimum - *created->lamports};
        const account_meta accounts[] = {{payer->key, 1, 1}, {created->key, 1, 0}};
        const instruction transfer = {&SYSTEM_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&data, sizeof(data)};
        TRY(invoke(call, &transfer, 0, 0));
    }
    const account_meta accounts[] = {{created->key, 1, 1}};
    const struct system_amount space = {SYSTEM_ALLOCATE, size};
    const instruction allocate = {&SYSTEM_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&space, sizeof(space)};
    TRY(invoke(call, &allocate, seeds, PDA_SEEDS));
    struct system_assign owner;
    owner.number = SYSTEM_ASSIGN;
    copy_address(&owner.owner, call->program);
    const instruction assign = {&SYSTEM_PROGRAM_ID, accounts, COUNT(accounts), (const u8 *)&owner, sizeof(owner)};
    return invoke(call, &assign, seeds, PDA_SEEDS);
}

// Gives all lamports to `receiver`, empties the account and assigns it to the System program,
// so that the address can be used again within the same transaction.
u64 close_account(account *closed, account *receiver) {
    u64 total;
    REQUIRE(!__builtin_add_overflow(*receiver->lamports, *closed->lamports, &total), ARITHMETIC_OVERFLOW);
    *receiver->lamports = total;
    *closed->lamports = 0;
    ((u64 *)closed->data)[-1] = 0; // the input buffer keeps the size before the data
    copy_address(closed->owner, &SYSTEM_PROGRAM_ID);
    return OK;
}

// Closes an account to its recorded payer: to `holder`, a signer, when that is the payer,
// otherwise to the account at position `receiver`, which must be the payer.
u64 close_to_payer(const struct call *call, account *closed, account *holder, const address *payer, u64 receiver) {
    if (same_address(payer, holder->key)) return close_account(closed, holder);
    REQUIRE(is_given(call, receiver), NOT_ENOUGH_ACCOUNT_KEYS);
    account to = call->accounts[receiver];
    REQUIRE(to.writable, ACCOUNT_NOT_WRITABLE);
    REQUIRE(same_address(payer, to.key), UNAUTHORIZED);
    return close_account(closed, &to);
}
