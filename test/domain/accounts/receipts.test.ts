// URLs of receipts: one per payment, the same whenever it is made, and none without the key.
import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { isReceiptToken, receiptUrl } from '../../../src/domain/accounts/receipts.ts';

void t.test('a receipt’s URL is stable for a payment and differs between payments', async (t) => {
  const key = randomBytes(32);
  const links = { key, publicUrl: 'https://billing.example' };
  const payment = {
    subscriptionId: randomUUID(),
    txSignature: 'signature',
    periodStart: new Date('2026-01-01'),
  };
  const credited = { ...payment, txSignature: null };
  const others = [
    credited,
    { ...credited, periodStart: new Date('2026-02-01') },
    { ...payment, txSignature: 'other' },
    { ...payment, subscriptionId: randomUUID() },
  ];
  const url = receiptUrl(links, payment);
  t.equal(url, receiptUrl(links, { ...payment, periodStart: new Date() }), 'the signature decides');
  const urls = [payment, ...others].map((one) => receiptUrl(links, one));
  const tokens = urls.map((one) => String(one).split('/').at(-1));
  t.equal(new Set(tokens).size, urls.length);
  for (const token of tokens) t.match(token, /^[\w-]{43}$/, '256 bits');
  t.not(receiptUrl({ ...links, key: randomBytes(32) }, payment), url);
  t.equal(receiptUrl({ key, publicUrl: null }, payment), null);

  const [subscriptionId = '', reference = '', token = ''] = String(url).split('/').slice(-3);
  t.ok(isReceiptToken(key, subscriptionId, reference, token));
  t.notOk(isReceiptToken(key, randomUUID(), reference, token));
  t.notOk(isReceiptToken(key, subscriptionId, 'other', token));
  for (const wrong of ['', token.slice(1), `${token}A`, token.toLowerCase()])
    t.notOk(isReceiptToken(key, subscriptionId, reference, wrong));
});
