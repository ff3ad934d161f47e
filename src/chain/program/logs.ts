// Finds the program's calls in a transaction's logs, which saves a request for the transaction.

const INVOKED = /^Program (\w{32,44}) invoke \[\d+\]$/;
const ENDED = /^Program (\w{32,44}) (success$|failed: )/;

interface Call {
  readonly programId: string;
  hasEvent: boolean;
}

/**
 * Whether a call of `programId` emitted no event; the program emits events by calling itself
 * (docs/chain.md, Events). Such calls open or close an authority, or close a subscription or plan.
 * Truncated logs count as such a call.
 */
export function hasSilentCall(logs: readonly string[], programId: string): boolean {
  const stack: Call[] = [];
  for (const line of logs) {
    if (line === 'Log truncated') return true;
    const [, invoked] = INVOKED.exec(line) ?? [];
    if (invoked !== undefined) {
      const caller = stack.at(-1);
      if (caller?.programId === programId && invoked === programId) caller.hasEvent = true;
      stack.push({
        programId: invoked,
        hasEvent: caller?.programId === programId && invoked === programId,
      });
    } else if (ENDED.test(line)) {
      const ended = stack.pop();
      if (ended?.programId === programId && !ended.hasEvent) return true;
    }
  }
  return false;
}
