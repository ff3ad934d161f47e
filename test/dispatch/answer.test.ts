import fc from 'fast-check';
import t from 'tap';
import { AnswerReader } from '../../src/dispatch/answer.ts';
import { BadAnswer } from '../../src/dispatch/failure.ts';

interface Read {
  complete: boolean;
  status: number | null;
  reusable: boolean;
  retryAfter: string | undefined;
  body: string | undefined;
}

// All pieces come in the same memory, as they do from sockets.
const memory = Buffer.alloc(64 * 1024);

/** Reads the pieces one by one; `ends`: the other side then closes. */
function read(pieces: readonly string[], ends = false): Read {
  const answer = new AnswerReader();
  let complete = false;
  for (const piece of pieces) if (!complete) complete = answer.read(memory.subarray(0, memory.write(piece, 'latin1')));
  if (!complete && ends) complete = answer.end();
  const { status, reusable, retryAfter } = answer;
  return { complete, status, reusable, retryAfter, body: answer.response()?.toString('latin1') };
}

/** Answers, what they are, and whether their end is the connection's. */
const answers: Record<string, [text: string, expected: Partial<Read>, ends?: boolean]> = {
  'a sized body': ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', { status: 200, reusable: true, body: 'ok' }],
  'no reason': ['HTTP/1.1 200\r\ncontent-length:2\r\n\r\nok', { status: 200, body: 'ok' }],
  'an empty body': ['HTTP/1.1 500 Oh no\r\nContent-Length: 0\r\n\r\n', { status: 500, reusable: true, body: '' }],
  'no body at all': ['HTTP/1.1 204 No Content\r\n\r\n', { status: 204, reusable: true, body: '' }],
  chunks: [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n',
    { status: 200, reusable: true, body: 'abc0123456789' },
  ],
  'a coding before chunks': [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n',
    { status: 200, reusable: true, body: 'x' },
  ],
  'a body until the end': ['HTTP/1.1 200 OK\r\n\r\nto the end', { status: 200, reusable: false, body: 'to the end' }, true],
  'HTTP/1.0': ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', { status: 200, reusable: false, body: 'ok' }],
  'HTTP/1.0 that stays': ['HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok', { reusable: true }],
  'a last answer': ['HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok', { status: 200, reusable: false, body: 'ok' }],
  'an answer after informational ones': [
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nRetry-After: 1\r\n\r\nHTTP/1.1 503 Later\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n',
    { status: 503, retryAfter: '120', reusable: true },
  ],
};

for (const [name, [text, expected, ends]] of Object.entries(answers)) {
  void t.test(`${name}: the same in one piece, byte by byte and in any other pieces`, async (t) => {
    t.match(read([text], ends), { complete: true, ...expected });
    t.same(read(text.split(/(?:)/), ends), read([text], ends));
    fc.assert(
      fc.property(fc.array(fc.nat({ max: text.length })), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), text.length];
        const pieces = places.slice(1).map((place, index) => text.slice(places[index], place));
        t.same(read(pieces, ends), read([text], ends));
      }),
      { numRuns: 20 },
    );
    for (let length = 0; length < text.length; length += 1) {
      if (ends !== true) t.equal(read([text.slice(0, length)]).complete, false, 'not before its end');
    }
  });
}

void t.test('what comes after an answer ends the connection', async (t) => {
  t.match(read(['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n']), { complete: true, reusable: false, body: 'ok' });
  t.match(read(['HTTP/1.1 204 No Content\r\n\r\n\n']), { complete: true, reusable: false });
});

void t.test('an answer that is cut short is not complete', async (t) => {
  t.match(read(['HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok'], true), { complete: false, status: 200, body: 'ok' });
  t.match(read(['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n'], true), { complete: false });
  t.match(read(['HTTP/1.1 200 OK\r\n'], true), { complete: false, status: null, body: undefined });
});

