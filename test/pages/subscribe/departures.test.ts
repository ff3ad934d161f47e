import t from 'tap';
import { Departures } from '../../../src/pages/subscribe/departures.ts';

void t.test('a transaction opens an account until the page shows its registration', async (t) => {
  const departures = new Departures();
  const opening = { address: 'wallet', offerId: 'offer' };
  await departures.during(
    (departure) => {
      departure.leave(opening);
      return Promise.resolve();
    },
    () => false,
  );
  t.same(departures.openingOf('wallet'), opening);
  t.equal(departures.openingOf('another'), undefined);
  departures.registered();
  t.equal(departures.openingOf('wallet'), undefined, 'a later account is asked about');
  t.equal(departures.isOpen, true, 'its transaction may still land');
});
