// The keeper's times by its own clock (ms, where a name does not say otherwise). All rooms get them
// from the Context, so that a keeper can be run with other ones. Times by the chain's clock are
// rules and stand in domain/.
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';

export const keeperTimes = {
  loops: {
    /** How long a stop waits for payments in flight. Another keeper takes over the others. */
    graceMs: 8000,
    /** Between two looks whether collecting may begin, while it may not. */
    heldMs: 5000,
    rentMs: 10_000,
    measuringMs: 5000,
    measuringSponsoringMs: 30_000,
    sponsoringUpkeepMs: 30_000,
    historyMs: 5000,
    recoveringMs: 5000,
    balanceMs: 5000,
    streamCheckMs: 300_000,
    /** One turn handles all notifications that came since the previous turn. */
    noticesMs: 200,
    unregisteredMs: 1000,
    plansMs: 10_000,
    refundsMs: 3000,
    /** Within this time every endpoint shows the new time after the chain's clock jumped. */
    jumpMs: 1000,
  },
  claim: {
    /**
     * The longest wait while nothing is due. It is limited because subscriptions can also become
     * due through other processes.
     */
    maxWaitMs: 5000,
    leastWaitMs: 100,
    /**
     * Each claim continues behind the last claimed subscription, in order of due time. After this
     * time, claiming starts again at the earliest due time, because other subscriptions with an
     * earlier due time may have become due.
     */
    passMs: 2000,
  },
  clocks: {
    /** For which the readings of all endpoints are used, while they contradict nothing. */
    recentMs: 10_000,
    /** For which endpoints may contradict each other without an alarm. */
    disputeMs: 60_000,
    alarmMs: 3_600_000,
  },
  closings: { pollMs: 400, resendMs: 2000, patienceMs: 20_000 },
  send: {
    /** A send must begin within this time after the subscription rows of its payments were read. */
    checkedMs: 100,
    /**
     * How long a round of sends waits for its responses. A send without a response continues while
     * the next round runs.
     */
    roundMs: 1000,
    /**
     * Resend interval of a transaction that no endpoint has seen. If it was not polled after its
     * last send, it may have landed, so the interval is three times as long.
     */
    resendMs: 2000,
    resendScanMs: 500,
    /** Until a send loop tries again after the rate limit allowed no send. */
    pauseMs: 200,
  },
  poll: {
    /** The loop's interval is at least this, and longer the more payments are in flight. */
    leastMs: 100,
    /**
     * Bounds of the poll interval of a transaction that no endpoint has seen. Within these bounds,
     * the interval is three tenths of the transaction's age.
     */
    soonestMs: 150,
    latestMs: 1000,
    /**
     * Poll interval of an unseen transaction while the stream works. The stream reports landed
     * transactions, so fewer polls are needed.
     */
    streamedMs: 2000,
    /**
     * Poll interval of a landed transaction whose block is not rooted yet. A block is usually
     * rooted after 13 s. If the block is still not rooted, a poll shows whether a fork dropped the
     * block, or whether the notification of the landing was wrong.
     */
    landedMs: 15_000,
    /** A root arrives with every slot. If the newest root is older, the stream is silent. */
    rootAgeMs: 2000,
    /**
     * A landed transaction is usually final after 13 s. If it is not final after this time, the
     * endpoint that is polled may be stuck.
     */
    overdueMs: 30_000,
    /**
     * RPC nodes cache the statuses of about 150 blocks. The status of a transaction that is older
     * is read with searchTransactionHistory.
     */
    recentMs: 45_000,
  },
  settle: {
    idleMs: 500,
    expiryCheckMs: 2000,
    /**
     * Between two tries to settle a transaction. While the outcome is unknown, the time doubles
     * from `againMs` up to `latestMs`. If the transaction's data caused an error, it is `faultMs`.
     */
    againMs: 5000,
    latestMs: 300_000,
    faultMs: 60_000,
    renewMs: (LEASE_SECONDS * 1000) / 3,
  },
  sweep: {
    /**
     * Longest time between two reads of the sweep's position in Postgres. The position is read even
     * if no step is due, because another keeper may have started the next pass.
     */
    maxWaitMs: 30_000,
    /** Between two steps while the number of subscriptions is unknown. */
    stepMs: 1000,
    /**
     * Between two steps of a late sweep. Without this wait, the sweep would delay the collecting of
     * payments.
     */
    catchUpMs: 50,
  },
  /** When plans are read. These reads find changes that the streams missed. */
  plans: { everySeconds: 3600, blockedSeconds: 300, pendingAgeSeconds: 10 },
  unregistered: {
    /** Between two reads of addresses from the database. */
    everyMs: 300_000,
    /** Least time between two starts of a listing of all plans' accounts. */
    lapMs: 3_600_000,
  },
  /** If no check of the streams was complete for this time, the sweep starts as after a loss. */
  streams: { maxUncheckedMs: 3_600_000 },
  /**
   * Between two reads of a sufficient balance of SOL, while payments are in flight and while none
   * are. A low balance is read at every check.
   */
  balance: { spendingMs: 60_000, idleMs: 300_000 },
  sponsor: {
    followingMs: 250,
    idleMs: 5000,
    /**
     * Between two looks for offers to decide about, for `putOffForMs` after this keeper has put one
     * off.
     */
    putOffMs: 1000,
    putOffForMs: 60_000,
    orphansMs: 3000,
    lapseMs: 30_000,
    /**
     * In place of those above. The stream does not report the landing of these transactions, and a
     * page shows their progress: they are polled in every turn until they are confirmed.
     */
    poll: { soonestMs: 0, latestMs: 1000, streamedMs: 0, landedMs: 15_000 },
    settle: { expiryCheckMs: 2000, againMs: 1000, latestMs: 10_000, renewMs: 3000 },
  },
};

type Times<T> = { readonly [Name in keyof T]: T[Name] extends number ? number : Times<T[Name]> };
export type KeeperTimes = Times<typeof keeperTimes>;
