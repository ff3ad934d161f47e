// The dashboard's words for the API's codes say no more than the code.
import t from 'tap';
import { failureText } from '../../../../src/pages/dashboard/parts/reasons.ts';

void t.test('a replaced delegate is explained as another program, not as a withdrawal', (t) => {
  t.equal(
    failureText('delegate_replaced'),
    'The wallet withdrew its approval, or gave it to another program',
  );
  t.end();
});
