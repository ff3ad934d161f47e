/*
 * Invoices of one address within one on-chain period: those of the period, of which a pause, an end
 * or a grant closes one and the next one follows, and one without cover, which may be open beside
 * them. Each is drawn up for the same price, and the maximum that the wallet signed is five times
 * that: the program would allow every pull of this model, so only the books forbid one.
 *
 * Two keepers draw up, sign, commit and settle. `serve` forgives, pauses, grants and reinstates.
 * The chain lands a transaction, however late, or drops it; how its end is seen is the subject of
 * other models. The customer's credit also pays for another subscription. README.md explains the
 * rules and the variants (-D names) that lack one.
 */

#define KEEPERS 2
#ifndef TXS
#define TXS 3       /* signatures that may be made */
#endif
#ifndef LAST
#define LAST 3      /* last tick of the period */
#endif
#ifndef FAULTS
#define FAULTS 1    /* leases that may run out while the keeper lives */
#endif
#define PRICE 2     /* of each invoice; the maximum is 10 */
#define INVOICES 4  /* 0: without cover; 1 to 3: of the period */
#define NONE 15

byte now = 1;

/* ---- Postgres: invoices ---- */
mtype = { absent, open, paid, forgiven, ended, replaced, uncollectible };
mtype state[INVOICES] = absent;
byte from[INVOICES];   /* first tick that it covers; it covers the rest of the period */
byte due[INVOICES];    /* what is pulled */
byte drawn;            /* invoices of the period that were drawn up */

/* ---- Postgres: the subscription ---- */
mtype = { live, over };
mtype status = live;
bit isPaused;
bit isPastDue;
bit isPaidThrough;     /* paid_through is the end of the period */
byte billedFrom = 1;
byte claim = NONE;     /* the keeper that holds the row */
bit hasLapsed;
byte faults = FAULTS;
bit isChanged[KEEPERS]; /* another process has changed the row since this keeper read it */

/* ---- Postgres: credit of the customer ---- */
short balance = 2;
bit isOtherDrawn;      /* the invoice of the other subscription is drawn up */
byte byOther;          /* what it spent */

/* ---- Postgres and the chain: the open attempt, and its transaction ---- */
mtype = { idle, sent, landed, dead };
mtype attempt = idle;
byte pays;             /* its invoice */
byte txs;              /* transactions signed so far */
#ifdef SAME_BYTES
bit isOnChain[3];      /* a transaction of this amount has landed */
#endif

bit mayPause = 1;
bit mayGrant = 1;
bit mayReinstate = 1;

/* ---- ghosts ---- */
bit isPulled[INVOICES];
byte pulls;            /* transactions that landed */
byte bookings;         /* pulls that are booked */
bit isCovered;         /* the rest of the period is paid or forgiven */
byte givenUp = 1;      /* first tick that may still be charged */
byte resumedAt = 1;    /* tick of the end of the pause */
byte granted = 2;      /* all credit */

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi

#define ANY_OPEN (attempt != idle)
#define IS_OPEN(i) (state[i] == open)
#define OPEN_PERIOD (IS_OPEN(1) -> 1 : (IS_OPEN(2) -> 2 : (IS_OPEN(3) -> 3 : NONE)))

/* ---- what closes an invoice without a payment ---- */

/* The trigger that gives back what it spent. */
inline reverse(i) { balance = balance + PRICE - due[i] }

inline giveUp(tick) { if :: tick > givenUp -> givenUp = tick :: else fi }

inline close(i, how) {
  state[i] = how;
  reverse(i);
  if :: how == ended && !isPaused -> giveUp(resumedAt) :: else fi
}

/* ---- time that is billed ---- */

