import type { Tier } from '../db/merchants.ts';

/** Requests per minute (service.md, Limits). Subscribers, and addresses that sign in, have what Free has (decisions.md). */
export const requestsPerMinute: Record<Tier, number> = { free: 100, pro: 1000 };
