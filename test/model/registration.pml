/*
 * Registrations of one address, which holds the account of a wallet for a plan. The account may
 * outlive its registration, which ends here or is replaced by a change of plan. A keeper that sees
 * the live account registers it, or leaves it to its wallet. The wallet asks for offers, hands them
 * over, registers the account itself, cancels, resumes, and opens a second account when the first
 * has ended. The merchant ends, reinstates, makes checkout links and switches registerUnclaimed. An
 * upgrade opens used offers again and sets the time of an end.
 *
 * The rules know times of the database and the newest registration of the address. The ghosts know
 * the order of events. README.md explains the rules and the variants (-D names) that lack one.
 */

#ifndef LAST
#define LAST 3      /* last tick of the clock; the second on-chain period begins with tick 2 */
#endif
#ifndef REGS
#define REGS 3      /* registrations of the address */
#endif
#ifndef KEEPERS
#define KEEPERS 1   /* keepers that register: 1 or 2 */
#endif
#define PERIOD_START (now / 2 * 2)
#define NONE 15

byte now = 1;
bit offCurve;       /* the wallet has no key: it cannot sign in */
bit rule;           /* registerUnclaimed */

/* ---- the chain: the account at the address ---- */
mtype = { none, live, cancelled, ended };
mtype account = none;
bit isSecond;       /* the account is the second one: another init id or period */
bit pulled;         /* it was pulled in the current period */

/* ---- Postgres: the newest registration of the address ---- */
byte regs;          /* number of registrations */
mtype status = none;
bit ofSecond;       /* it belongs to the second account */
byte created;
byte stop;          /* when it ended or was replaced, 0: it did not */
bit replaced;
bit forced;
bit reinstated;
bit linked;         /* a checkout link that lifts a forced end was made after it */
bit isRenewed;      /* its account had a registration before */
#ifdef COLLECTED
bit paid;           /* it has collected for the current period */
#endif

/* ---- Postgres: offers, changes of plan, payments ---- */
byte offerAt;       /* newest offer to subscribe, 0: none */
bit isUsed;         /* a registration has used the offers to subscribe */
bit resumeAsked;    /* an offer to resume that the relay has not taken */
byte relayedAt;     /* when the relay took the newest offer to resume, 0: it did not */
bit changeLanded;   /* a change of plan that is not recorded yet */
bit mayUpgrade = 1;
byte payer;         /* registration of the open attempt, + 1 */
byte payFrom;       /* first tick that it charges */

/* ---- ghosts: the account at the address ---- */
bit hasEnded;       /* a registration has ended or was replaced, and no rightful one followed */
bit asked;          /* since then its wallet has asked the service, or registered it */
bit lifted;         /* since then the merchant has reinstated it */
bit barred;         /* a forced end that the merchant has not lifted */
byte chargedTo;     /* first tick that no payment has charged */
byte deciding;      /* keepers that have read the account and not registered it yet */

#define MUST(condition, what) if :: condition :: else -> printf(what); assert(false) fi

#define ID (regs - 1)
#define IS_OPEN (status == live)
#define IS_SAME (regs > 0 && ofSecond == isSecond)
#define IS_BARRED (forced && !reinstated && !linked)
#ifdef REPLACED
#define STOPPED (status == ended)
#else
#define STOPPED (status == ended || replaced)
#endif
#ifdef NEVER_REGISTERED
#define HAS_ENDED false
#else
#define HAS_ENDED (IS_SAME && STOPPED)
#endif

/* Offers that count for the account. */
#ifdef OLD_OFFER
#define AFTER_END(t) ((t) > 0)
#else
#define AFTER_END(t) ((t) > stop)
#endif
#ifdef OLD_ACCOUNT
#define AFTER_CREATED(t) ((t) > 0)
#else
#define AFTER_CREATED(t) ((t) > created)
#endif
#define IS_OFFERED (offerAt > 0 && !isUsed && (regs == 0 || \
  (HAS_ENDED && AFTER_END(offerAt)) || (!HAS_ENDED && AFTER_CREATED(offerAt))))
#define IS_RESUME_TAKEN (relayedAt > 0 && AFTER_END(relayedAt))

/* What a keeper decides before it registers. */
#define KEEPER_MAY (IS_OFFERED || (!HAS_ENDED && rule) || \
  (HAS_ENDED && ((reinstated && offCurve) || IS_RESUME_TAKEN)))

