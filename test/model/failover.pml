/*
 * Failover: Postgres fails over to an asynchronous standby that lacks the last commits, while
 * transactions of the lost attempts are under way. The payment of the one subscription is at most
 * half of the plan's amount, so that two pulls fit in the one on-chain period. There is one primary
 * at a time: two of them are excluded by fencing, which no rule here replaces.
 *
 * Keepers, chain and endpoints are those of sign_and_expire.pml without forks and lies.
 * README.md explains the rules and the variants (-D names) that lack one of them.
 */

#define KEEPERS 2
#ifndef TXS
#define TXS 2      /* signatures that may be made: 2 or 3 */
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef LAST
#define LAST 6     /* last height of the chain */
#endif
#define LIFE 2     /* blocks for which a blockhash is valid after its own: 150 */
#define NONE 255

/* ---- the chain ---- */
byte tip = 1;      /* newest height */
byte root;         /* newest finalized height */
byte at[TXS];      /* height at which a transaction landed, 0: it did not */
byte slotOf[TXS];  /* height of its blockhash */
bit wire[TXS];     /* sent at least once */
byte next;         /* number of signatures made */

/* ---- Postgres ---- */
typedef Books {
  byte open;       /* open attempts, a bit for each transaction */
  byte booked;     /* payments, likewise */
  byte claim;      /* the keeper that holds the row */
  byte timeline;   /* as recorded by a keeper */
  bit isHeld;      /* nothing is signed */
  byte height;     /* H: the highest processed height when the new timeline was first seen */
  byte observed    /* accounts are read no older than this */
};
Books db;
Books standby;     /* what the standby will have when it takes over */
bit isCut;         /* it has received its last commit */
byte timeline = 1; /* of the server */
bit hasLapsed;     /* the lease ran out; the claim stands until another keeper takes it */
bit isSlow = 1;    /* a lease may still run out while its keeper lives */

/* ---- memory of the keepers ---- */
byte held[KEEPERS] = NONE; /* the transaction in flight */

#define BIT(t) (1 << (t))
#define LANDED(t, v) (at[t] != 0 && at[t] <= (v))
#define UNKNOWN(t, v) (LANDED(t, v) && !(db.booked & BIT(t)))
#if TXS == 2
#define ANY(f, v) (f(0, v) || f(1, v))
#define COUNT(f, v) (f(0, v) + f(1, v))
#else
#define ANY(f, v) (f(0, v) || f(1, v) || f(2, v))
#define COUNT(f, v) (f(0, v) + f(1, v) + f(2, v))
#endif
#define FIRST_OPEN (db.open & 1 -> 0 : (db.open & 2 -> 1 : 2))

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi

inline land(t) {
  atomic { wire[t] && at[t] == 0 && tip > root && tip >= slotOf[t] && tip <= slotOf[t] + LIFE ->
    at[t] = tip;
    printf("chain: transaction %d lands at height %d\n", t, tip);
    MUST(COUNT(LANDED, tip) <= 1, "wrong: two pulls in one period\n") }
}

inline copy(from, to) {
  to.open = from.open; to.booked = from.booked; to.claim = from.claim; to.timeline = from.timeline;
  to.isHeld = from.isHeld; to.height = from.height; to.observed = from.observed
}

active proctype World() {
end:
  do
  :: land(0)
  :: land(1)
#if TXS > 2
  :: land(2)
#endif
  :: atomic { tip < LAST -> tip++; printf("chain: height %d\n", tip) }
  :: atomic { root < tip -> root++; printf("chain: height %d is final\n", root) }
  :: atomic { isSlow && db.claim != NONE -> isSlow = 0; hasLapsed = 1;
       printf("postgres: the lease of keeper %d runs out\n", db.claim) }
  :: atomic { !isCut -> isCut = 1; copy(db, standby);
       printf("postgres: what is committed from here on is lost\n") }
  :: atomic { isCut && timeline <= FAILOVERS -> timeline++; copy(standby, db);
       isCut = (timeline > FAILOVERS); hasLapsed = (db.claim != NONE);
       printf("postgres: failover, timeline %d\n", timeline) }
  od
}

#define IS_FREE (db.claim == NONE || hasLapsed)
#define IS_DUE (db.booked == 0 && next < TXS || ANY(UNKNOWN, tip))
#define IS_EXPIRED(t) (root > slotOf[t] + LIFE && at[t] == 0)
#define HOLDS(k) (db.claim == k && held[k] != NONE)

#ifdef NO_HOLD
#define MAY_SIGN true
#else
#define MAY_SIGN (db.timeline == timeline && !db.isHeld)
#endif