void t.test('what is not to the letter of HTTP is refused', async (t) => {
  const wrong = [
    '220 mail.example ESMTP\r\n\r\n',
    'HTTP/2 200 OK\r\n\r\n',
    'HTTP/1.1 20 OK\r\n\r\n',
    'HTTP/1.1 200OK\r\n\r\n',
    'http/1.1 200 OK\r\n\r\n',
    ' HTTP/1.1 200 OK\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n',
    'HTTP/1.1 200 OK\r\nno colon\r\n\r\n',
    'HTTP/1.1 200 OK\r\n: no name\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n',
    'HTTP/1.1 200 OK\r\n folded: x\r\n\r\n',
    'HTTP/1.1 200 OK\r\na: x\ny: z\r\n\r\n',
    'HTTP/1.1 200 OK\r\na: x\0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\na: \x01\r\n\r\n',
    'HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 ;x\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x="y\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n',
    `HTTP/1.1 200 OK\r\na: ${'x'.repeat(16 * 1024)}\r\n\r\n`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(16 * 1024 + 1)}`,
    'x'.repeat(16 * 1024 + 1),
  ];
  const refused = (pieces: readonly string[]) => {
    try {
      read(pieces);
      return false;
    } catch (error) {
      return error instanceof BadAnswer;
    }
  };
  for (const text of wrong) {
    t.ok(refused([text]), JSON.stringify(text.slice(0, 60)));
    t.ok(refused(text.split(/(?:)/)), 'byte by byte');
  }
});

void t.test('no end of announcements, of empty chunks’ extensions or of trailers: refused before it costs anybody anything', async (t) => {
  const line = `X: ${'x'.repeat(1000)}\r\n`;
  for (const [begin, again] of [
    ['', `HTTP/1.1 100 Continue\r\n${line}\r\n`],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', `1;${'x'.repeat(1000)}\r\ny\r\n`],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', line],
  ] as const) {
    const answer = new AnswerReader();
    answer.read(Buffer.from(begin));
    t.throws(
      () => {
        for (let count = 0; count < 70; count += 1) answer.read(Buffer.from(again));
      },
      { code: 'BAD_ANSWER' },
    );
  }
});

void t.test('of a long body the first 4 KiB are kept, and it is known that there is more', async (t) => {
  const answer = new AnswerReader();
  answer.read(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n'));
  answer.read(Buffer.alloc(4096, 'x'));
  t.equal(answer.full, false);
  answer.read(Buffer.alloc(1, 'y'));
  t.equal(answer.full, true);
  t.equal(answer.response()?.toString(), 'x'.repeat(4096));
});

void t.test('whatever comes, it is an answer or it is refused', async (t) => {
  const piece = fc.oneof(
    fc.constantFrom(
      'HTTP/1.1 ',
      '200 OK',
      '\r\n',
      '\r\n\r\n',
      'Content-Length: 3',
      'Transfer-Encoding: chunked',
      '0',
      '3',
      ':',
      ';',
      'abc',
    ),
    fc.string({ unit: 'binary', maxLength: 5 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      try {
        read(pieces, true);
      } catch (error) {
        if (!(error instanceof BadAnswer)) throw error;
      }
    }),
    { numRuns: 500 },
  );
  t.pass();
});

void t.test('an answer is the same whichever came before it: itself, another or one that is refused', (t) => {
  const all = Object.values(answers);
  const alone = all.map(([text, , ends]) => read([text], ends));
  for (const [at, [text, , ends]] of all.entries()) {
    for (const [other, , otherEnds] of all) {
      read([other], otherEnds);
      t.throws(() => read(['HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n']), { code: 'BAD_ANSWER' });
      for (let time = 0; time < 2; time += 1) {
        const again = read([text], ends);
        if (JSON.stringify(again) !== JSON.stringify(alone[at])) t.same(again, alone[at], `${text} after ${other}`);
      }
    }
  }
  t.end();
});

void t.test('blanks within a field cost no more than other characters', (t) => {
  const heads = Array.from(
    { length: 40 },
    (_, number) => `HTTP/1.1 503 x\r\nretry-after: ${number}${' '.repeat(16_000)}x\r\ncontent-length: 0\r\n\r\n`,
  );
  const began = process.cpuUsage();
  for (const head of heads) new AnswerReader().read(Buffer.from(head));
  // A pattern took 300 ms for each.
  t.ok(process.cpuUsage(began).user < 2_000_000);
  const padded = new AnswerReader();
  padded.read(Buffer.from('HTTP/1.1 503 x\r\nretry-after: \t 1 2\t \r\ncontent-length: 0\r\n\r\n'));
  t.equal(padded.retryAfter, '1 2');
  t.end();
});
