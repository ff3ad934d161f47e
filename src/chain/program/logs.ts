// Finds calls of the Subscriptions program in a transaction's logs. Streams deliver logs, so the
// transaction itself need not be requested.

const INVOKED = /^Program (\w{32,44}) invoke \[\d+\]$/;
const ENDED = /^Program (\w{32,44}) (success$|failed: )/;

interface Call {
  readonly programId: string;
  hasEvent: boolean;
}

/**
 * Whether at least one call of `programId` emitted no event. The program emits an event by calling
 * itself (docs/chain.md, Events). A call without an event opens or closes an authority, or closes a
 * subscription or plan. Truncated logs may hide such a call, so the result for them is true.
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
