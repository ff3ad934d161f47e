// Every alert rule has a fault that it is tried with; alerts.tools.ts has promtool judge them.
import t from 'tap';
import { troubles, well } from '../fixtures/alert-scenarios.ts';
import { rules } from '../fixtures/monitoring.ts';

void t.test(
  'every alert has a fault that triggers it in the alert test, and uses only existing series',
  (t) => {
    t.same(
      Object.keys(troubles),
      rules.map(({ alert }) => alert),
    );
    for (const [alert, changes] of Object.entries(troubles))
      for (const series of Object.keys(changes))
        t.ok(Object.hasOwn(well, series), `${alert}: ${series}`);
    t.end();
  },
);
