import t from 'tap';
import { messageOf } from '../src/errors.ts';

void t.test(
  'messageOf gives the message of anything thrown, also of several refused connections',
  (t) => {
    t.equal(messageOf(new Error('no')), 'no');
    t.equal(messageOf('text'), 'text');
    t.equal(
      messageOf(
        new AggregateError([new Error('ECONNREFUSED ::1'), new Error('ECONNREFUSED 127.0.0.1')]),
      ),
      'ECONNREFUSED ::1; ECONNREFUSED 127.0.0.1',
    );
    t.end();
  },
);