/* A period is billed by the invoice that stands, whatever became of it. */
#ifdef BESIDE_ENDED
#define IS_ENDED(i) false
#else
#define IS_ENDED(i) (state[i] == ended)
#endif
#ifdef BESIDE_UNCOLLECTIBLE
#define IS_UNCOLLECTIBLE(i) false
#else
#define IS_UNCOLLECTIBLE(i) (state[i] == uncollectible)
#endif
#ifdef BESIDE_FORGIVEN
#define IS_FORGIVEN(i) false
#else
#define IS_FORGIVEN(i) (state[i] == forgiven)
#endif
#define STANDS(i) (IS_OPEN(i) || state[i] == paid || IS_FORGIVEN(i) || IS_ENDED(i) || \
  IS_UNCOLLECTIBLE(i))
#define IS_TAKEN(i, f) (STANDS(i) && from[i] == (f))
#define ANY_TAKEN(f) (IS_TAKEN(1, f) || IS_TAKEN(2, f) || IS_TAKEN(3, f))
/* The first tick that is billed with which no standing invoice begins its cover. */
#define FREE (ANY_TAKEN(billedFrom) -> billedFrom + 1 : billedFrom)

/* ---- what a keeper may collect ---- */
#define MAY_COLLECT (status == live && !isPaused && !ANY_OPEN)
#define IS_PERIOD_DUE (OPEN_PERIOD == NONE && !isPaidThrough && drawn < INVOICES - 1 && FREE <= now)
#define IS_OTHER_DUE (txs < TXS && (state[0] == absent || IS_OPEN(0)))

inline pay(i) {
  state[i] = paid;
  if
  :: i > 0 ->
     MUST(!isCovered, "wrong: time is covered twice\n");
     MUST(from[i] >= givenUp, "wrong: time that was given up is charged\n");
     isCovered = 1; isPaidThrough = 1; isPastDue = 0
  :: else
  fi
}

active proctype Chain() {
end:
  do
  :: atomic { attempt == sent -> attempt = landed; pulls++;
       printf("chain: the pull for invoice %d lands\n", pays);
       MUST(!isPulled[pays], "wrong: an invoice is pulled twice\n");
       MUST(IS_OPEN(pays), "wrong: a closed invoice is pulled\n");
#ifdef SAME_BYTES
       isOnChain[due[pays]] = 1;
#endif
       isPulled[pays] = 1 }
  :: atomic { attempt == sent -> attempt = dead;
       printf("chain: the transaction for invoice %d is dead\n", pays) }
  :: atomic { now < LAST -> now++; printf("tick %d\n", now) }
  od
}

/* ---- serve, whose transactions lock the subscription, then its invoices ---- */

inline change() { isChanged[0] = 1; isChanged[1] = 1 }

#ifdef VOID_IN_FLIGHT
#define MAY_FORGIVE true
#else
#define MAY_FORGIVE (!ANY_OPEN)
#endif
#ifdef PAUSE_IN_FLIGHT
#define MAY_END true
#else
#define MAY_END (!ANY_OPEN)
#endif

active proctype Serve() {
  byte i;
end:
  do
  :: atomic { IS_OPEN(0) && !ANY_OPEN && status == live -> state[0] = forgiven; change();
       printf("merchant forgives invoice 0\n") }
  :: atomic { OPEN_PERIOD != NONE && MAY_FORGIVE && status == live -> i = OPEN_PERIOD;
       printf("merchant forgives invoice %d\n", i);
       close(i, forgiven); change();
#ifndef MONEY
       MUST(!isCovered, "wrong: time is covered twice\n");
#endif
       isCovered = 1; isPastDue = 0;
#ifndef BESIDE_FORGIVEN
       isPaidThrough = 1;
#endif
       i = 0 }
  :: atomic { mayPause && status == live && !isPaused -> mayPause = 0; isPaused = 1;
       isPastDue = 0; change();
       printf("merchant pauses\n");
       if
       :: OPEN_PERIOD != NONE && MAY_END -> i = OPEN_PERIOD; close(i, ended);
          printf("invoice %d ends with the pause\n", i)
       :: else
       fi;
       i = 0 }
  :: atomic { isPaused -> isPaused = 0; change();
       printf("merchant ends the pause at tick %d\n", now);
#ifdef BESIDE_ENDED
       if :: state[1] == ended || state[2] == ended :: else -> billedFrom = now fi;
#else
       billedFrom = now;
#endif
       resumedAt = now;
       /* What an attempt may still pay is not given up yet. */
       if :: OPEN_PERIOD == NONE && !isCovered -> giveUp(now) :: else fi }
  :: atomic { mayGrant && OPEN_PERIOD != NONE && isPastDue && !ANY_OPEN -> mayGrant = 0;
       i = OPEN_PERIOD; close(i, replaced); balance++; granted++; change();
       printf("merchant grants credit: invoice %d is replaced\n", i);
       i = 0 }
  :: atomic { mayReinstate && status == over -> mayReinstate = 0; status = live; change();
       printf("merchant reinstates at tick %d\n", now);
#ifndef BESIDE_UNCOLLECTIBLE
       billedFrom = now;
#endif
       giveUp(now) }
  od
}