/* Whether another registration of the account is a CONFLICT. */
#define IS_REGISTERED (IS_SAME && IS_OPEN && !replaced)

/* Sets the time of the end or the replacement, whichever is first. */
inline stopNow() {
  if
  :: stop == 0 -> stop = now
#ifdef CHAIN_CLOCK
     ; if
     :: now > 1 -> stop = now - 1; printf("the chain's clock is late: it says %d\n", stop)
     :: skip
     fi
#endif
  :: else
  fi
}

inline noteEnd() {
  if
  :: IS_SAME && !replaced && account != ended -> hasEnded = 1; asked = 0; lifted = 0
  :: else
  fi
}

inline endNow() { noteEnd(); status = ended; changeLanded = 0; stopNow() }

/* Stores a registration of the account. An earlier one is ended in the same transaction. */
inline insert() {
  if :: IS_OPEN && !IS_REGISTERED -> endNow() :: else fi;
  MUST(!IS_OPEN, "wrong: two live registrations\n");
  MUST(!barred, "wrong: a forced end was lifted by other means\n");
  hasEnded = hasEnded && !asked && !lifted; asked = 0; lifted = 0;
  isRenewed = IS_SAME; ofSecond = isSecond;
  status = live; created = now; stop = 0;
  replaced = 0; forced = 0; reinstated = 0; linked = 0;
#ifdef COLLECTED
  paid = 0;
#endif
  relayedAt = 0; /* it cannot be later than an end that is to come */
  if :: mayUpgrade -> isUsed = 1 :: else -> offerAt = 0 fi;
  regs++
}

inline nextPeriod() {
  pulled = 0;
#ifdef COLLECTED
  paid = 0;
#endif
  if :: account == cancelled -> account = ended :: else fi
}

proctype World() {
end:
  do
  :: atomic { now < LAST -> now++; printf("tick %d\n", now);
       if :: now == PERIOD_START -> nextPeriod() :: else fi }
  :: atomic { payer > 0 ->
       if
       :: printf("chain: the payment of registration %d lands\n", payer - 1);
          MUST(payFrom >= chargedTo, "wrong: time is charged twice\n");
          pulled = 1; chargedTo = PERIOD_START + 2;
#ifdef COLLECTED
          if :: payer == regs -> paid = 1 :: else fi
#endif
       :: printf("chain: the payment of registration %d is dead\n", payer - 1)
       fi;
       payer = 0; payFrom = 0 }
  :: atomic { mayUpgrade && regs > 0 -> mayUpgrade = 0; isUsed = 0;
       printf("upgrade: used offers are open\n");
       if
       :: STOPPED -> stop = now; printf("upgrade: the end is set to tick %d\n", stop)
       :: skip
       fi }
  od
}

/*
 * The wallet opens and resumes the account with a transaction of the service or one of its own:
 * which one it is decides nothing.
 */
proctype Wallet() {
end:
  do
  :: atomic { account == none || (account == ended && !isSecond && deciding == 0 && payer == 0) ->
       if
       :: account == ended -> isSecond = 1; pulled = 0; resumeAsked = 0; relayedAt = 0;
          hasEnded = 0; lifted = 0; barred = 0; chargedTo = 0;
          printf("wallet opens another account on chain\n")
       :: else -> printf("wallet opens the account on chain\n")
       fi;
       account = live }
  :: atomic { account == live -> account = cancelled;
       if
       :: printf("wallet cancels on chain\n")
       :: IS_REGISTERED && !offCurve -> changeLanded = 1;
          printf("wallet changes to another plan\n")
       fi }
  :: atomic { account == cancelled -> account = live; printf("wallet resumes on chain\n") }
  :: atomic { !offCurve && account != live && !(account == cancelled && IS_REGISTERED) &&
         !(account == cancelled && IS_SAME && IS_BARRED) ->
       offerAt = now; isUsed = 0; asked = 1;
       printf("wallet asks for an offer to subscribe at tick %d\n", now) }
  :: atomic { !offCurve && IS_SAME && account == cancelled && !resumeAsked && !IS_BARRED ->
       resumeAsked = 1; printf("wallet asks for an offer to resume\n") }
  :: atomic { resumeAsked -> resumeAsked = 0; relayedAt = now; asked = 1;
       printf("relay takes the offer to resume at tick %d\n", now) }
  :: atomic { !offCurve && account == live && regs < REGS && !IS_REGISTERED &&
         !(IS_SAME && IS_BARRED) ->
       printf("wallet makes registration %d\n", regs); asked = 1; insert() }
  :: atomic { IS_REGISTERED ->
       if
       :: printf("wallet cancels here: registration %d ends at tick %d\n", ID, now)
       :: printf("merchant cancels: registration %d ends at tick %d\n", ID, now)
       :: printf("registration %d ends past due at tick %d\n", ID, now)
       fi;
       endNow() }
  od
}

