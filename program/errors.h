// Error codes of the program: a client sees them as `Custom: n`. Names and numbers are the published ones.
#ifndef ERRORS_H
#define ERRORS_H

// Codes above 32 bits are the runtime's own errors, named in the answers of RPC.
#define ERROR_MISSING_REQUIRED_SIGNATURE (8UL << 32)
#define ERROR_NOT_ENOUGH_ACCOUNT_KEYS (11UL << 32)
#define ERROR_UNSUPPORTED_SYSVAR (17UL << 32)
#define ERROR_INVALID_ACCOUNT_OWNER (23UL << 32)

enum {
    OK = 0,
    NOT_SIGNER = 100,
    INVALID_SUBSCRIPTION_AUTHORITY_PDA = 103,
    NOT_SYSTEM_PROGRAM = 104,
    INVALID_TOKEN_PROGRAM = 105,
    INVALID_ASSOCIATED_TOKEN_ACCOUNT = 108,
    INVALID_MINT = 109,
    INVALID_TOKEN_ACCOUNT = 110,
    INVALID_ACCOUNT_DATA = 111,
    INVALID_INSTRUCTION_DATA = 112,
    NOT_ENOUGH_ACCOUNT_KEYS = 113,
    INVALID_INSTRUCTION = 114,
    ARITHMETIC_OVERFLOW = 115,
    ARITHMETIC_UNDERFLOW = 116,
    INVALID_ACCOUNT_DISCRIMINATOR = 117,
    MINT_MISMATCH = 125,
    INVALID_DELEGATE_PDA = 126,
    INVALID_HEADER_DATA = 127,
    INVALID_AMOUNT = 129,
    UNAUTHORIZED = 130,
    ACCOUNT_NOT_WRITABLE = 131,
    DELEGATION_VERSION_MISMATCH = 133,
    MIGRATION_REQUIRED = 134,
    STALE_SUBSCRIPTION_AUTHORITY = 136,
    NO_EXCESS_LAMPORTS = 138,
    AMOUNT_EXCEEDS_PERIOD_LIMIT = 400,
    INVALID_PERIOD_LENGTH = 402,
    DELEGATION_NOT_STARTED = 407,
    PLAN_SUNSET = 500,
    PLAN_EXPIRED = 501,
    INVALID_PLAN_PDA = 502,
    INVALID_SUBSCRIPTION_PDA = 503,
    NOT_PLAN_OWNER = 504,
    SUBSCRIPTION_PLAN_MISMATCH = 505,
    UNAUTHORIZED_DESTINATION = 506,
    SUBSCRIPTION_CANCELLED = 508,
    SUBSCRIPTION_ALREADY_CANCELLED = 509,
    SUBSCRIPTION_NOT_CANCELLED = 510,
    INVALID_END_TS = 511,
    INVALID_PLAN_STATUS = 512,
    PLAN_IMMUTABLE_AFTER_SUNSET = 513,
    SUNSET_REQUIRES_END_TS = 514,
    PLAN_NOT_EXPIRED = 515,
    PLAN_CLOSED = 516,
    ALREADY_SUBSCRIBED = 517,
    PLAN_ALREADY_EXISTS = 518,
    PLAN_TERMS_MISMATCH = 519,
    PLAN_END_TS_CANNOT_EXTEND = 520,
    STALE_SUBSCRIPTION_APPROVAL = 521,
    STALE_PLAN_APPROVAL = 522,
    INVALID_EVENT_AUTHORITY = 600,
    INVALID_SELF_PROGRAM = 604,
};

// Leaves the function with the error of `expression`, if it has one.
#define TRY(expression)                   \
    do {                                  \
        u64 try_error = (expression);     \
        if (try_error != OK) return try_error; \
    } while (0)

// Leaves the function with `error` unless `condition` holds.
#define REQUIRE(condition, error)      \
    do {                               \
        if (!(condition)) return error; \
    } while (0)

#endif
