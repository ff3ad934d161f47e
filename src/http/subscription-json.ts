// The JSON of a page of subscriptions out of the text that src/db/subscription-pages.ts reads. It must say what the schema of a subscription
// says: test/http/routes/subscriptions.test.ts compares the two.

/** The id of a line. */
export function idOfLine(line: string): string {
  return line.slice(0, line.indexOf('\t'));
}

/** One subscription as JSON text. Only `endReason` can hold a character that JSON escapes, and it comes escaped. */
export function subscriptionJson(line: string, { appId, merchantWallet }: { appId: string; merchantWallet: string }): string {
  // In the statement's order.
  const [
    id,
    planId,
    pda,
    wallet,
    status,
    amount,
    hours,
    paidThrough,
    due,
    cancelAt,
    cancelBy,
    cancelledAt,
    revokedAt,
    reason,
    at,
    updatedAt,
  ] = line.split('\t') as Fields;
  return (
    `{"id":"${id}","appId":"${appId}","planId":"${planId}","subscriptionPda":"${pda}","subscriberWallet":"${wallet}",` +
    `"merchantWallet":"${merchantWallet}","status":"${status}","amount":"${amount}","periodHours":${hours},"paidThrough":${time(paidThrough)},` +
    `"nextPaymentDue":${time(due)},"cancelRequestedAt":${time(cancelAt)},"cancelRequestedBy":${cancelBy === '' ? 'null' : `"${cancelBy}"`},` +
    `"cancelledAt":${time(cancelledAt)},"delegationRevokedAt":${time(revokedAt)},"endReason":${reason === '' ? 'null' : reason},` +
    `"createdAt":${time(at)},"updatedAt":${time(updatedAt)}}`
  );
}

type Text = string;
type Fields = [Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text, Text];

/** 2026-01-31 12:00:00.123456+00 (fewer digits, or none) as "2026-01-31T12:00:00.123Z"; nothing as null. */
function time(text: string): string {
  if (text === '') return 'null';
  const milliseconds = text.charAt(19) === '.' ? text.slice(20, -3).slice(0, 3).padEnd(3, '0') : '000';
  return `"${text.slice(0, 10)}T${text.slice(11, 19)}.${milliseconds}Z"`;
}
