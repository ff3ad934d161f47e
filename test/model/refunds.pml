/*
 * Refunds: a payment that can be refunded once. The merchant asks, its wallet sends the transfer or
 * does not, and a keeper looks for it in the histories of two endpoints. A refund that is declared
 * expired can be asked for again. Nothing on chain limits how often is refunded.
 *
 * Endpoint 0 answers what it likes: it may call a blockhash dead, its history may lack a transfer,
 * and its copy of the transfer may show another transaction. Endpoint 1 is honest, but it lags,
 * fails, and may lose its old history.
 * README.md explains the rules and the variants (-D names) that lack one of them.
 */

#ifndef TXS
#define TXS 2      /* refunds that may be asked for: 2 or 3 */
#endif
#ifndef LAST
#define LAST 6     /* last height of the chain */
#endif
#define LIFE 1     /* blocks for which a blockhash is valid after its own: 150 */

/* ---- the chain ---- */
byte tip = 1;      /* newest height */
byte root[2];      /* newest height that the endpoint has finalized */
byte first;        /* oldest height in the history of endpoint 1 */
bit mayRestart = 1; /* endpoint 1 may still be started anew, without the history before */
byte at[TXS];      /* height at which a transfer landed, 0: it did not */
bit sent[TXS];

/* ---- Postgres ---- */
mtype = { none, pending, succeeded, expired };
mtype refund[TXS] = none;
byte slotOf[TXS];  /* height of the transfer's blockhash */
byte next;         /* number of refunds asked for */

#define IS(t, state) (refund[t] == state)
#ifdef NO_RESERVE
#define IS_TAKEN(t) IS(t, succeeded)
#else
#define IS_TAKEN(t) (IS(t, succeeded) || IS(t, pending))
#endif
#if TXS == 2
#define SOME(f) (f(0) || f(1))
#define LANDED ((at[0] != 0) + (at[1] != 0))
#else
#define SOME(f) (f(0) || f(1) || f(2))
#define LANDED ((at[0] != 0) + (at[1] != 0) + (at[2] != 0))
#endif

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi

inline land(t) {
  atomic { sent[t] && at[t] == 0 && tip > root[0] && tip > root[1] && tip <= slotOf[t] + LIFE ->
    at[t] = tip;
    printf("chain: transfer %d lands at height %d\n", t, tip);
    MUST(LANDED <= 1, "wrong: refunded twice\n") }
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
  :: atomic { root[0] < tip -> root[0]++ }
  :: atomic { root[1] < tip -> root[1]++; printf("endpoint 1: height %d is final\n", root[1]) }
  :: atomic { mayRestart -> mayRestart = 0; first = root[1] + 1;
       printf("endpoint 1: starts anew, its history begins at height %d\n", first) }
  od
}

active proctype Merchant() {
  byte t;
end:
  do
  :: atomic { next < TXS && !SOME(IS_TAKEN) ->
       refund[next] = pending; slotOf[next] = tip;
       printf("merchant asks for refund %d at height %d\n", next, tip);
       next++ }
  :: atomic { next > 0 ->
       t = 0;
       do :: t + 1 < next -> t++ :: break od;
       if :: !sent[t] -> sent[t] = 1; printf("merchant sends transfer %d\n", t) :: else fi;
       t = 0 }
  od
}

#define HAS_DIED(e, t) (root[e] > slotOf[t] + LIFE)
#define LISTS(e, t) (at[t] != 0 && at[t] <= root[e])

#ifdef NO_REACH
#define REACHES(t) true
#else
#define REACHES(t) (first <= slotOf[t])
#endif
#ifdef ONE_WITNESS
#define ENOUGH 1
#else
#define ENOUGH 2
#endif
#ifdef ONE_EXPIRY
#define ENOUGH_DEAD 1
#else
#define ENOUGH_DEAD 2
#endif

/* Which endpoints call the blockhash dead. One that calls it live forbids the expiry. */
inline askBlockhash(t) {
  dead = 0; isLive = 0;
  if :: dead++ :: skip fi;
  if
  :: HAS_DIED(1, t) -> dead++
#ifndef ONE_EXPIRY
  :: !HAS_DIED(1, t) -> isLive = 1
#endif
  :: skip
  fi
}

/* Which endpoints list the transfer, and how many histories that reach back lack it. */
inline askHistories(t) {
  lacks = 0; isListed = 0;
  if
  :: LISTS(0, t) -> isListed = 1
  :: lacks++;
#ifdef SAME_HOST
     lacks++ /* another URL of the same host */
#endif
  :: skip
  fi;
  if
  :: LISTS(1, t) && at[t] >= first -> isListed = 1
  :: !(LISTS(1, t) && at[t] >= first) && REACHES(t) -> lacks++
  :: skip
#ifdef FAILED_COUNTS
     ; lacks++
#endif
  fi;
#ifdef ONE_COPY
  if
  :: isListed -> isListed = 0; lacks = 2 /* endpoint 0's copy shows another transaction */
  :: skip
  fi
#endif
}

inline conclude(t) {
  if
  :: isListed && !IS(t, succeeded) ->
     refund[t] = succeeded; printf("keeper books transfer %d\n", t)
  :: !isListed && IS(t, pending) && dead >= ENOUGH_DEAD && !isLive && lacks >= ENOUGH ->
     refund[t] = expired; printf("keeper declares refund %d expired\n", t)
  :: else
  fi
}

active proctype Keeper() {
  byte t;
  byte dead;
  byte lacks;
  bit isLive;
  bit isListed;
end:
  do
  :: atomic { next > 0 && !IS(next - 1, succeeded) ->
       t = next - 1;
       do :: t > 0 -> t-- :: break od;
#ifdef HISTORY_FIRST
       askHistories(t)
#else
       askBlockhash(t)
#endif
     }
     atomic {
#ifdef HISTORY_FIRST
       askBlockhash(t);
#else
       askHistories(t);
#endif
       conclude(t);
       t = 0; dead = 0; lacks = 0; isLive = 0; isListed = 0 }
  od
}
