// The interface of the Solana runtime: the types it passes in and its syscalls.
// Layouts are the runtime's C ABI (agave, `sdk/sbf/c/inc/sol`); they may not be reordered.
#ifndef SOL_H
#define SOL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

#define I64_MIN (-0x7fffffffffffffffL - 1)
#define I64_MAX 0x7fffffffffffffffL
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct {
    u8 bytes[32];
} address;

// One account as the entry point hands it on and as a CPI takes it. The pointers lead into the
// input buffer, which the runtime commits.
typedef struct {
    address *key;
    u64 *lamports;
    u64 size;
    u8 *data;
    address *owner;
    u64 rent_epoch;
    u8 signer;
    u8 writable;
    u8 executable;
} account;

typedef struct {
    const address *key;
    u8 writable;
    u8 signer;
} account_meta;

typedef struct {
    const address *program;
    const account_meta *accounts;
    u64 account_count;
    const u8 *data;
    u64 size;
} instruction;

typedef struct {
    const void *bytes;
    u64 size;
} seed;

typedef struct {
    const seed *seeds;
    u64 count;
} signer;

struct clock {
    u64 slot;
    i64 epoch_start_timestamp;
    u64 epoch;
    u64 leader_schedule_epoch;
    i64 unix_timestamp;
};

struct rent {
    u64 lamports_per_byte;
    u64 exemption_threshold; // the bits of a double: this target has no floating point
    u8 burn_percent;
};

void sol_memcpy_(void *to, const void *from, u64 size);
void sol_memcmp_(const void *a, const void *b, u64 size, int *result);
u64 sol_get_clock_sysvar(struct clock *clock);
u64 sol_get_rent_sysvar(struct rent *rent);
u64 sol_create_program_address(const seed *seeds, u64 count, const address *program, address *result);
u64 sol_try_find_program_address(const seed *seeds, u64 count, const address *program, address *result, u8 *bump);
u64 sol_invoke_signed_c(const instruction *call, const account *accounts, int account_count, const signer *signers, int signer_count);

#endif
