import t from 'tap';
import { parseSelection } from '../../../src/cli/operate/delivery-filters.ts';

const id = '01a1fd7a-183d-7a6e-8756-a417420d830b';

void t.test('replay turns ids or filters into a selection of deliveries', async (t) => {
  t.match(parseSelection([id.toUpperCase(), id], {}), { ids: [id], appId: null, endpointId: null });
  t.same(
    parseSelection([], {
      app: id,
      status: 'failed',
      type: 'payment_success',
      since: '2026-01-01',
      until: '2026-02-01T12:00:00+02:00',
    }),
    {
      ids: null,
      endpointId: null,
      appId: id,
      status: 'failed',
      type: 'payment_success',
      since: new Date('2026-01-01T00:00:00Z'),
      until: new Date('2026-02-01T10:00:00Z'),
    },
  );
});

void t.test('replay with a wrong filter prints the right form and exits with code 2', async (t) => {
  const wrong: [string[], Parameters<typeof parseSelection>[1], RegExp][] = [
    [[], {}, /--webhook <id>, or --app <id>/],
    [[], { status: 'failed' }, /--webhook <id>, or --app <id>/],
    [[], { app: id, webhook: id }, /--webhook <id>, or --app <id>/],
    [[id], { app: id }, /not both/],
    [['7'], {}, /"7" is not an id/],
    [[], { app: 'x' }, /"x" is not an id/],
    [[], { app: id, status: 'lost' }, /--status must be one of pending/],
    [[], { webhook: id, status: 'unsent' }, /needs --app/],
    [[], { app: id, type: 'constructor' }, /--type must be one of subscription_created/],
    [[], { app: id, since: 'yesterday' }, /--since must be a time such as 2026-11-21T09:00:00Z/],
    [[], { app: id, until: '12' }, /--until must be a time such as 2026-11-21T09:00:00Z/],
  ];
  for (const [ids, flags, message] of wrong)
    t.throws(() => parseSelection(ids, flags), { message, exitCode: 2 }, String(message));
});
