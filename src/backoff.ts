/**
 * Backoff in milliseconds before try `attempt` (1, 2, 3...): doubles from `base` up to `cap`, with
 * the upper half random ("equal jitter"), so that processes that failed together do not retry
 * together.
 */
export function backoff(
  attempt: number,
  { base = 100, cap = 10_000, random = Math.random } = {},
): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempt - 1, 30));
  return ceiling / 2 + (ceiling / 2) * random();
}
