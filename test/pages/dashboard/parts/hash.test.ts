// The fragment of the dashboard's URL.
import t from 'tap';
import { formatHash, readHash } from '../../../../src/pages/dashboard/parts/hash.ts';

void t.test('the URL fragment stores the view, the row, the app and the filters', (t) => {
  for (const [text, hash] of [
    ['#/?app=a1', { view: '', id: undefined, app: 'a1', filters: {} }],
    ['#/plans', { view: 'plans', id: undefined, app: undefined, filters: {} }],
    ['#/payments/p1?app=a1', { view: 'payments', id: 'p1', app: 'a1', filters: {} }],
    ['#/search/a%2Fb%3F%25?app=a1', { view: 'search', id: 'a/b?%', app: 'a1', filters: {} }],
    [
      '#/?app=a1&from=2026-01-01&to=&plan=p%261',
      { view: '', id: undefined, app: 'a1', filters: { from: '2026-01-01', to: '', plan: 'p&1' } },
    ],
  ] as const) {
    t.same(readHash(text), hash);
    t.equal(formatHash(hash), text);
  }
  t.equal(formatHash({ ...readHash('#/?days=7'), filters: { days: undefined } }), '#/');
  t.end();
});

void t.test('an empty or badly encoded URL fragment is read without an error', (t) => {
  t.same(readHash(''), { view: '', id: undefined, app: undefined, filters: {} });
  t.same(readHash('#/search/%'), { view: 'search', id: '%', app: undefined, filters: {} });
  t.end();
});