/* What the statement that commits an attempt compares. */
#if defined(CHECKED_BEFORE) || defined(NO_HOLD)
#define MAY_COMMIT true
#else
#ifdef HOLD_ALONE
#define MAY_COMMIT MAY_SIGN
#else
#define MAY_COMMIT (timelineRead == timeline)
#endif
#endif

#ifdef FINALIZED_H
#define NAMED root
#else
#define NAMED tip
#endif
#ifdef SHORT_HOLD
#define HOLD_ENDS (root > db.height)
#else
#define HOLD_ENDS (root > db.height + LIFE)
#endif

inline release(k) {
  if :: db.claim == k -> db.claim = NONE; hasLapsed = 0 :: else fi;
  held[k] = NONE
}

proctype Keeper(byte k) {
  byte t;
  byte v;              /* height at which it reads the account */
  byte timelineRead;   /* when it began to read */
idle:
end:
  do
  :: atomic { IS_FREE && IS_DUE && db.open == 0 ->
       db.claim = k; hasLapsed = 0; held[k] = NONE;
       v = db.observed;
       do :: v < tip -> v++ :: break od;
       printf("keeper %d claims and reads the account at height %d\n", k, v);
       if
       :: ANY(UNKNOWN, v) ->
          for (t : 0 .. TXS - 1) {
            if :: UNKNOWN(t, root) -> db.booked = db.booked | BIT(t);
                  printf("keeper %d books transaction %d from the history\n", k, t)
               :: else fi
          }
          t = 0; v = 0; release(k); goto idle
       :: !ANY(UNKNOWN, v) && (db.booked != 0 || !MAY_SIGN || next == TXS) ->
          v = 0; release(k); goto idle
       :: else -> v = 0; timelineRead = timeline
       fi }
     /* The newest blockhash is the one that may land the longest. */
     atomic {
       if
       :: db.claim != k -> printf("keeper %d has lost its claim\n", k)
       :: db.claim == k && (!(MAY_COMMIT) || db.open != 0 || next == TXS) ->
          printf("keeper %d may not commit\n", k); release(k)
       :: db.claim == k && MAY_COMMIT && db.open == 0 && next < TXS ->
          t = next; next++;
          slotOf[t] = tip; db.open = db.open | BIT(t); held[k] = t;
          printf("keeper %d signs at height %d and commits transaction %d\n", k, tip, t)
       fi;
       t = 0; timelineRead = 0 }
  :: atomic { held[k] != NONE && !wire[held[k]] ->
       wire[held[k]] = 1; printf("keeper %d sends transaction %d\n", k, held[k]) }
  :: atomic { IS_FREE && db.open != 0 && !HOLDS(k) ->
       db.claim = k; hasLapsed = 0; held[k] = FIRST_OPEN;
       printf("keeper %d takes over transaction %d\n", k, held[k]) }
  /* Settles. Every write repeats the claim; the attempt's own row may be lost. */
  :: atomic { HOLDS(k) && LANDED(held[k], root) ->
       db.booked = db.booked | BIT(held[k]); db.open = db.open & ~BIT(held[k]);
       printf("keeper %d books transaction %d\n", k, held[k]);
       release(k) }
  :: atomic { HOLDS(k) && IS_EXPIRED(held[k]) ->
       db.open = db.open & ~BIT(held[k]);
       printf("keeper %d ends transaction %d as expired\n", k, held[k]);
       release(k) }
#ifndef NO_HOLD
  /* The timeline is another one than recorded. */
  :: atomic { db.timeline != timeline ->
       db.timeline = timeline; db.isHeld = 1; db.height = NAMED;
#ifdef LAGGING_H
       do :: db.height > 1 -> db.height-- :: break od;
#endif
       printf("keeper %d holds until the finalized height exceeds %d by the life of a blockhash\n", k, db.height) }
  :: atomic { db.isHeld && HOLD_ENDS ->
       db.isHeld = 0; db.height = 0;
#ifndef STALE_READ
       db.observed = root;
#endif
       printf("keeper %d ends the hold at finalized height %d\n", k, root) }
#endif
  od
}

#define IS_RIGHT(t) ((at[t] != 0) == ((db.booked & BIT(t)) != 0))

init {
  atomic {
    db.claim = NONE; db.timeline = 1; db.observed = 1;
    copy(db, standby);
    run Keeper(0); run Keeper(1)
  }
end:
  timeout;
  MUST(IS_RIGHT(0), "wrong: books and chain differ\n");
  MUST(IS_RIGHT(1), "wrong: books and chain differ\n")
#if TXS > 2
  ; MUST(IS_RIGHT(2), "wrong: books and chain differ\n")
#endif
}