/* ---- keepers ---- */

#define IS_FREE (claim == NONE || hasLapsed)
#define MAY_SETTLE(k) ((claim == k || IS_FREE) && (attempt == landed || attempt == dead))

inline take(k) { claim = k; hasLapsed = 0 }
inline release(k) { if :: claim == k -> claim = NONE; hasLapsed = 0 :: else fi }

/* What a commit compares, under the locks of the subscription and the invoice. */
#ifdef STALE_TERMS
#define IS_STALE(k, i) (isChanged[k] && state[i] != absent)
#else
#ifdef STALE_INVOICE
#define IS_STALE(k, i) (isChanged[k] && state[i] == absent)
#else
#define IS_STALE(k, i) isChanged[k]
#endif
#endif
#ifdef CREDIT_UNLOCKED
#define IS_SPENT(seen) false
#else
#define IS_SPENT(seen) ((seen) > 0 && balance != (seen))
#endif

/* Draws up the invoice i from the balance that was read. */
inline drawUp(i, f, seen) {
  if
  :: i == 0 -> due[i] = PRICE
  :: else -> drawn++; from[i] = f;
     if :: seen >= PRICE -> due[i] = 0 :: else -> due[i] = PRICE - seen fi
  fi;
  state[i] = open; balance = balance - PRICE + due[i];
  printf("keeper draws up invoice %d from tick %d, of which %d is due\n", i, f, due[i]);
  MUST(balance >= 0, "wrong: more credit is spent than there is\n")
}

/* The subscriber cannot pay. The second failure ends the dunning. */
inline fail(i) {
  printf("keeper records a failure of invoice %d\n", i);
  if
  :: !isPastDue -> isPastDue = 1
  :: else -> status = over; isPastDue = 0; close(i, uncollectible);
     if :: IS_OPEN(0) -> close(0, uncollectible) :: else fi;
     printf("the dunning is over: invoice %d is uncollectible\n", i)
  fi
}

/* Which invoice a pull pays that has an attempt. */
#ifdef NO_INVOICE_NAMED
#define PAID_BY (OPEN_PERIOD != NONE -> OPEN_PERIOD : 0)
#else
#ifdef MATCHED_BY_AMOUNT
#define PAID_BY (OPEN_PERIOD != NONE && due[OPEN_PERIOD] == due[pays] -> OPEN_PERIOD : pays)
#else
#define PAID_BY pays
#endif
#endif

