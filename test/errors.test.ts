import t from 'tap';
import { messageOf } from '../src/errors.ts';

void t.test(
  'messageOf returns a message for any thrown value, including an AggregateError of connections',
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
