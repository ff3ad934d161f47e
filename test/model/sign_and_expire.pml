/*
 * Sign and expire: one subscription whose payment is at most half of the plan's amount, so that
 * two pulls fit in one on-chain period and the books alone prevent a second charge.
 *
 * Two keepers claim, sign, commit, send and settle. The chain delays, drops and forks. One endpoint
 * is honest but lags, the other answers what it likes. The owner of the plan may pull once as well.
 * README.md explains the rules and the variants (-D names) that lack one of them.
 */

#define KEEPERS 2
#ifndef TXS
#define TXS 2      /* signatures that may be made: 2 or 3 */
#endif
#ifndef LAST
#define LAST 5     /* last height of the chain */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define SECOND 3   /* first height of the second on-chain period */
#define LIFE 1     /* blocks for which a blockhash is valid after its own */
#define CAP 2      /* pulls that fit in a period */
#define NONE 255

#define PERIOD(h) ((h) >= SECOND -> 2 : 1)

/* ---- the chain ---- */
byte tip = 1;        /* newest height, may fork */
byte root;           /* newest height that the honest endpoint calls finalized */
byte at[TXS];        /* height at which a transaction landed, 0: it did not */
byte foreignAt;      /* the same of the owner's pull */
bit wire[TXS];       /* sent at least once */
bit hasGap = 1;      /* the histories lack our transactions */
bit hasForked;

/* ---- Postgres ---- */
mtype = { absent, open, landed, expired, unexplained };
mtype attempt[TXS] = absent;
byte slotOf[TXS];    /* height of the blockhash; last valid height: LIFE later */
byte signedFor[TXS]; /* the on-chain period */
bit booked[TXS];     /* a payment of this pull is in the books */
bit foreignBooked;
byte claim = NONE;   /* the keeper that holds the row */
bit hasLapsed;       /* the lease ran out; the claim stands until another keeper takes it */
byte faults = FAULTS; /* leases that may still run out while the keeper lives, and crashes */
byte observed = 1;   /* accounts are read no older than this */
byte next;           /* number of signatures made */

/* ---- memory of the keepers ---- */
byte held[KEEPERS] = NONE; /* the transaction in flight */

#define IS_OPEN(t) (attempt[t] == open)
#define FIRST_OPEN (IS_OPEN(0) -> 0 : (IS_OPEN(1) -> 1 : 2))

/* Pulls of period p that an account read at height v counts. */
#define IN(h, p, v) ((h) != 0 && (h) <= (v) && PERIOD(h) == (p))
#if TXS == 2
#define ANY_OPEN (IS_OPEN(0) || IS_OPEN(1))
#define OURS(p, v) (IN(at[0], p, v) + IN(at[1], p, v))
#define UNBOOKED_OURS(p, v) ((IN(at[0], p, v) && !booked[0]) + (IN(at[1], p, v) && !booked[1]))
#define BOOKED_IN(p) ((booked[0] && PERIOD(at[0]) >= (p)) || (booked[1] && PERIOD(at[1]) >= (p)))
#else
#define ANY_OPEN (IS_OPEN(0) || IS_OPEN(1) || IS_OPEN(2))
#define OURS(p, v) (IN(at[0], p, v) + IN(at[1], p, v) + IN(at[2], p, v))
#define UNBOOKED_OURS(p, v) ((IN(at[0], p, v) && !booked[0]) \
  + (IN(at[1], p, v) && !booked[1]) + (IN(at[2], p, v) && !booked[2]))
#define BOOKED_IN(p) ((booked[0] && PERIOD(at[0]) >= (p)) || (booked[1] && PERIOD(at[1]) >= (p)) \
  || (booked[2] && PERIOD(at[2]) >= (p)))
#endif
#define FOREIGN(p, v) IN(foreignAt, p, v)
#define COUNTED(p, v) (OURS(p, v) + FOREIGN(p, v))
/* The account shows the period of its newest pull only. */
#define SHOWN(v) (COUNTED(2, v) > 0 -> 2 : 1)
#define UNKNOWN(p, v) (UNBOOKED_OURS(p, v) + (FOREIGN(p, v) && !foreignBooked) > 0)
#define IS_PAID(p) (BOOKED_IN(p) || (foreignBooked && PERIOD(foreignAt) >= (p)))

