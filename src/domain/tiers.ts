import type { Tier } from '../db/merchants.ts';

/** Requests per minute by tier (docs/contract.md, Limits). Subscribers and addresses have the limit of `free`. */
export const requestsPerMinute: Record<Tier, number> = { free: 100, pro: 1000 };
