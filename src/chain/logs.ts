// Reads the program's calls out of a transaction's logs, without a request for the transaction.

const INVOKED = /^Program (\w{32,44}) invoke \[\d+\]$/;
const ENDED = /^Program (\w{32,44}) (success$|failed: )/;

interface Call {
  readonly programId: string;
  told: boolean;
}

/**
 * Whether `programId` was called without telling an event, which it does by calling itself (docs/chain.md, Events): a wallet's authority that was opened or
 * closed, an account or a plan that was closed. Logs that were cut short count as such.
 */
export function hasSilentCall(logs: readonly string[], programId: string): boolean {
  const stack: Call[] = [];
  for (const line of logs) {
    if (line === 'Log truncated') return true;
    const [, invoked] = INVOKED.exec(line) ?? [];
    if (invoked !== undefined) {
      const caller = stack.at(-1);
      if (caller?.programId === programId && invoked === programId) caller.told = true;
      stack.push({
        programId: invoked,
        told: caller?.programId === programId && invoked === programId,
      });
    } else if (ENDED.test(line)) {
      const ended = stack.pop();
      if (ended?.programId === programId && !ended.told) return true;
    }
  }
  return false;
}
