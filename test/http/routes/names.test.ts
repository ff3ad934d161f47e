// Names that are refused over the API: of apps, plans and merchants.
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertPlan } from '../../fixtures/rows.ts';

void t.test(
  'a name with hidden characters or mixed scripts gets VALIDATION_ERROR for `name` on every route',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { token, appId } = merchant;
    const planId = await insertPlan(api.sql, merchant);
    const app = `/merchant/apps/${appId}`;
    const places: ['POST' | 'PATCH', string, object][] = [
      ['POST', '/merchant/apps', {}],
      ['PATCH', app, {}],
      ['POST', `${app}/plans`, { amount: '1000000', periodHours: 24 }],
      ['PATCH', `${app}/plans/${planId}`, {}],
      ['PATCH', '/merchant/profile', {}],
    ];
    const refused = {
      status: 400,
      body: {
        error: {
          code: 'VALIDATION_ERROR',
          details: [{ path: 'name', message: /one living script in each word/ }],
        },
      },
    };
    for (const [method, path, rest] of places)
      for (const name of ['C\u043effee', 'Cof\u200bfee', 'Z\u0300\u0301\u0302', 'x\ue000'])
        t.match(await api.call(method, path, { token, body: { ...rest, name } }), refused, path);
    for (const [method, path] of places.filter(([method]) => method === 'PATCH'))
      t.match(
        await api.call(method, path, { token, body: { name: 'Zoë’s コーヒー' } }),
        { status: 200 },
        path,
      );
  },
);

void t.test('ids and metadata keys of merchants may mix scripts', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const planId = await insertPlan(api.sql, merchant);
  const answer = await api.call('POST', `/merchant/apps/${merchant.appId}/checkout-sessions`, {
    token: merchant.token,
    body: { planId, externalId: 'kunde-ж1x', metadata: { жx: '1' } },
  });
  t.not(answer.status, 400, answer.text);
});