/* ---- when a signature is dead ---- */
#define LIMIT(t) (slotOf[t] + LIFE)
#ifdef HEIGHT_ALONE
/* Any endpoint may name a wrong height. */
#define HONEST_SAYS_DEAD(t) true
#else
#ifdef NO_MIN_SLOT
/* A hash that the endpoint has not rooted yet is not valid there either. */
#define HONEST_SAYS_DEAD(t) (root < slotOf[t] || root > LIMIT(t))
#else
#define HONEST_SAYS_DEAD(t) (root > LIMIT(t))
#endif
#endif
#define LIAR_SAYS_DEAD(t) true
#ifdef ONE_ENDPOINT
#define IS_DEAD(t) (HONEST_SAYS_DEAD(t) || LIAR_SAYS_DEAD(t))
#else
#define IS_DEAD(t) (HONEST_SAYS_DEAD(t) && LIAR_SAYS_DEAD(t))
#endif

/* Pulls in the history of the honest endpoint that explain the shown period. */
#define FOUND(p) ((hasGap -> 0 : OURS(p, root)) + FOREIGN(p, root))
/* No status and no history shows that t landed. */
#define IS_UNSEEN(t) (at[t] == 0 || at[t] > root || hasGap)
#ifdef LATER_PERIOD
#define SHOWS_ITS_PERIOD(t) true
#else
#define SHOWS_ITS_PERIOD(t) (SHOWN(root) <= signedFor[t])
#endif
#ifdef NOT_EXPLAINED
#define IS_EXPLAINED(t) (FOUND(SHOWN(root)) > 0)
#else
#define IS_EXPLAINED(t) (FOUND(SHOWN(root)) >= COUNTED(SHOWN(root), root))
#endif
#define HAS_EXPIRED(t) (IS_DEAD(t) && IS_UNSEEN(t) && SHOWS_ITS_PERIOD(t) && \
  (SHOWN(root) < signedFor[t] || !UNKNOWN(SHOWN(root), root) || IS_EXPLAINED(t)))
#define IS_UNEXPLAINED(t) (IS_DEAD(t) && IS_UNSEEN(t) && !HAS_EXPIRED(t) && PERIOD(root) > signedFor[t])

#ifdef BEFORE_FINAL
#define IS_FINAL(t) (at[t] != 0)
#else
#define IS_FINAL(t) (at[t] != 0 && at[t] <= root)
#endif

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi
#define HAS_ROOM (COUNTED(PERIOD(tip), tip) < CAP)

inline land(t) {
  atomic {
    wire[t] && at[t] == 0 && tip > root && tip >= slotOf[t] && tip <= LIMIT(t) && HAS_ROOM ->
    at[t] = tip;
    printf("chain: transaction %d lands at height %d, period %d\n", t, tip, PERIOD(tip));
    MUST(OURS(PERIOD(tip), tip) <= 1, "wrong: two pulls in one period\n")
  }
}

active proctype Chain() {
  byte t;
end:
  do
  :: land(0)
  :: land(1)
#if TXS > 2
  :: land(2)
#endif
  :: atomic { foreignAt == 0 && tip > root && HAS_ROOM ->
      foreignAt = tip; printf("chain: the owner pulls at height %d\n", tip) }
  :: atomic { tip < LAST -> tip++; printf("chain: height %d\n", tip) }
  :: atomic { root < tip -> root++; printf("chain: height %d is final\n", root) }
  :: atomic { hasGap -> hasGap = 0; printf("endpoints: the gap in the history is closed\n") }
  :: atomic { root < tip && !hasForked ->
      hasForked = 1;
      for (t : 0 .. TXS - 1) { if :: at[t] > root -> at[t] = 0 :: else fi }
      t = 0;
      if :: foreignAt > root -> foreignAt = 0 :: else fi;
      printf("chain: a fork drops heights %d to %d\n", root + 1, tip);
      tip = root }
  od
}

#define IS_FREE (claim == NONE || hasLapsed)
#define IS_DUE (!IS_PAID(PERIOD(tip)) && next < TXS || UNKNOWN(SHOWN(tip), tip))
/* The guard of settling: this keeper holds the claim, and its transaction's attempt is open. */
#define HOLDS(k) (claim == k && held[k] != NONE && attempt[held[k]] == open)

inline take(k) {
  /* What the other keeper might still send is on its way already, or may be sent by this one. */
  held[1 - k] = NONE;
  claim = k; hasLapsed = 0;
  printf("keeper %d claims\n", k)
}

inline release(k) {
  if :: claim == k -> claim = NONE; hasLapsed = 0 :: else fi;
  held[k] = NONE
}

/* Books what the finalized histories list. */
inline record(k) {
  byte i;
  for (i : 0 .. TXS - 1) {
    if
    :: at[i] != 0 && at[i] <= root && !hasGap && !booked[i] ->
       booked[i] = 1; printf("keeper %d books transaction %d from the history\n", k, i)
    :: else
    fi
  }
  i = 0;
  if :: foreignAt != 0 && foreignAt <= root -> foreignBooked = 1 :: else fi
}

