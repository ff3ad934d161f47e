import type { Tier } from '../db/merchants.ts';

/** Requests per minute (docs/contract.md, Limits). Subscribers, and addresses that sign in, have what Free has. */
export const requestsPerMinute: Record<Tier, number> = { free: 100, pro: 1000 };
