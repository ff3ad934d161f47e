// What the dashboard offers to refund is what the API accepts.
import t from 'tap';
import { pendingRefunds, refundable } from '../../../../src/pages/dashboard/payments/refundable.ts';

const payment = {
  status: 'succeeded' as const,
  amountNet: '9900000',
  amountRefunded: '1000000',
  amountCredited: '0',
};

void t.test('the refundable amount excludes recorded and pending refunds', (t) => {
  t.equal(refundable(payment), 8_900_000n);
  const refunds = [
    { status: 'pending' as const, amount: '400000' },
    { status: 'succeeded' as const, amount: '1000000' },
    { status: 'expired' as const, amount: '7000000' },
  ];
  t.equal(refundable(payment, refunds), 8_500_000n);
  t.equal(pendingRefunds(refunds), 400_000n);
  t.end();
});

void t.test('the refundable amount excludes what a change of plan has credited', (t) => {
  t.equal(refundable({ ...payment, amountCredited: '6000000' }), 2_900_000n);
  t.equal(refundable({ ...payment, amountCredited: '9900000' }), 0n);
  t.end();
});

void t.test('a failed payment has no refundable amount', (t) => {
  t.equal(refundable({ ...payment, status: 'failed' }), 0n);
  t.end();
});
