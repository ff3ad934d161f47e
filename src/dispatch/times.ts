// The dispatcher's times (ms). They are passed to the parts, so that tests can use shorter times.
// The times that merchants are promised are defined in webhooks/ and deliver.ts.
const HOUR_MS = 3_600_000;

export const dispatchTimes = {
  /**
   * Minimum remaining validity of a claim after the request's deadline, for writing the outcome.
   */
  marginMs: 500,
  gaugesMs: 15_000,
  poll: {
    everyMs: 1000,
    /** Maximum pause after a long sweep. */
    maxPauseMs: 10_000,
  },
  claim: {
    /** Deliveries are prefetched for as many requests as an endpoint answers in this time. */
    aheadMs: 100,
    /** How long an endpoint is skipped by claims after its host had too many deliveries. */
    crowdedMs: 1000,
    /**
     * A claim continues an endpoint's queue at the due_at of the last claimed row. Because a row
     * can be committed after its due_at, the claim also reads all rows that became due in this last
     * time. Rows that are committed even later are found by a claim that reads the queue from its
     * start.
     */
    commitMs: 10_000,
    /**
     * Once per this interval, a claim reads a busy endpoint's queue from its start, to find rows
     * with expired claims. Such rows keep their old due_at, so they are near the start.
     */
    fromStartMs: 30_000,
    /**
     * After this idle time the state of an endpoint is dropped. The endpoint then starts again with
     * a window of one request.
     */
    forgetMs: 600_000,
  },
  /**
   * After a large batch of outcomes, the next batch is collected for this time, at half the cost.
   */
  gatherMs: 10,
  health: { writeMs: 2000, purgeMs: HOUR_MS, disableMs: 60_000 },
  retention: {
    idleMs: HOUR_MS,
    /**
     * Delay until the next try if a table lock was not free. The delay is long, because a dump of
     * the database can hold the lock for hours, and each try briefly blocks other statements.
     */
    lockedMs: 300_000,
  },
  mail: {
    idleMs: 30_000,
    purgeMs: HOUR_MS,
    connectMs: 10_000,
    silenceMs: 30_000,
    /** Delays after failed attempts, in minutes. The sixth failure is final. */
    retryMinutes: [1, 5, 30, 120, 720],
  },
};

export type DispatchTimes = typeof dispatchTimes;
