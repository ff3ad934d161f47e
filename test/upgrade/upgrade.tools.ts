// The short form of `npm run upgrade`.
import t from 'tap';
import { playUpgrade, upgradeBreaches } from './upgrade.ts';

void t.test(
  'an upgrade of the service under load loses no payment, event or request',
  async (t) => {
    const settings = { rows: 5000, rate: 6, subscribers: 12 };
    const row = await playUpgrade(settings);
    t.same(upgradeBreaches(row, settings.rows), []);
    t.ok(row.answered > 0, 'lists were read meanwhile');
  },
);
