// The URLs of receipts. A URL ends with a token of 256 bits: an HMAC of the payment under a key of
// the installation. No token is stored, and a restored payment has the same URL as before.
import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * The key of the tokens and the base of the URLs. `publicUrl` is null until `serve` first starts.
 */
export interface ReceiptLinks {
  readonly key: Uint8Array;
  readonly publicUrl: string | null;
}

/**
 * The fields that identify a succeeded payment. If the payment's row is lost and restored, the
 * fields stay the same.
 */
interface Receipted {
  readonly subscriptionId: string;
  readonly txSignature: string | null;
  readonly periodStart: Date;
}

/**
 * The part of the URL that names the payment: its signature or, without a signature, the start of
 * its period in Unix seconds.
 */
function referenceOf({ txSignature, periodStart }: Receipted): string {
  return txSignature ?? String(periodStart.getTime() / 1000);
}

/** Returns the URL of a payment's receipt. */
export function receiptUrl({ key, publicUrl }: ReceiptLinks, payment: Receipted): string | null {
  if (publicUrl === null) return null;
  const { subscriptionId } = payment;
  const reference = referenceOf(payment);
  const token = receiptToken(key, subscriptionId, reference).toString('base64url');
  return `${publicUrl}/receipts/${subscriptionId}/${reference}/${token}`;
}

function receiptToken(key: Uint8Array, subscriptionId: string, reference: string): Buffer {
  return createHmac('sha256', key).update(`${subscriptionId}/${reference}`).digest();
}

/** Whether `token` is the token of this receipt. Compares in constant time. */
export function isReceiptToken(
  key: Uint8Array,
  subscriptionId: string,
  reference: string,
  token: string,
): boolean {
  const expected = receiptToken(key, subscriptionId, reference).toString('base64url');
  const [givenBytes, expectedBytes] = [Buffer.from(token), Buffer.from(expected)];
  return givenBytes.length === expectedBytes.length && timingSafeEqual(givenBytes, expectedBytes);
}