proctype Keeper(byte k) {
  byte i;
  byte f;    /* first tick of a cover */
  byte seen; /* the balance as it was read */
end:
  do
  /* Claims the row, reads and decides. */
  :: atomic { IS_FREE && MAY_COLLECT && (IS_PERIOD_DUE || OPEN_PERIOD != NONE || IS_OTHER_DUE) ->
       take(k); isChanged[k] = 0; seen = balance;
       if
       :: IS_PERIOD_DUE -> i = drawn + 1; f = FREE
       :: OPEN_PERIOD != NONE ->
          i = OPEN_PERIOD;
#ifdef DRAWN_AGAIN
          if
          :: drawn < INVOICES - 1 && !ANY_TAKEN(now) -> i = drawn + 1; f = now
          :: skip
          fi
#endif
       :: IS_OTHER_DUE -> i = 0
       fi;
       printf("keeper %d reads the balance %d and decides on invoice %d\n", k, seen, i) }
     atomic {
       if
       :: claim != k -> printf("keeper %d has lost its claim\n", k)
       :: claim == k && (IS_STALE(k, i) || ANY_OPEN ||
            (i > 0 && state[i] == absent && IS_SPENT(seen))) ->
          printf("keeper %d reads again\n", k); release(k)
       :: else ->
          if :: state[i] == absent -> drawUp(i, f, seen) :: else fi;
          if
          :: due[i] == 0 -> pay(i); release(k); printf("credit pays invoice %d\n", i)
          :: due[i] > 0 && txs < TXS ->
             txs++; pays = i; attempt = sent;
             printf("keeper %d commits an attempt for invoice %d and sends it\n", k, i);
#ifdef SAME_BYTES
             if
             :: isOnChain[due[i]] -> attempt = landed
             :: else
             fi
#endif
          :: due[i] > 0 && i > 0 -> fail(i); release(k)
          fi
       fi;
       i = 0; f = 0; seen = 0 }
  /* Ends the attempt. An invoice of the period that a pause has interrupted is closed then. */
  :: atomic { MAY_SETTLE(k) -> take(k);
       if
       :: attempt == landed ->
          i = PAID_BY; bookings++;
          if
          :: IS_OPEN(i) -> pay(i); printf("keeper %d books the pull for invoice %d\n", k, i)
          :: else -> balance = balance + due[pays];
             printf("keeper %d books the pull as credit\n", k)
          fi;
          MUST(bookings <= pulls, "wrong: a pull is booked twice\n")
       :: attempt == dead -> printf("keeper %d ends the attempt for invoice %d\n", k, pays)
       fi;
       attempt = idle; pays = 0;
       if
       :: OPEN_PERIOD != NONE && (isPaused || billedFrom > from[OPEN_PERIOD]) ->
          i = OPEN_PERIOD; close(i, ended); printf("invoice %d ends with the pause\n", i)
       :: else
       fi;
       i = 0; release(k) }
  /* Draws up the invoice of the customer's other subscription: credit pays a part, or all. */
  :: atomic { !isOtherDrawn -> seen = balance;
       printf("keeper %d reads the balance %d for the other subscription\n", k, seen) }
     atomic {
       if
       :: isOtherDrawn || IS_SPENT(seen)
       :: else -> isOtherDrawn = 1; byOther = (seen >= PRICE -> PRICE : seen);
          balance = balance - byOther;
          printf("keeper %d spends %d for the other subscription\n", k, byOther);
          MUST(balance >= 0, "wrong: more credit is spent than there is\n")
       fi;
       seen = 0 }
  :: atomic { claim == k && !hasLapsed && faults > 0 -> faults--; hasLapsed = 1;
       printf("the lease of keeper %d runs out\n", k) }
  od
}

/* Credit that the invoices hold. */
#define HELD(i) ((IS_OPEN(i) || state[i] == paid) -> PRICE - due[i] : 0)
#define ALL_HELD (HELD(0) + HELD(1) + HELD(2) + HELD(3) + byOther)

/* When nothing else can happen, each pull is booked, and credit is somewhere. */
init {
  atomic {
    if :: balance++; granted++; printf("the balance is 3\n") :: printf("the balance is 2\n") fi;
    run Keeper(0); run Keeper(1)
  }
end:
  timeout;
  MUST(bookings == pulls, "wrong: books and chain differ\n");
  MUST(balance + ALL_HELD == granted, "wrong: credit is lost or made\n")
}
