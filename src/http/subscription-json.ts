// The JSON of a page of subscriptions out of the text that src/db/subscription-pages.ts reads. It must say what the schema of a subscription
// says: test/http/routes/subscriptions.test.ts compares the two.
import { subscriptionFields } from '../db/subscription-pages.ts';

type Line = Record<(typeof subscriptionFields)[number], string>;

/** The id of a line. */
export function idOfLine(line: string): string {
  return line.slice(0, line.indexOf('\t'));
}

/** One subscription as JSON text. Only `endReason` can hold a character that JSON escapes, and it comes escaped. */
export function subscriptionJson(line: string, { appId, merchantWallet }: { appId: string; merchantWallet: string }): string {
  const values = line.split('\t');
  const at = (field: keyof Line) => values[subscriptionFields.indexOf(field)] ?? '';
  const by = at('cancelRequestedBy');
  const reason = at('endReason');
  return (
    `{"id":"${at('id')}","appId":"${appId}","planId":"${at('planId')}","subscriptionPda":"${at('subscriptionPda')}",` +
    `"subscriberWallet":"${at('subscriberWallet')}","merchantWallet":"${merchantWallet}","status":"${at('status')}","amount":"${at('amount')}",` +
    `"periodHours":${at('periodHours')},"paidThrough":${time(at('paidThrough'))},"nextPaymentDue":${time(at('nextPaymentDue'))},` +
    `"cancelRequestedAt":${time(at('cancelRequestedAt'))},"cancelRequestedBy":${by === '' ? 'null' : `"${by}"`},` +
    `"cancelledAt":${time(at('cancelledAt'))},"delegationRevokedAt":${time(at('delegationRevokedAt'))},` +
    `"endReason":${reason === '' ? 'null' : reason},"createdAt":${time(at('createdAt'))},"updatedAt":${time(at('updatedAt'))}}`
  );
}

/** 2026-01-31 12:00:00.123456+00 (fewer digits, or none) as "2026-01-31T12:00:00.123Z"; nothing as null. */
function time(text: string): string {
  if (text === '') return 'null';
  const milliseconds = text.charAt(19) === '.' ? text.slice(20, -3).slice(0, 3).padEnd(3, '0') : '000';
  return `"${text.slice(0, 10)}T${text.slice(11, 19)}.${milliseconds}Z"`;
}
