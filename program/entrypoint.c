// Where the runtime enters: reads the input, checks the accounts, runs the instruction.
#include "program.h"

enum {
    INIT_SUBSCRIPTION_AUTHORITY = 0,
    REVOKE_DELEGATION = 3,
    CLOSE_SUBSCRIPTION_AUTHORITY = 6,
    CREATE_PLAN_INSTRUCTION = 7,
    UPDATE_PLAN_INSTRUCTION = 8,
    DELETE_PLAN_INSTRUCTION = 9,
    TRANSFER_SUBSCRIPTION = 10,
    SUBSCRIBE = 11,
    CANCEL_SUBSCRIPTION_INSTRUCTION = 12,
    RESUME_SUBSCRIPTION_INSTRUCTION = 13,
    REVOKE_SUBSCRIPTION_AUTHORITY = 14,
    CANCEL_SUBSCRIPTION_NOW = 17,
    EMIT_EVENT = 0xe4, // the first byte of the event tag
};

// The input buffer, as the loader serializes it: the number of accounts, then each account, then the
// instruction's data with its size before it, then the address of this program.
enum { NOT_A_DUPLICATE = 0xff, ROOM_TO_GROW = 10240 };

struct serialized_account {
    u8 duplicate_of; // the position of the same account earlier in the list, or NOT_A_DUPLICATE
    u8 signer;
    u8 writable;
    u8 executable;
    u32 original_size;
    address key;
    address owner;
    u64 lamports;
    u64 size;
    u8 data[];
};

// Reads the account at `input` into `to` and returns where the next one begins.
static u8 *read_account(u8 *input, account *to, const account *earlier) {
    struct serialized_account *from = (struct serialized_account *)input;
    if (from->duplicate_of != NOT_A_DUPLICATE) {
        *to = earlier[from->duplicate_of];
        return input + sizeof(u64);
    }
    to->key = &from->key;
    to->owner = &from->owner;
    to->lamports = &from->lamports;
    to->size = from->size;
    to->data = from->data;
    to->signer = from->signer;
    to->writable = from->writable;
    to->executable = from->executable;
    u64 padded = (from->size + ROOM_TO_GROW + 7) & ~7UL;
    u8 *after = from->data + padded;
    to->rent_epoch = *(u64 *)after;
    return after + sizeof(u64);
}

static u64 read_input(u8 *input, struct call *call) {
    u64 count = *(u64 *)input;
    input += sizeof(u64);
    REQUIRE(count <= MAX_ACCOUNTS, INVALID_INSTRUCTION); // no known client comes near
    for (u64 i = 0; i < count; i++) input = read_account(input, &call->accounts[i], call->accounts);
    call->account_count = count;
    call->size = *(u64 *)input;
    call->data = input + sizeof(u64);
    call->program = (const address *)(call->data + call->size);
    return OK;
}

#define RUN(rules, instruction)                               \
    do {                                                      \
        TRY(check_accounts(call, rules, COUNT(rules)));       \
        return instruction(call);                             \
    } while (0)

static u64 run(struct call *call, u8 number) {
    switch (number) {
    case INIT_SUBSCRIPTION_AUTHORITY:
        RUN(INIT_ACCOUNTS, init_subscription_authority);
    case REVOKE_DELEGATION:
        RUN(REVOKE_ACCOUNTS, revoke_delegation);
    case CLOSE_SUBSCRIPTION_AUTHORITY:
        RUN(CLOSE_ACCOUNTS, close_subscription_authority);
    case CREATE_PLAN_INSTRUCTION:
        RUN(CREATE_PLAN_ACCOUNTS, create_plan);
    case UPDATE_PLAN_INSTRUCTION:
        RUN(UPDATE_PLAN_ACCOUNTS, update_plan);
    case DELETE_PLAN_INSTRUCTION:
        RUN(DELETE_PLAN_ACCOUNTS, delete_plan);
    case TRANSFER_SUBSCRIPTION:
        RUN(PULL_ACCOUNTS, transfer_subscription);
    case SUBSCRIBE:
        RUN(SUBSCRIBE_ACCOUNTS, subscribe);
    case CANCEL_SUBSCRIPTION_INSTRUCTION:
        RUN(CANCEL_ACCOUNTS, cancel_subscription);
    case RESUME_SUBSCRIPTION_INSTRUCTION:
        if (call->size == 0) RUN(RESUME_030_ACCOUNTS, resume_subscription);
        RUN(RESUME_ACCOUNTS, resume_subscription);
    case REVOKE_SUBSCRIPTION_AUTHORITY:
        RUN(UNAPPROVE_ACCOUNTS, revoke_subscription_authority);
    case CANCEL_SUBSCRIPTION_NOW:
        RUN(CANCEL_NOW_ACCOUNTS, cancel_subscription_now);
    case EMIT_EVENT:
        RUN(EMIT_ACCOUNTS, receive_event);
    default:
        return INVALID_INSTRUCTION;
    }
}

u64 entrypoint(u8 *input) {
    struct call call;
    TRY(read_input(input, &call));
    REQUIRE(call.size > 0, INVALID_INSTRUCTION_DATA);
    u8 number = *call.data++;
    call.size--;
    struct clock clock;
    TRY(sol_get_clock_sysvar(&clock));
    call.now = clock.unix_timestamp;
    call.slot = clock.slot;
    return run(&call, number);
}
