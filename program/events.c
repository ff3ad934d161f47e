// Events: the program calls itself with the event as the instruction's data, signed by the event authority.
// Indexers find them in the inner instructions of a transaction.
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

// The receiving end. Only this program can sign for the event authority, so the data is not checked.
u64 receive_event(struct call *call) {
    REQUIRE(call->account_count == 1, ERROR_NOT_ENOUGH_ACCOUNT_KEYS);
    REQUIRE(call->accounts[0].signer, ERROR_MISSING_REQUIRED_SIGNATURE);
    REQUIRE(same_address(call->accounts[0].key, &EVENT_AUTHORITY), INVALID_EVENT_AUTHORITY);
    return OK;
}

static u64 emit(const struct call *call, const struct emitter *by, struct event_header *event, u8 kind, u64 size) {
    REQUIRE(same_address(by->event_authority->key, &EVENT_AUTHORITY), INVALID_EVENT_AUTHORITY);
    REQUIRE(same_address(by->self->key, call->program), INVALID_SELF_PROGRAM);
    event->tag = EVENT_TAG;
    event->kind = kind;
    const account_meta accounts[] = {{by->event_authority->key, 0, 1}};
    const instruction what = {call->program, accounts, COUNT(accounts), (const u8 *)event, size};
    seed seeds[EVENT_AUTHORITY_SEEDS];
    event_authority_seeds(seeds);
    return invoke(call, &what, seeds, EVENT_AUTHORITY_SEEDS);
}

u64 emit_created(const struct call *call, const struct emitter *by, const struct subscription *subscription, const address *mint) {
    struct created_event event;
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.subscriber, &subscription->delegator);
    copy_address(&event.mint, mint);
    event.created_at = call->now;
    copy_address(&event.payer, &subscription->payer);
    return emit(call, by, &event.header, EVENT_CREATED, sizeof(event));
}

static u64 emit_subscription(const struct call *call, const struct emitter *by, const struct subscription *subscription, u8 kind, i64 timestamp) {
    struct subscription_event event;
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.subscriber, &subscription->delegator);
    event.timestamp = timestamp;
    return emit(call, by, &event.header, kind, sizeof(event));
}

u64 emit_cancelled(const struct call *call, const struct emitter *by, const struct subscription *subscription) {
    return emit_subscription(call, by, subscription, EVENT_CANCELLED, subscription->expires_at);
}

u64 emit_resumed(const struct call *call, const struct emitter *by, const struct subscription *subscription) {
    return emit_subscription(call, by, subscription, EVENT_RESUMED, call->now);
}

u64 emit_plan_updated(const struct call *call, const struct emitter *by, const address *plan_key, const struct plan *plan) {
    struct plan_updated_event event;
    copy_address(&event.plan, plan_key);
    copy_address(&event.owner, &plan->owner);
    event.status = plan->status;
    event.end_ts = plan->data.end_ts;
    sol_memcpy_(event.pullers, plan->data.pullers, sizeof(event.pullers));
    return emit(call, by, &event.header, EVENT_PLAN_UPDATED, sizeof(event));
}

u64 emit_transfer(const struct call *call, const struct emitter *by, const struct transfer *transfer) {
    const struct subscription *subscription = (const struct subscription *)transfer->subscription->data;
    const struct token_account *receiver = (const struct token_account *)transfer->to->data;
    struct transfer_event event;
    copy_address(&event.subscription, transfer->subscription->key);
    copy_address(&event.plan, &subscription->delegatee);
    copy_address(&event.delegator, &subscription->delegator);
    copy_address(&event.mint, &receiver->mint);
    event.amount = transfer->amount;
    event.period_start = subscription->period_start;
    event.period_end = transfer->period_end;
    event.amount_pulled = subscription->amount_pulled;
    copy_address(&event.receiver, &receiver->owner);
    copy_address(&event.receiver_token_account, transfer->to->key);
    copy_address(&event.puller, transfer->caller->key);
    return emit(call, by, &event.header, EVENT_TRANSFER, sizeof(event));
}
