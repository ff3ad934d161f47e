/*
 * Packs and cancel: one transaction carries the payments of two subscriptions, x and y. The
 * merchant may cancel x; the wallet of x may close its account and open it again, and is then
 * registered anew as z at the same address. Each payment is at most half of its plan's amount, so
 * that two pulls fit in one on-chain period and the books alone prevent a second charge.
 *
 * The chain is that of sign_and_expire.pml without heights: a transaction that was sent may land
 * until the chain ends it, and what landed is final. README.md explains the rules and the variants (-D names); with -DMONEY
 * only the pulls are judged, so that a variant's trail goes on to the second charge.
 */

#define KEEPERS 2
#define LOOPS 2    /* sender loops of keeper 0; keeper 1 checks and sends in one step */
#ifndef TXS
#define TXS 3      /* transactions that may be signed, the first one included */
#endif

/* Payments are bits, so that a transaction is the sum of its payments. */
#define X 1
#define Y 2
#define Z 4
#define ALL 7

mtype = { alive, landed, ended };

/* ---- the chain ---- */
mtype state[TXS] = alive;
bit wire[TXS];           /* sent at least once */
bit isReopened;          /* the account of x was closed, and z's is open at its address */
bit isOnNew[TXS];        /* landed after that */

/* ---- Postgres ---- */
byte payments[TXS];      /* as signed */
byte opens[TXS];         /* payments whose attempt is open */
byte booked[TXS];        /* payments that the books hold as paid */
byte claims[KEEPERS];    /* rows that a keeper has claimed */
byte lapsed;             /* claimed rows whose lease ran out */
bit isSlow = 1;          /* a lease may still run out while its keeper lives */
bit isCancelled;
bit isLate;              /* more than 100 ms ago */
byte next = 1;

/* ---- memory of the keepers ---- */
bit isFresh[LOOPS];      /* a sender loop read the rows less than 100 ms ago */

/* Payments of a transaction that a keeper has in flight: what it committed or took over. */
#define HELD(k, t) (claims[k] & opens[t])
#define FREE (ALL & ~((claims[0] | claims[1]) & ~lapsed))
#define LIVE ((isCancelled -> 0 : X) | Y | (isReopened -> Z : 0))
#define OPEN (opens[0] | opens[1] | opens[2])
#define PAID (booked[0] | booked[1] | booked[2])
/* The payments of both registrations at the address of x. */
#define SAME_ADDRESS(m) ((m) & (X | Z) -> (m) | X | Z : (m))
#ifdef UNIQUE_PER_REGISTRATION
#define BLOCKED OPEN
#else
#define BLOCKED SAME_ADDRESS(OPEN)
#endif
#define DUE (LIVE & ~PAID)

/* Pulls that the account of x's address counts, and that of y's. */
#define PULLS_X(t) (state[t] == landed && isOnNew[t] == isReopened && (payments[t] & (X | Z)) != 0)
#define PULLS_Y(t) (state[t] == landed && (payments[t] & Y) != 0)
/* The same of the address of x, as far as the books hold them. */
#define BOOKED_X(t) (PULLS_X(t) && (booked[t] & (X | Z)) != 0)
#define ANY(f) (f(0) || f(1) || f(2))
#define COUNT(f) (f(0) + f(1) + f(2))

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi

inline land(t) {
  atomic { wire[t] && state[t] == alive ->
    state[t] = landed; isOnNew[t] = isReopened;
    printf("chain: transaction %d lands\n", t);
    MUST(COUNT(PULLS_X) <= 1 && COUNT(PULLS_Y) <= 1, "wrong: two pulls in one period\n") }
}

active proctype Chain() {
  byte t;
end:
  do
  :: land(0)
  :: land(1)
  :: land(2)
  :: atomic { state[0] == alive -> state[0] = ended; printf("chain: transaction 0 can land no more\n") }
  /* A merchant cancels: the row and its claim. */
  :: atomic { !isCancelled ->
       isCancelled = 1; claims[0] = claims[0] & ~X; claims[1] = claims[1] & ~X; lapsed = lapsed & ~X;
       printf("merchant: x is cancelled\n") }
  :: atomic { isCancelled && !isLate ->
       isLate = 1; for (t : 0 .. LOOPS - 1) { isFresh[t] = 0 } t = 0;
       printf("100 ms later\n") }
  /* The wallet closes its account and opens it again; the registration ends that of x. */
  :: atomic { !isReopened ->
       isReopened = 1; isCancelled = 1; claims[0] = claims[0] & ~X; claims[1] = claims[1] & ~X; lapsed = lapsed & ~X;
       printf("wallet: closes its account, opens it again and registers z\n") }
  od
}

/* The rows of all payments of a transaction are claimed by this keeper and may be collected. */
#ifdef HALF_PACK
#define MAY_SEND(k, t) (HELD(k, t) != 0 && (payments[t] & claims[k] & LIVE) == payments[t])
#else
#define MAY_SEND(k, t) (HELD(k, t) != 0 && (HELD(k, t) & LIVE) == payments[t])
#endif

inline send(k, t) {
  wire[t] = 1;
  printf("keeper %d sends transaction %d\n", k, t);
  MUST(!(isLate && (payments[t] & X) != 0), "wrong: sent after the cancellation\n")
}

