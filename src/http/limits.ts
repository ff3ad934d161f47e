// Rate limits over all serve processes (decisions.md): each process holds a lease of a subject's minute and spends from it in memory, so that a
// request costs no round trip while the lease lasts. Leases come out of one row per subject, so what all processes let through never exceeds the
// limit. They shrink with what is left; a process that finds nothing left asks the others for what they hold before it refuses anybody.
import { setTimeout as pause } from 'node:timers/promises';
import type { Sql } from '../db/connect.ts';
import { askForLeases, type Grant, onLeasesAskedFor, returnLease, takeLease } from '../db/rate-budgets.ts';

const windowMs = 60_000;
/** A lease is this part of what is left, so that several processes get theirs. */
const leasePart = 8;
/** Milliseconds in which the other processes can give their leases back. */
const returnMs = 50;
const sweepAbove = 10_000;

export interface Standing {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** Whole seconds until the window ends. */
  resetSeconds: number;
}

export interface Limiter {
  /** Spends one request: out of the lease in hand, or after a word with Postgres. */
  spend(subject: string, limit: number): Promise<Standing>;
  /** What is known here, without spending. */
  peek(subject: string, limit: number): Standing;
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface Budget {
  limit: number;
  window: string;
  /** By performance.now(). */
  endsAt: number;
  granted: number;
  /** Of the lease. */
  left: number;
  /** Nobody has anything left in this window. */
  exhausted: boolean;
}

export function createLimiter(sql: Sql, onError: (error: unknown) => void): Limiter {
  const budgets = new Map<string, Budget>();
  const refills = new Map<string, Promise<Budget>>();
  let sweepAt = sweepAbove;
  let unlisten: (() => Promise<void>) | undefined;

  const live = (subject: string) => {
    const budget = budgets.get(subject);
    return budget !== undefined && performance.now() < budget.endsAt ? budget : undefined;
  };

  const standing = (budget: Budget, allowed: boolean): Standing => ({
    allowed,
    limit: budget.limit,
    remaining: Math.max(0, budget.limit - budget.granted) + budget.left,
    resetSeconds: Math.max(1, Math.ceil((budget.endsAt - performance.now()) / 1000)),
  });

  const keep = (subject: string, budget: Budget) => {
    if (budgets.size >= sweepAt) {
      const now = performance.now();
      for (const [name, { endsAt }] of budgets) if (endsAt <= now) budgets.delete(name);
      sweepAt = Math.max(sweepAbove, budgets.size * 2);
    }
    budgets.set(subject, budget);
    return budget;
  };

  const giveBack = (subject: string) => {
    const budget = live(subject);
    if (budget === undefined || budget.left === 0) return;
    const unspent = budget.left;
    budget.left = 0;
    budget.granted -= unspent;
    returnLease(sql, { subject, window: budget.window, unspent }).catch(onError);
  };

  const take = async (subject: string, limit: number, part: number): Promise<Budget> => {
    const grant: Grant = await takeLease(sql, { subject, limit, windowMs, part });
    const held = live(subject);
    // Of the same window there may be something left: a lease under another limit.
    const left = held?.window === grant.window ? held.left : 0;
    return keep(subject, {
      limit,
      window: grant.window,
      endsAt: performance.now() + grant.remainingMs,
      granted: grant.granted,
      left: left + grant.lease,
      exhausted: false,
    });
  };

  const refill = async (subject: string, limit: number): Promise<Budget> => {
    const budget = await take(subject, limit, leasePart);
    if (budget.left > 0) return budget;
    await askForLeases(sql, subject);
    await pause(returnMs);
    const again = await take(subject, limit, limit);
    again.exhausted = again.left === 0;
    return again;
  };

  const trySpend = (subject: string, limit: number): Standing | undefined => {
    const budget = live(subject);
    if (budget?.limit !== limit) return undefined;
    if (budget.left > 0) {
      budget.left -= 1;
      return standing(budget, true);
    }
    return budget.exhausted ? standing(budget, false) : undefined;
  };

  return {
    async spend(subject, limit) {
      for (;;) {
        const spent = trySpend(subject, limit);
        if (spent !== undefined) return spent;
        // A lease under another limit (the tier has changed) goes back first. However many wait, one asks.
        if (live(subject)?.limit !== limit) giveBack(subject);
        let refilling = refills.get(subject);
        if (refilling === undefined) {
          refilling = refill(subject, limit).finally(() => refills.delete(subject));
          refills.set(subject, refilling);
        }
        await refilling;
      }
    },
    peek(subject, limit) {
      const budget = live(subject);
      return budget === undefined ? { allowed: true, limit, remaining: limit, resetSeconds: windowMs / 1000 } : standing(budget, true);
    },
    async start() {
      unlisten = await onLeasesAskedFor(sql, (subject) => {
        // A process that asks has nothing left of its own.
        if (!refills.has(subject)) giveBack(subject);
      });
    },
    async stop() {
      await unlisten?.();
    },
  };
}
