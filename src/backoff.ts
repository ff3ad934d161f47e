/**
 * Returns the delay in milliseconds before retry number `attempt` (1, 2, 3...). The delay doubles
 * from `base` up to `cap`. Half of the delay is random ("equal jitter"), so that processes that
 * failed at the same time retry at different times.
 */
export function backoff(
  attempt: number,
  { base = 100, cap = 10_000, random = Math.random } = {},
): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempt - 1, 30));
  return ceiling / 2 + (ceiling / 2) * random();
}
