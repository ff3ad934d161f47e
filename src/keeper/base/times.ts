// The keeper's times.

/** When plans are read. These reads find changes that the streams missed. */
export const WATCH_TIMES = { everySeconds: 3600, blockedSeconds: 300, pendingAgeSeconds: 10 };
