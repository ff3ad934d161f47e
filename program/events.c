// Events: the program calls itself with the event as the instruction's data, signed by the event authority,
// which no one else can sign for. They are then found in the inner instructions of a transaction.
#include "program.h"

#define EVENT_TAG 0x1d9acb512ea545e4UL // sha256("anchor:event"), its first 8 bytes

enum { EVENT_CREATED = 0, EVENT_CANCELLED = 1, EVENT_TRANSFER = 2, EVENT_RESUMED = 5, EVENT_PLAN_UPDATED = 6 };

struct PACKED event_header {
    u64 tag;
    u8 kind;
};

struct PACKED created_event {
    struct event_header header;
    address plan;
    address subscriber;
    address mint;
    i64 created_at;
    address payer;
};

// Cancelled with expires_at, resumed with the time of the resumption.
struct PACKED subscription_event {
    struct event_header header;
    address plan;
    address subscriber;
    i64 timestamp;
};

struct PACKED transfer_event {
    struct event_header header;
    address subscription;
    address plan;
    address delegator;
    address mint;
    u64 amount;
    i64 period_start;
    i64 period_end;
    u64 amount_pulled;
    address receiver;
    address receiver_token_account;
    address puller;
};

struct PACKED plan_updated_event {
    struct event_header header;
    address plan;
    address owner;
    u8 status;
    i64 end_ts;
    address pullers[MAX_PULLERS];
};

static u64 size_of_event(u8 kind) {
    switch (kind) {
    case EVENT_CREATED:
        return sizeof(struct created_event);
    case EVENT_CANCELLED:
    case EVENT_RESUMED:
        return sizeof(struct subscription_event);
    case EVENT_TRANSFER:
        return sizeof(struct transfer_event);
    case EVENT_PLAN_UPDATED:
        return sizeof(struct plan_updated_event);
    default:
        return 0;
    }
}

// The receiving end. entrypoint.c has checked that the event authority signed; data begins after the first byte.
u64 receive_event(const struct call *call) {
    const struct event_header *header = (const struct event_header *)(call->data - 1);
    REQUIRE(call->size + 1 >= sizeof(*header), INVALID_EVENT_DATA);
    REQUIRE(header->tag == EVENT_TAG, INVALID_EVENT_TAG);
    u64 size = size_of_event(header->kind);
    REQUIRE(size != 0, INVALID_EVENT_DISCRIMINATOR);
    REQUIRE(call->size + 1 == size, INVALID_EVENT_DATA);
    return OK;
}

static u64 emit(const struct call *call, const account *event_authority, struct event_header *event, u8 kind) {
    event->tag = EVENT_TAG;
    event->kind = kind;
    const account_meta accounts[] = {{event_authority->key, 0, 1}};
    const instruction what = {call->program, accounts, COUNT(accounts), (const u8 *)event, size_of_event(kind)};
    seed seeds[EVENT_AUTHORITY_SEEDS];
    event_authority_seeds(seeds);
    return invoke(call, &what, seeds, EVENT_AUTHORITY_SEEDS);
}

u64 emit_created(const struct call *call, const struct subscription *subscription, const address *mint) {
    struct created_event event;
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.subscriber, &subscription->delegator);
    copy_address(&event.mint, mint);
    event.created_at = call->now;
    copy_address(&event.payer, &subscription->payer);
    return emit(call, &call->accounts[SUBSCRIBE_EVENT_AUTHORITY], &event.header, EVENT_CREATED);
}

u64 emit_cancelled(const struct call *call, const struct subscription *subscription, const account *event_authority) {
    struct subscription_event event;
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.subscriber, &subscription->delegator);
    event.timestamp = subscription->expires_at;
    return emit(call, event_authority, &event.header, EVENT_CANCELLED);
}

u64 emit_resumed(const struct call *call, const struct subscription *subscription, const account *event_authority) {
    struct subscription_event event;
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.subscriber, &subscription->delegator);
    event.timestamp = call->now;
    return emit(call, event_authority, &event.header, EVENT_RESUMED);
}

u64 emit_plan_updated(const struct call *call, const struct plan *plan) {
    struct plan_updated_event event;
    copy_address(&event.plan, call->accounts[UPDATE_PLAN].key);
    copy_address(&event.owner, &plan->owner);
    event.status = plan->status;
    event.end_ts = plan->data.end_ts;
    sol_memcpy_(event.pullers, plan->data.pullers, sizeof(event.pullers));
    return emit(call, &call->accounts[UPDATE_EVENT_AUTHORITY], &event.header, EVENT_PLAN_UPDATED);
}

u64 emit_transfer(const struct call *call, u64 amount, i64 period_end) {
    const struct subscription *subscription = (const struct subscription *)call->accounts[PULL_SUBSCRIPTION].data;
    const struct token_account *receiver = (const struct token_account *)call->accounts[PULL_TO].data;
    struct transfer_event event;
    copy_address(&event.subscription, call->accounts[PULL_SUBSCRIPTION].key);
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.delegator, &subscription->delegator);
    copy_address(&event.mint, &receiver->mint);
    event.amount = amount;
    event.period_start = subscription->period_start;
    event.period_end = period_end;
    event.amount_pulled = subscription->amount_pulled;
    copy_address(&event.receiver, &receiver->owner);
    copy_address(&event.receiver_token_account, call->accounts[PULL_TO].key);
    copy_address(&event.puller, call->accounts[PULL_CALLER].key);
    return emit(call, &call->accounts[PULL_EVENT_AUTHORITY], &event.header, EVENT_TRANSFER);
}
