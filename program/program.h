// The parts of the program and what each offers to the others. One file per concern.
//
// Every function that can refuse returns an error code (errors.h), 0 when it went well. A refused instruction
// leaves nothing behind: the runtime reverts the whole transaction.
#ifndef PROGRAM_H
#define PROGRAM_H

#include "accounts.h"
#include "errors.h"
#include "sol.h"
#include "state.h"

enum { MAX_ACCOUNTS = 16 }; // no instruction looks at more than 10

// One call of the program.
struct call {
    const address *program; // this program
    account accounts[MAX_ACCOUNTS];
    u64 account_count;
    const u8 *data; // after the byte that names the instruction
    u64 size;
    i64 now; // unix seconds, by the chain's clock
    u64 slot;
};

// addresses.c
extern const address SYSTEM_PROGRAM_ID;
extern const address TOKEN_PROGRAM_ID;
extern const address TOKEN_2022_PROGRAM_ID;
extern const address ASSOCIATED_TOKEN_PROGRAM_ID;

static inline int same(const void *a, const void *b, u64 size) {
    int difference;
    sol_memcmp_(a, b, size, &difference);
    return difference == 0;
}

static inline int same_address(const address *a, const address *b) { return same(a, b, sizeof(address)); }

// A syscall is shorter and cheaper than the 32 loads and stores of an assignment.
static inline void copy_address(address *to, const address *from) { sol_memcpy_(to, from, sizeof(address)); }

static inline int is_zero(const address *a) { return same_address(a, &SYSTEM_PROGRAM_ID); }

// accounts.c
u64 check_accounts(const struct call *call, const struct account_rule *rules, u64 count);
int owned_by_us(const struct call *call, const account *a);
int is_given(const struct call *call, u64 position);

// pda.c: seeds of the four kinds of address the program owns. The last seed is the bump.
enum { PDA_SEEDS = 4, EVENT_AUTHORITY_SEEDS = 2 };
void authority_seeds(seed *seeds, const address *user, const address *mint, const u8 *bump);
void plan_seeds(seed *seeds, const address *owner, const u8 *plan_id, const u8 *bump);
void subscription_seeds(seed *seeds, const address *plan, const address *subscriber, const u8 *bump);
void event_authority_seeds(seed *seeds);
int derives(const address *key, const seed *seeds, u64 count, const address *program);
u64 find_bump(const address *key, const seed *seeds, const address *program, u8 *bump);
int is_associated_token_account(const account *token, const address *owner, const address *mint);

// lifecycle.c
u64 create_account(const struct call *call, const account *payer, const account *created, const seed *seeds, u64 size);
u64 close_account(account *closed, account *receiver);
u64 close_to_payer(const struct call *call, account *closed, account *holder, const address *payer, u64 receiver);
u64 invoke(const struct call *call, const instruction *what, const seed *seeds, u64 seed_count);

// token.c
u64 approve(const struct call *call, const account *token, const account *delegate, const account *owner);
u64 revoke_approval(const struct call *call, const account *token, const account *owner);
u64 check_users_token_account(const account *token, const address *user, const address *mint);
u64 transfer_as_delegate(const struct call *call, u64 amount);

// events.c
u64 receive_event(const struct call *call);
u64 emit_created(const struct call *call, const struct subscription *subscription, const address *mint);
u64 emit_cancelled(const struct call *call, const struct subscription *subscription, const account *event_authority);
u64 emit_resumed(const struct call *call, const struct subscription *subscription, const account *event_authority);
u64 emit_plan_updated(const struct call *call, const struct plan *plan);
u64 emit_transfer(const struct call *call, u64 amount, i64 period_end);

// period.c
u64 period_seconds(const struct terms *terms, i64 *seconds);
u64 advance_period(struct subscription *subscription, i64 end_ts, i64 now);
u64 end_of_current_period(const struct subscription *subscription, i64 now, i64 *end);

// plan.c
int has_ended(const struct plan *plan, i64 now);
int is_puller(const struct plan *plan, const address *key);
int same_terms(const struct terms *a, const struct terms *b);

// The instructions: authority.c, plan.c, subscription.c, revoke.c, transfer.c
u64 init_subscription_authority(struct call *call);
u64 close_subscription_authority(struct call *call);
u64 revoke_subscription_authority(struct call *call);
u64 create_plan(struct call *call);
u64 update_plan(struct call *call);
u64 delete_plan(struct call *call);
u64 subscribe(struct call *call);
u64 cancel_subscription(struct call *call);
u64 cancel_subscription_now(struct call *call);
u64 resume_subscription(struct call *call);
u64 revoke_delegation(struct call *call);
u64 transfer_subscription(struct call *call);

#endif
