// Finds calls of the Subscriptions program in a transaction's logs. Streams deliver logs, so the
// transaction itself need not be requested.

const INVOKED = /^Program (\w{32,44}) invoke \[\d+\]$/;
const ENDED = /^Program (\w{32,44}) (success$|failed: )/;

interface Call {
  readonly programId: string;
  hasEvent: boolean;
}

/**
 * Whether at least one call of `programId` emitted no event (docs/chain.md, Events). Calls that
 * open or close an authority or a plan, or close a subscription, emit no event. Returns true for
 * truncated logs, because they may hide such a call.
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
