// Rate limits that all API processes share. A subject (a caller or an address) has a budget of
// requests per window of time. Postgres stores the counts. One SQL statement counts all requests of
// an event-loop turn. If a subject's budget is spent, the limiter refuses the request from memory.
import type { Tier } from '../../db/accounts/merchants.ts';
import { spendBudgets, type Grant } from '../../db/accounts/rate-budgets.ts';
import type { Sql } from '../../db/postgres/connect.ts';

const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
/** When memory has this many windows, ended windows are deleted from memory. */
const SWEEP_ABOVE = 10_000;
/**
 * If memory has this many windows even after the ended windows were deleted, all windows are
 * deleted from memory. No count is lost, because Postgres has the counts.
 */
const MAX_WINDOWS = 200_000;
/**
 * Minimum milliseconds between two scans for ended windows. A scan for every request would be
 * quadratic in the number of callers.
 */
const SWEEP_MS = 1000;

export interface Allowance {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** Whole seconds until the subject has its full budget again. */
  resetSeconds: number;
}

export interface Limiter {
  /** Counts one request of `subject`. */
  spend(subject: string, limit: number): Promise<Allowance>;
  /** Returns the last known state of `subject` without counting a request. */
  peek(subject: string, limit: number): Allowance;
}

interface Window {
  spent: number;
  /** End of the window by performance.now(). */
  endsAt: number;
}

/** Requests of one subject in one event-loop turn. One statement counts all these requests. */
interface Turn {
  limit: number;
  waiting: { resolve: (allowance: Allowance) => void; reject: (error: unknown) => void }[];
}

/**
 * Creates a limiter that counts in the database `sql`, in windows of `windowMs`. All limiters of a
 * database share their counts.
 */
export function createLimiter(sql: Sql, windowMs = MINUTE_MS): Limiter {
  const windows = new Map<string, Window>();
  let sweptAt = -Infinity;
  let turn: Map<string, Turn> | undefined;

  const live = (subject: string) => {
    const window = windows.get(subject);
    return window !== undefined && performance.now() < window.endsAt ? window : undefined;
  };

  const keep = ({ subject, spent, remainingMs }: Grant): Window => {
    const now = performance.now();
    if (windows.size >= SWEEP_ABOVE && now - sweptAt >= SWEEP_MS) {
      sweptAt = now;
      for (const [name, { endsAt }] of windows) if (endsAt <= now) windows.delete(name);
      if (windows.size >= MAX_WINDOWS) windows.clear();
    }
    const window = { spent, endsAt: now + remainingMs };
    windows.set(subject, window);
    return window;
  };

  const spendTurn = async (budgets: Map<string, Turn>) => {
    try {
      const spendings = [...budgets].map(([subject, { limit, waiting }]) => ({
        subject,
        limit,
        count: waiting.length,
      }));
      for (const budget of await spendBudgets(sql, spendings, windowMs)) {
        const { limit, waiting } = budgets.get(budget.subject) as Turn;
        const window = keep(budget);
        waiting.forEach(({ resolve }, index) => {
          const allowed = index < budget.granted;
          // The statement counted several requests of one subject. Each response shows the budget
          // as if these requests had been counted one by one.
          const later = allowed ? budget.granted - index - 1 : 0;
          resolve(allowance({ ...window, spent: window.spent - later }, limit, allowed));
        });
      }
    } catch (error) {
      for (const { waiting } of budgets.values()) for (const { reject } of waiting) reject(error);
    }
  };

  return {
    spend(subject, limit) {
      const window = live(subject);
      if (window !== undefined && window.spent >= limit)
        return Promise.resolve(allowance(window, limit, false));
      if (turn === undefined) {
        const budgets = new Map<string, Turn>();
        turn = budgets;
        // setImmediate runs after Node has read all readable sockets, so one statement counts the
        // requests of all these sockets.
        setImmediate(() => {
          turn = undefined;
          void spendTurn(budgets);
        });
      }
      const entry = turn.get(subject) ?? { limit, waiting: [] };
      entry.limit = limit;
      turn.set(subject, entry);
      return new Promise((resolve, reject) => entry.waiting.push({ resolve, reject }));
    },
    peek(subject, limit) {
      return allowance(live(subject), limit, true);
    },
  };
}

function allowance(window: Window | undefined, limit: number, allowed: boolean): Allowance {
  return {
    allowed,
    limit,
    remaining: Math.max(0, limit - (window?.spent ?? 0)),
    resetSeconds:
      window === undefined
        ? MINUTE_MS / 1000
        : Math.max(1, Math.ceil((window.endsAt - performance.now()) / 1000)),
  };
}
/**
 * Requests per minute by tier (docs/contract.md, Limits). Subscribers have the limit of the tier
 * `free`. The limits of addresses are multiples of this limit.
 */
export const requestsPerMinute: Record<Tier, number> = { free: 100, pro: 1000 };
