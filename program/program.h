// The functions that the files of the program share. One file per concern.
//
// A function that can refuse returns an error code (errors.h), or 0. The runtime reverts the whole transaction
// when an instruction is refused.
#ifndef PROGRAM_H
#define PROGRAM_H

#include "errors.h"
#include "sol.h"
#include "state.h"

enum { MAX_ACCOUNTS = 16 }; // no instruction reads more than 10; the rest is ignored

// One call of the program.
struct call {
    const address *program; // this program
    account accounts[MAX_ACCOUNTS];
    u64 account_count; // at most MAX_ACCOUNTS
    const u8 *data; // after the discriminator byte
    u64 size;
    i64 now; // unix seconds, by the chain's clock
    u64 slot;
};

// addresses.c
extern const address SYSTEM_PROGRAM_ID;
extern const address TOKEN_PROGRAM_ID;
extern const address TOKEN_2022_PROGRAM_ID;
extern const address ASSOCIATED_TOKEN_PROGRAM_ID;
extern const address EVENT_AUTHORITY;

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
int owned_by_us(const struct call *call, const account *a);
int is_given(const struct call *call, u64 position);
u64 check_signer(const account *a);
u64 check_writable(const account *a);
u64 check_owned_by_us(const struct call *call, const account *a);
u64 check_system_program(const account *a);
u64 check_token_program(const account *a);
u64 check_mint(const account *a, const account *token_program);
u64 check_token_account(const account *a, const account *token_program);
u64 check_authority(const struct call *call, const account *a);
u64 check_version(const account *a);
u64 load_authority(const account *a, const struct authority **authority);
u64 load_plan(const account *a, struct plan **plan);
u64 load_subscription(const account *a, struct subscription **subscription);
u64 load_closing_subscription(const account *a, const struct subscription **subscription);
u64 find_payer(const struct call *call, u64 position, const account *otherwise, const account **payer);

// pda.c: seeds of the four kinds of derived address. The last seed is the bump.
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
u64 rent_exempt_minimum(u64 size, u64 *lamports);
u64 invoke(const struct call *call, const instruction *what, const seed *seeds, u64 seed_count);

// The parts of a transfer_subscription.
struct transfer {
    const account *subscription;
    const account *authority;
    const account *from;
    const account *to;
    const account *caller;
    const account *mint;
    u64 amount;
    i64 period_end;
};

// token.c
u64 approve(const struct call *call, const account *token, const account *delegate, const account *owner);
u64 revoke_approval(const struct call *call, const account *token, const account *owner);
u64 check_owner_and_mint(const account *token, const address *owner, const address *mint);
u64 transfer_as_delegate(const struct call *call, const struct transfer *transfer);

// events.c
struct emitter {
    const account *event_authority;
    const account *self;
};
u64 receive_event(struct call *call);
u64 emit_created(const struct call *call, const struct emitter *by, const struct subscription *subscription, const address *mint);
u64 emit_cancelled(const struct call *call, const struct emitter *by, const struct subscription *subscription);
u64 emit_resumed(const struct call *call, const struct emitter *by, const struct subscription *subscription);
u64 emit_plan_updated(const struct call *call, const struct emitter *by, const address *plan_key, const struct plan *plan);
u64 emit_transfer(const struct call *call, const struct emitter *by, const struct transfer *transfer);

// period.c
u64 period_seconds(const struct terms *terms, i64 *seconds);
u64 advance_period(struct subscription *subscription, i64 end_ts, i64 now);
u64 end_of_current_period(const struct subscription *subscription, i64 now, i64 *end);

// plan.c
int has_ended(const struct plan *plan, i64 now);
int is_puller(const struct plan *plan, const address *key);
int same_terms(const struct terms *a, const struct terms *b);

// The instructions: authority.c, plan.c, subscription.c, revoke.c, reclaim.c, transfer.c
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
u64 revoke_abandoned_subscription(struct call *call);
u64 reclaim_excess_rent(struct call *call);
u64 transfer_subscription(struct call *call);

#endif