inline sign(t, p, slot) {
  t = next; next++;
  slotOf[t] = slot; signedFor[t] = p
}

#ifdef UNIQUE_PER_PERIOD
#define CLASHES(p) ((IS_OPEN(0) && signedFor[0] == (p)) || (IS_OPEN(1) && signedFor[1] == (p)))
#else
#ifdef NO_UNIQUE
#define CLASHES(p) false
#else
#define CLASHES(p) ANY_OPEN
#endif
#endif

/*
 * One keeper. It may send what it holds at any time; how long a send takes and how often it is
 * repeated is the chain's choice, so that one loop stands for any number of them.
 */
proctype Keeper(byte k) {
  byte t = NONE;
  byte slot; /* height of the blockhash that it signs with */
  byte p;    /* period that it signs for */
  byte v;    /* height at which it reads the accounts */
idle:
end:
  do
  /* The statement that claims reads the open attempts from its snapshot, then locks the row. */
  :: atomic { IS_FREE && IS_DUE && !ANY_OPEN -> skip }
     if
     :: atomic { !IS_FREE -> skip }
     :: atomic { IS_FREE ->
          take(k);
          held[k] = NONE;
          /* Reads the accounts at any endpoint and decides. */
          v = observed;
          do :: v < tip -> v++ :: break od;
          p = PERIOD(v);
          if
          :: UNKNOWN(SHOWN(v), v) ->
             record(k);
             /* A pull of a past period that no history explains does not block the present one. */
             if :: SHOWN(v) < p :: p = 0 fi
          :: else
          fi;
          if
          :: p == 0 || IS_PAID(p) || next == TXS -> p = 0; v = 0; release(k); goto idle
          :: else
          fi;
          slot = tip;
          printf("keeper %d reads height %d and signs at height %d for period %d\n", k, v, slot, p);
          v = 0 }
#ifdef SEND_FIRST
        atomic { sign(t, p, slot);
          wire[t] = 1; printf("keeper %d sends transaction %d\n", k, t) }
        if
        :: atomic { faults > 0 -> faults--; t = NONE; p = 0; slot = 0; release(k);
             printf("keeper %d crashes\n", k); goto idle }
        :: skip
        fi;
#endif
        atomic {
          if
          :: claim != k -> printf("keeper %d has lost its claim\n", k)
          :: claim == k && (CLASHES(p) || next == TXS) -> printf("keeper %d: an attempt is open\n", k); release(k)
          :: claim == k && !CLASHES(p) && next < TXS ->
#ifndef SEND_FIRST
             sign(t, p, slot);
#endif
             attempt[t] = open; held[k] = t;
             printf("keeper %d commits transaction %d\n", k, t)
          fi;
          t = NONE; p = 0; slot = 0 }
     fi
  :: atomic { held[k] != NONE && !wire[held[k]] ->
       wire[held[k]] = 1; printf("keeper %d sends transaction %d\n", k, held[k]) }
  /* Takes over an open attempt whose keeper is gone. */
  :: atomic { IS_FREE && ANY_OPEN && claim != k ->
       take(k);
       held[k] = FIRST_OPEN;
       printf("keeper %d takes over transaction %d\n", k, held[k]) }
  /* Settles. Every write repeats the claim. */
  :: atomic { HOLDS(k) && IS_FINAL(held[k]) ->
       booked[held[k]] = 1; attempt[held[k]] = landed;
       printf("keeper %d books transaction %d\n", k, held[k]);
       release(k) }
  :: atomic { HOLDS(k) && HAS_EXPIRED(held[k]) ->
       attempt[held[k]] = expired;
       printf("keeper %d ends transaction %d as expired\n", k, held[k]);
       release(k) }
  :: atomic { HOLDS(k) && IS_UNEXPLAINED(held[k]) ->
       attempt[held[k]] = unexplained;
#ifndef STALE_READ
       observed = root;
#endif
       printf("keeper %d ends transaction %d as unexplained\n", k, held[k]);
       release(k) }
  /* Another keeper may take the row, and this one still lives. */
  :: atomic { claim == k && !hasLapsed && faults > 0 -> faults--; hasLapsed = 1;
       printf("the lease of keeper %d runs out\n", k) }
  :: atomic { held[k] != NONE && faults > 0 -> faults--; release(k);
       printf("keeper %d crashes\n", k) }
  od
}

/* When nothing else can happen, every pull is booked or reported, and nothing else is booked. */
#define IS_RIGHT(t) ((at[t] == 0 || booked[t] || attempt[t] == unexplained) && (!booked[t] || at[t] != 0))

init {
  atomic {
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
