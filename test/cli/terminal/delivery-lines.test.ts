import fc from 'fast-check';
import stringWidth from 'string-width';
import t from 'tap';
import { deliveryLines, type WholeItem } from '../../../src/cli/terminal/delivery-lines.ts';
import { now, whole } from '../../fixtures/whole-delivery.ts';

const textOf = (item: WholeItem, width = 80) =>
  deliveryLines(item, null, { width, now })
    .map(({ text }) => text)
    .join('\n');

void t.test(
  'a delivery is described before its first attempt, while retried, after its end and when replayed',
  async (t) => {
    t.match(
      textOf({ ...whole, attempts: 0, attemptLog: [] }),
      /Attempts\n {2}none yet[^]*It is signed when it is sent\./,
    );
    t.match(
      textOf(whole),
      /pending after 1 of 6 attempts, next attempt 2026-11-21 09:01:00\.000,?\s+in 1 min/,
    );
    t.match(textOf(whole), /Response to attempt 1\n {2}none: timeout/);
    t.match(textOf({ ...whole, nextAttemptAt: now }), /due now/);
    t.match(
      textOf({ ...whole, status: 'failed', nextAttemptAt: null, finishedAt: now }),
      /failed after 1 of 6 attempts, ended 2026-11-21/,
    );
    t.match(textOf({ ...whole, endpointDeletedAt: now }), /webhook id, deleted 2026-11-21/);
    t.match(textOf({ ...whole, replayOf: 'another' }), /Replay of another/);
  },
);

void t.test(
  'every line of a delivery fits and holds no control sequence, for any bodies, responses and names',
  async () => {
    fc.assert(
      fc.property(
        fc.record({
          body: fc.oneof(fc.json(), fc.string({ unit: 'binary' })),
          response: fc.uint8Array({ maxLength: 300 }),
          name: fc.string({ unit: 'binary', maxLength: 80 }),
          header: fc.string({ unit: 'binary' }),
          width: fc.integer({ min: 2, max: 200 }),
        }),
        ({ body, response, name, header, width }) => {
          const [attempt] = whole.attemptLog;
          const item: WholeItem = {
            ...whole,
            body,
            appName: name,
            url: name,
            merchant: name,
            attemptLog: [
              {
                ...attempt!,
                httpStatus: 200,
                error: null,
                response: Buffer.from(response),
                address: name,
                headers: ['x', header],
              },
            ],
          };
          for (const { text } of deliveryLines(item, null, { width, now })) {
            if (/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(text))
              throw new Error(`steers the terminal: ${JSON.stringify(text)}`);
            if (stringWidth(text) > width)
              throw new Error(`wider than ${width}: ${JSON.stringify(text)}`);
          }
        },
      ),
      { numRuns: 200 },
    );
  },
);