proctype Merchant() {
end:
  do
  :: atomic { IS_OPEN -> forced = 1; if :: IS_SAME -> barred = 1 :: else fi; endNow();
       printf("merchant forces the end of registration %d\n", ID) }
  :: atomic { status == ended && !reinstated &&
         (forced || (offCurve && IS_SAME && account == live)) ->
       reinstated = 1; if :: IS_SAME -> barred = 0; lifted = offCurve :: else fi;
       printf("merchant reinstates registration %d\n", ID) }
  :: atomic { forced && !linked -> linked = 1; barred = 0;
       printf("merchant makes a link for this plan\n") }
#ifdef OTHER_PLAN_LINK
  :: atomic { forced && !linked -> linked = 1; printf("merchant makes a link for another plan\n") }
#endif
  :: atomic { rule = !rule; printf("merchant sets registerUnclaimed to %d\n", rule) }
  od
}

#ifdef BY_ID
#define IS_SEEN true
#else
#define IS_SEEN (seenStop == stop)
#endif

/* A keeper that starts sees every live account. */
proctype Keeper() {
  byte judged = NONE; /* the registration on which it has decided */
  byte seenStop;      /* whether that one had ended or was replaced, and when */
end:
  do
  :: atomic { account == live && regs < REGS && KEEPER_MAY ->
       MUST(IS_REGISTERED || hasEnded || rule || asked,
         "wrong: registered by an offer of an earlier account\n");
       if :: IS_SAME -> judged = ID; seenStop = stop :: else fi;
       deciding++; printf("keeper decides to register the account\n") }
     atomic {
       if
#ifndef UNGUARDED
       :: IS_SAME && !IS_REGISTERED && (judged != ID || !IS_SEEN) ->
          printf("keeper leaves the account to its wallet\n")
#endif
       :: else ->
          if
          :: IS_REGISTERED || (IS_SAME && IS_BARRED) || regs == REGS
          :: else ->
             printf("keeper makes registration %d\n", regs);
             insert();
#ifndef MONEY
             MUST(!hasEnded, "wrong: registered after an end, and its wallet did not ask\n")
#endif
          fi
       fi;
       judged = NONE; seenStop = 0; deciding-- }
  od
}

#ifdef COLLECTED
#define IS_PULLED paid
#else
#define IS_PULLED pulled
#endif

proctype Collector() {
end:
  do
  :: atomic { changeLanded -> changeLanded = 0; noteEnd(); replaced = 1;
       printf("registration %d is replaced at tick %d\n", ID, now);
#ifndef REPLACED
       stopNow()
#endif
     }
  :: atomic { IS_OPEN && (replaced || !IS_SAME || account == ended) -> endNow();
       printf("registration %d ends: it is replaced, or its account has ended\n", ID) }
  :: atomic { IS_REGISTERED && account == live && payer == 0 && !IS_PULLED ->
       payer = regs;
       if
       :: isRenewed && created > PERIOD_START -> payFrom = created
       :: else -> payFrom = PERIOD_START
       fi;
       printf("keeper collects for registration %d\n", ID);
       MUST(!hasEnded, "wrong: charged after an end, and its wallet did not ask\n");
       MUST(!barred, "wrong: charged after a forced end\n") }
  od
}

init {
  byte keepers;
  atomic {
    if :: offCurve = 1; printf("the wallet cannot sign in\n") :: skip fi;
    run World(); run Wallet(); run Merchant(); run Collector();
    do :: keepers < KEEPERS -> run Keeper(); keepers++ :: else -> break od;
    keepers = 0
  }
}
