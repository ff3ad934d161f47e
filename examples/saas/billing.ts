// The three things that a shop needs of billing: a checkout link, the access of a customer, and the
// verification of a webhook.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Reads a variable. `billing dev` writes all of them into dev/env. */
function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') {
    console.error(`${name} is not set: see README.md`);
    process.exit(1);
  }
  return value;
}

const url = variable('BILLING_API_URL');
const key = variable('BILLING_API_KEY');
const secret = variable('WEBHOOK_SECRET');
const app = variable('APP');
const plan = variable('PLAN');

interface Envelope<T> {
  success: boolean;
  data: T;
  error?: { code: string; message: string };
}

async function call<T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  });
  const answer = (await response.json()) as Envelope<T>;
  if (!answer.success) throw new Error(`${method} ${path}: ${answer.error?.message}`);
  return answer.data;
}

/** Returns the page on which the customer's wallet subscribes. */
export async function checkoutUrl(customer: string, returnTo?: string): Promise<string> {
  const session = await call<{ url: string }>('POST', `/merchant/apps/${app}/checkout-sessions`, {
    planId: plan,
    externalId: customer,
    ...(returnTo !== undefined && { successUrl: returnTo, cancelUrl: returnTo }),
  });
  return session.url;
}

export interface Access {
  hasAccess: boolean;
  accessUntil: string | null;
  revalidateAfter: string;
  reason: string;
  subscriptionId: string | null;
}

const answers = new Map<string, Access>();

/** Returns the access of a customer. An answer is valid until `revalidateAfter`, or an event. */
export async function accessOf(customer: string): Promise<Access> {
  const kept = answers.get(customer);
  if (kept !== undefined && new Date(kept.revalidateAfter) > new Date()) return kept;
  const query = new URLSearchParams({ externalId: customer });
  const access = await call<Access>('GET', `/merchant/apps/${app}/access?${query}`);
  answers.set(customer, access);
  return access;
}

/** Call it with each event of a customer, so that the next request asks again. */
export function forgetAccess(customer: string): void {
  answers.delete(customer);
}

/** Ends the subscription with its paid period. */
export function cancel(subscriptionId: string): Promise<unknown> {
  return call('POST', `/merchant/apps/${app}/subscriptions/${subscriptionId}/cancel`, {});
}

export interface BillingEvent {
  id: string;
  type: string;
  data: { externalId?: string | null; failureReason?: string };
}

/** Returns the event of a request, or undefined when the request is not from billing. */
export function verifiedEvent(
  body: Buffer,
  signature = '',
  timestamp = '',
): BillingEvent | undefined {
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300)
    return undefined;
  const hash = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
  const [given, wanted] = [Buffer.from(signature), Buffer.from(`sha256=${hash}`)];
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
  return JSON.parse(body.toString()) as BillingEvent;
}
