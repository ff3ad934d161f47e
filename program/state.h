// The accounts and the instruction data, byte for byte. All little endian, all packed.
#ifndef STATE_H
#define STATE_H

#include "sol.h"

enum { AUTHORITY_ACCOUNT = 0, PLAN_ACCOUNT = 1, SUBSCRIPTION_ACCOUNT = 4 }; // the first byte of each account
enum { HEADER_SIZE = 107 }; // what the delegation accounts have in common, a subscription up to init_id
enum { STATUS_SUNSET = 0, STATUS_ACTIVE = 1 };
enum { SUBSCRIPTION_VERSION = 1 };
enum { MAX_DESTINATIONS = 4, MAX_PULLERS = 4, METADATA_SIZE = 128 };
enum { SECONDS_PER_HOUR = 3600, MAX_PERIOD_HOURS = 8760 };

#define PACKED __attribute__((packed))

// The terms of a plan, copied into each subscription.
struct PACKED terms {
    u64 amount; // base units per period
    u64 period_hours;
    i64 created_at; // of the plan: tells a plan from one recreated at the same address
};

struct PACKED plan_data {
    u64 plan_id;
    address mint;
    struct terms terms;
    i64 end_ts; // inclusive; 0 = none
    address destinations[MAX_DESTINATIONS]; // owners of the receiving token accounts; all zero = any
    address pullers[MAX_PULLERS]; // in addition to the owner
    u8 metadata_uri[METADATA_SIZE];
};

struct PACKED plan {
    u8 discriminator;
    address owner;
    u8 bump;
    u8 status;
    struct plan_data data;
};

struct PACKED authority {
    u8 discriminator;
    address user;
    address mint;
    address payer; // gets the rent back
    u8 bump;
    i64 init_id; // the slot of its creation: tells it from one recreated at the same address
};

struct PACKED subscription {
    u8 discriminator;
    u8 version;
    u8 bump;
    address delegator; // the subscriber
    address delegatee; // the plan
    address payer; // gets the rent back
    i64 init_id; // of the authority it was opened under
    struct terms terms;
    u64 amount_pulled;
    i64 period_start;
    i64 expires_at; // the first second at which nothing is pulled any more; 0 = live
};

struct PACKED update_plan_data {
    u8 status;
    i64 end_ts;
    address pullers[MAX_PULLERS];
    u8 metadata_uri[METADATA_SIZE];
    struct PACKED {
        i64 created_at;
        i64 end_ts;
        address pullers[MAX_PULLERS];
        u8 metadata_uri[METADATA_SIZE];
    } seen; // the plan as the signer saw it
};

struct PACKED subscribe_data {
    u64 plan_id;
    u8 plan_bump;
    address mint;
    struct terms terms;
    i64 init_id;
};

struct PACKED transfer_data {
    u64 amount;
    address delegator;
    address mint;
};

// The fields of SPL Token accounts that are read here.
struct PACKED mint {
    u32 mint_authority_tag;
    address mint_authority;
    u64 supply;
    u8 decimals;
    u8 initialized;
    u32 freeze_authority_tag;
    address freeze_authority;
};

struct PACKED token_account {
    address mint;
    address owner;
    u64 amount;
    u32 delegate_tag; // 1 when a delegate is set
    address delegate;
    u8 state; // 0 uninitialized, 1 initialized, 2 frozen
    u32 native_tag;
    u64 native;
    u64 delegated_amount;
    u32 close_authority_tag;
    address close_authority;
};

_Static_assert(sizeof(struct plan_data) == 456, "plan data");
_Static_assert(sizeof(struct plan) == 491, "plan");
_Static_assert(sizeof(struct authority) == 106, "authority");
_Static_assert(sizeof(struct subscription) == 155, "subscription");
_Static_assert(sizeof(struct update_plan_data) == 537, "update_plan");
_Static_assert(sizeof(struct subscribe_data) == 73, "subscribe");
_Static_assert(sizeof(struct transfer_data) == 72, "transfer");
_Static_assert(sizeof(struct mint) == 82, "mint");
_Static_assert(sizeof(struct token_account) == 165, "token account");

#endif
