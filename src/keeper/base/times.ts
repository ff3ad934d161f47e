// The keeper's times by its own clock, in ms unless a name states another unit. All parts of the
// keeper read them from the Context, so that tests can use shorter times. Times by the chain's
// clock are rules and are defined in domain/.
import { LEASE_SECONDS } from '../../domain/collecting/settlement.ts';

export const keeperTimes = {
  /**
   * Pauses between two turns of the loop with the field's name, unless the field's comment says
   * otherwise.
   */
  loops: {
    /**
     * How long a stop waits for payments in flight. Other keepers take over the payments that
     * remain.
     */
    graceMs: 8000,
    /** Interval between two checks whether collecting may begin, while it may not. */
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
    /** The shortest wait before the next claim. */
    leastWaitMs: 100,
    /**
     * Each claim continues behind the last claimed subscription, in order of due time. After this
     * time, claiming starts again at the earliest due time, because other subscriptions with an
     * earlier due time may have become due.
     */
    passMs: 2000,
  },
  clocks: {
    /** How long the readings of all endpoints are used while none contradicts another. */
    recentMs: 10_000,
    /** How long endpoints may contradict each other before an alert is raised. */
    disputeMs: 60_000,
    /** Minimum time between two alerts about contradicting clocks. */
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
     * last send, it may have landed. The interval is then three times as long.
     */
    resendMs: 2000,
    resendScanMs: 500,
    /** Pause of a send loop after the rate limit allowed no send. */
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
     * Interval between two tries to settle a transaction. While the outcome is unknown, the
     * interval doubles from `againMs` up to `latestMs`. After an error caused by the transaction's
     * data, it is `faultMs`.
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
    /** Interval between two steps while the number of subscriptions is unknown. */
    stepMs: 1000,
    /**
     * Pause between two steps of a late sweep. Without this pause, the sweep would delay the
     * collecting of payments.
     */
    catchUpMs: 50,
  },
  /** Intervals at which plans are read. These reads find changes that the streams missed. */
  plans: { everySeconds: 3600, blockedSeconds: 300, pendingAgeSeconds: 10 },
  unregistered: {
    /** Interval between two reads of addresses from the database. */
    everyMs: 300_000,
    /** Minimum time between two starts of a listing of all plans' accounts. */
    lapMs: 3_600_000,
  },
  /**
   * If no check of the streams was complete for this time, the sweep starts as after lost messages.
   */
  streams: { maxUncheckedMs: 3_600_000 },
  /**
   * How often a SOL balance is read while it suffices: every `spendingMs` while payments are in
   * flight, else every `idleMs`. A low balance is read at every check.
   */
  balance: { spendingMs: 60_000, idleMs: 300_000 },
  sponsor: {
    followingMs: 250,
    idleMs: 5000,
    /**
     * Interval at which a keeper looks for offers again after it has postponed one, for
     * `putOffForMs`.
     */
    putOffMs: 1000,
    putOffForMs: 60_000,
    orphansMs: 3000,
    lapseMs: 30_000,
    /**
     * Replaces the poll times above for sponsored transactions. The stream does not report their
     * landing, and a page shows their progress, so they are polled in every turn until they are
     * confirmed.
     */
    poll: { soonestMs: 0, latestMs: 1000, streamedMs: 0, landedMs: 15_000 },
    settle: { expiryCheckMs: 2000, againMs: 1000, latestMs: 10_000, renewMs: 3000 },
  },
};

type Times<T> = { readonly [Name in keyof T]: T[Name] extends number ? number : Times<T[Name]> };
export type KeeperTimes = Times<typeof keeperTimes>;
