// The entry point: reads the input, checks the size of the data, runs the instruction.
#include "program.h"

enum {
    INIT_SUBSCRIPTION_AUTHORITY = 0,
    REVOKE_DELEGATION = 3,
    CLOSE_SUBSCRIPTION_AUTHORITY = 6,
    CREATE_PLAN = 7,
    UPDATE_PLAN = 8,
    DELETE_PLAN = 9,
    TRANSFER_SUBSCRIPTION = 10,
    SUBSCRIBE = 11,
    CANCEL_SUBSCRIPTION = 12,
    RESUME_SUBSCRIPTION = 13,
    REVOKE_SUBSCRIPTION_AUTHORITY = 14,
    REVOKE_ABANDONED_SUBSCRIPTION = 16,
    CANCEL_SUBSCRIPTION_NOW = 17,
    RECLAIM_EXCESS_RENT = 18,
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

static u8 *after_account(u8 *input) {
    struct serialized_account *from = (struct serialized_account *)input;
    if (from->duplicate_of != NOT_A_DUPLICATE) return input + sizeof(u64);
    u64 padded = (from->size + ROOM_TO_GROW + 7) & ~7UL;
    return from->data + padded + sizeof(u64); // the rent epoch comes last
}

static void read_account(u8 *input, account *to, const account *earlier) {
    struct serialized_account *from = (struct serialized_account *)input;
    if (from->duplicate_of != NOT_A_DUPLICATE) {
        *to = earlier[from->duplicate_of];
        return;
    }
    to->key = &from->key;
    to->owner = &from->owner;
    to->lamports = &from->lamports;
    to->size = from->size;
    to->data = from->data;
    to->signer = from->signer;
    to->writable = from->writable;
    to->executable = from->executable;
    to->rent_epoch = ((u64 *)after_account(input))[-1];
}

static void read_input(u8 *input, struct call *call) {
    u64 count = *(u64 *)input;
    input += sizeof(u64);
    for (u64 i = 0; i < count; i++) {
        if (i < MAX_ACCOUNTS) read_account(input, &call->accounts[i], call->accounts);
        input = after_account(input);
    }
    call->account_count = count < MAX_ACCOUNTS ? count : MAX_ACCOUNTS;
    call->size = *(u64 *)input;
    call->data = input + sizeof(u64);
    call->program = (const address *)(call->data + call->size);
}

// Instructions with data take it at its exact size. The others ignore what follows their discriminator.
#define RUN_WITH(type, instruction)                                     \
    do {                                                                \
        REQUIRE(call->size == sizeof(type), INVALID_INSTRUCTION_DATA);  \
        return instruction(call);                                       \
    } while (0)

static u64 run(struct call *call, u8 discriminator) {
    switch (discriminator) {
    case INIT_SUBSCRIPTION_AUTHORITY:
        return init_subscription_authority(call);
    case REVOKE_DELEGATION:
        return revoke_delegation(call);
    case CLOSE_SUBSCRIPTION_AUTHORITY:
        return close_subscription_authority(call);
    case CREATE_PLAN:
        RUN_WITH(struct plan_data, create_plan);
    case UPDATE_PLAN:
        RUN_WITH(struct update_plan_data, update_plan);
    case DELETE_PLAN:
        return delete_plan(call);
    case TRANSFER_SUBSCRIPTION:
        RUN_WITH(struct transfer_data, transfer_subscription);
    case SUBSCRIBE:
        RUN_WITH(struct subscribe_data, subscribe);
    case CANCEL_SUBSCRIPTION:
        return cancel_subscription(call);
    case RESUME_SUBSCRIPTION:
        RUN_WITH(i64, resume_subscription);
    case REVOKE_SUBSCRIPTION_AUTHORITY:
        return revoke_subscription_authority(call);
    case REVOKE_ABANDONED_SUBSCRIPTION:
        return revoke_abandoned_subscription(call);
    case CANCEL_SUBSCRIPTION_NOW:
        RUN_WITH(i64, cancel_subscription_now);
    case RECLAIM_EXCESS_RENT:
        return reclaim_excess_rent(call);
    case EMIT_EVENT:
        return receive_event(call);
    default:
        return INVALID_INSTRUCTION;
    }
}

u64 entrypoint(u8 *input) {
    struct call call;
    read_input(input, &call);
    REQUIRE(call.size > 0, INVALID_INSTRUCTION);
    u8 discriminator = *call.data++;
    call.size--;
    struct clock clock;
    TRY(sol_get_clock_sysvar(&clock));
    call.now = clock.unix_timestamp;
    call.slot = clock.slot;
    return run(&call, discriminator);
}
