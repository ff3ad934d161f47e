// Errors of the client in the words of the command line. Against a running service, with keys and
// profiles: test/cli/develop/listen.test.ts and test/cli/operate/delivery-api.test.ts.
import t from 'tap';
import { connect, explained } from '../../src/cli/session.ts';
import { OperatorError } from '../../src/errors.ts';
import { startReceiver } from '../fixtures/receiver.ts';

void t.test('a response that stalls is reported as "the API does not answer"', async (t) => {
  const server = await startReceiver(t, (response) => response.write('{"success":true,'));
  const asked = connect(server.url, 'sk_test_secret', 200).get('/merchant/profile');
  const error = await explained(server.url, asked).catch((thrown: unknown) => thrown);
  t.ok(error instanceof OperatorError);
  t.match(error, {
    exitCode: 1,
    message: /^The billing API at http:\S+ does not answer: .*timeout.* Check BILLING_API_URL/,
  });
  t.notMatch(error, { message: /sk_test_secret/ });
});

void t.test(
  'a response without the API’s JSON envelope is reported as a response of another server',
  async (t) => {
    for (const [status, body] of [
      [200, '<h1>Welcome</h1>'],
      [200, '{"hello":1}'],
      [502, 'bad gateway'],
      [404, '{"error":"no such page"}'],
    ] as const) {
      const server = await startReceiver(t, (response) => response.writeHead(status).end(body));
      await t.rejects(explained(server.url, connect(server.url).get('/merchant/profile')), {
        message: `The server at ${server.url} is not the billing API (HTTP ${status}). Check BILLING_API_URL (or --api-url).`,
      });
    }
  },
);