inline check(l, t) {
  atomic { state[t] == alive && MAY_SEND(0, t) ->
    got = t; isFresh[l] = 1 }
}

/* One of the sender loops of keeper 0. */
proctype Sender(byte l) {
  byte got;
end:
  do
  :: if
     :: check(l, 0)
     :: check(l, 1)
     :: check(l, 2)
#ifdef NO_CHECK
     :: atomic { HELD(0, 0) != 0 && state[0] == alive -> got = 0; isFresh[l] = 1 }
#endif
     fi;
     atomic {
#ifdef OLD_CHECK
       send(0, got);
#else
       if :: isFresh[l] -> send(0, got) :: else fi;
#endif
       isFresh[l] = 0; got = 0 }
  od
}

inline sendAtOnce(k, t) {
  atomic { k == 1 && state[t] == alive && !wire[t] && MAY_SEND(1, t) -> send(1, t) }
}

inline release(k, some) {
  claims[k] = claims[k] & ~(some); lapsed = lapsed & ~(some)
}

inline take(k, some) {
  claims[1 - k] = claims[1 - k] & ~(some); claims[k] = claims[k] | (some); lapsed = lapsed & ~(some)
}

inline settle(k, t) {
  atomic { state[t] == landed && HELD(k, t) != 0 ->
    some = HELD(k, t);
    booked[t] = booked[t] | some; opens[t] = opens[t] & ~some; release(k, some);
    printf("keeper %d books payments %d of transaction %d\n", k, some, t); some = 0 }
}

inline expire(k, t) {
  atomic { state[t] == ended && HELD(k, t) != 0 ->
    some = HELD(k, t);
    opens[t] = opens[t] & ~some; release(k, some);
    printf("keeper %d ends payments %d of transaction %d as expired\n", k, some, t); some = 0 }
}

inline recover(k, t) {
  atomic { (opens[t] & FREE) != 0 ->
    some = opens[t] & FREE;
    take(k, some);
    printf("keeper %d takes over payments %d of transaction %d\n", k, some, t); some = 0 }
}

/* No former transaction of these payments may land any more. */
#define MAY_LAND(t) (t < next && state[t] == alive && (SAME_ADDRESS(payments[t]) & some) != 0)

proctype Keeper(byte k) {
  byte some;
idle:
end:
  do
  :: sendAtOnce(k, 0)
  :: sendAtOnce(k, 1)
  :: sendAtOnce(k, 2)
  :: settle(k, 0)
  :: settle(k, 1)
  :: settle(k, 2)
  :: expire(k, 0)
  :: recover(k, 0)
  :: recover(k, 1)
  :: recover(k, 2)
  :: atomic { k == 0 && isSlow && claims[k] != 0 -> isSlow = 0; lapsed = claims[k]; printf("the leases of keeper %d run out\n", k) }
#ifdef NEVER_SENT
  /* This keeper signed transaction 0 and has counted no send of it. */
  :: atomic { k == 0 && !wire[0] && state[0] == alive && !MAY_SEND(0, 0) && HELD(0, 0) != 0 ->
    some = HELD(0, 0);
    opens[0] = opens[0] & ~some; release(0, some);
    printf("keeper 0 ends payments %d of transaction 0 as never sent\n", some); some = 0 }
#endif
  /* The statement that claims reads the open attempts from its snapshot, then locks the rows. */
  :: atomic { next < TXS && (DUE & FREE & ~BLOCKED) != 0 ->
       some = DUE & FREE & ~BLOCKED;
       if :: true :: some = some & Y :: some = some & (X | Z) fi }
     atomic {
       /* Rows are read after they were locked. */
       some = some & FREE & DUE;
       take(k, some);
       /* Accounts are read no older than the end of the last attempt at the address. */
#ifdef STALE_READ
       skip;
#else
       if :: ANY(BOOKED_X) -> claims[k] = claims[k] & ~(some & (X | Z)); some = some & ~(X | Z) :: else fi;
#endif
       if :: some == 0 -> goto idle :: else fi;
       printf("keeper %d claims and signs payments %d\n", k, some) }
     atomic {
       if
       /* A transaction is committed with all of its payments or not at all. */
       :: (some & claims[k]) != some || next == TXS ->
          release(k, some)
#ifdef HALF_PACK
       :: (some & claims[k]) == some && next < TXS && (some & ~BLOCKED) != 0 ->
#else
       :: (some & claims[k]) == some && next < TXS && (some & BLOCKED) != 0 ->
          printf("keeper %d: an attempt is open\n", k);
          release(k, some)
       :: (some & claims[k]) == some && next < TXS && (some & BLOCKED) == 0 ->
#endif
          printf("keeper %d commits transaction %d with payments %d\n", k, next, some);
#ifndef MONEY
          MUST(!ANY(MAY_LAND), "wrong: signed again while the former may land\n");
#endif
          opens[next] = some & ~BLOCKED;
          payments[next] = some;
          next++
#ifdef HALF_PACK
       :: (some & claims[k]) == some && next < TXS && (some & ~BLOCKED) == 0 ->
          release(k, some)
#endif
       fi;
       some = 0 }
  od
}

init {
  atomic {
    payments[0] = X | Y; opens[0] = X | Y; claims[0] = X | Y;
    run Keeper(0); run Keeper(1);
    run Sender(0); run Sender(1)
  }
}
