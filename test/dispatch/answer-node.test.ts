// Our reader of answers beside node's own (llhttp, by way of its HTTP client): the same bytes in the same pieces. What both take they read alike; what we
// take node takes; what node takes and we do not is listed here, each with its reason.
import fc from 'fast-check';
import t from 'tap';
import { AnswerReader } from '../../src/dispatch/answer.ts';
import { BadAnswer } from '../../src/dispatch/failure.ts';
import { type NodeRead, readByNode } from '../fixtures/node-answer.ts';

/** What we refuse although node takes it: what it looks like, and one of them. */
const stricter: Record<string, readonly [pattern: RegExp, example: string]> = {
  'a version of HTTP that is neither 1.0 nor 1.1: nobody asked for it': [
    /HTTP\/(?:0\.9|2\.0) /,
    'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  'another protocol: nobody asked for it': [/HTTP\/1\.[01] 101/, 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  'a status below 100: there is none': [/HTTP\/1\.[01] 0\d\d/, 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n'],
  'empty lines before the status line: they belong to nothing': [
    /(?:^|\r\n\r\n)[\r\n]+HTTP/,
    '\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  'a NUL in the reason: what else is wrong with it?': [/HTTP\/[^\r\n]*\0/, 'HTTP/1.1 200 a\0b\r\nContent-Length: 0\r\n\r\n'],
  'a reason with a CR in it: where does the line end?': [/HTTP\/[^\r\n]*\r[^\n]/, 'HTTP/1.1 200 OK\r\rX: y\r\nContent-Length: 0\r\n\r\n'],
  'a length in more than 15 digits: it cannot be counted': [
    /Content-Length:[ \t]*\d{16}/i,
    'HTTP/1.1 200 OK\r\nContent-Length: 0000000000000003\r\n\r\nabc',
  ],
  'a chunk’s size in more than 12 digits: likewise': [
    /\r\n[\da-f]{13}/i,
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0000000000003\r\nabc\r\n0\r\n\r\n',
  ],
  'an extension of a chunk without a name or a value: it is not one': [
    /\r\n\d+[^\r\n]*(?:;=|;;|=(?:;|\r))/,
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\r\nabc\r\n0\r\n\r\n',
  ],
  'Transfer-Encoding in a trailer: too late': [
    /\r\n0+\r\nTransfer-Encoding/,
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
  ],
  'Content-Length beside a Transfer-Encoding, be that empty: one of them is a mistake': [
    /Transfer-Encoding:[ \t]*\r\n/i,
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: \r\nContent-Length: 3\r\n\r\nabc',
  ],
};

/** Connections that we do not use again although node would. */
const careful: Record<string, (read: OwnRead, text: string) => boolean> = {
  'there is more behind the answer: it is no answer to anything': ({ behind }) => behind,
  'close with a tab behind it, which llhttp takes for another word: close it is': (_, text) => /Connection:[^\r\n]*close *\t/i.test(text),
  'HTTP/1.0 with close and keep-alive: close it is': (_, text) => /HTTP\/1\.0/.test(text) && /Connection:[^\r\n]*close/i.test(text),
};

interface OwnRead extends NodeRead {
  refused: string | undefined;
  /** More came than the answer. */
  behind: boolean;
}

function readByUs(pieces: readonly string[], ends: boolean): OwnRead {
  const [answer, single] = [new AnswerReader(), new AnswerReader()];
  let complete = false;
  let refused: string | undefined;
  let behind = false;
  try {
    let whole = false;
    for (const byte of pieces.join('')) {
      behind = whole;
      whole ||= single.read(Buffer.from(byte, 'latin1'));
    }
  } catch {
    // The same below.
  }
  try {
    for (const piece of pieces) {
      // What comes after the end comes to a connection that is idle, and ends it.
      if (complete) answer.reusable = false;
      else complete = answer.read(Buffer.from(piece, 'latin1'));
    }
  } catch (error) {
    if (!(error instanceof BadAnswer)) throw error;
    refused = error.message;
  }
  if (!complete && ends && refused === undefined) complete = answer.end();
  const { status, retryAfter } = answer;
  const body = answer.response()?.toString('latin1');
  return {
    status,
    complete,
    reusable: complete && answer.reusable,
    retryAfter: status === null ? undefined : retryAfter,
    body,
    refused,
    behind,
  };
}

const RUNS = 1200;

/** What is wrong with how we read it, if anything. */
function verdict(text: string, ends: boolean, ours: OwnRead, nodes: NodeRead): string | undefined {
  const isStricter = () => Object.values(stricter).some(([pattern]) => pattern.test(text));
  const isCareful = () => Object.values(careful).some((applies) => applies(ours, text));
  if (ours.status !== null && nodes.status === null) return 'node takes no answer from it';
  if (ours.status === null && nodes.status !== null)
    return isStricter() ? undefined : `refused without a reason: ${ours.refused ?? 'waits'}`;
  if (ours.status === null) return undefined;
  if (ours.status !== nodes.status) return 'another status';
  if (ours.retryAfter !== nodes.retryAfter) return 'another Retry-After';
  if (ours.complete && !nodes.complete) return 'node does not see its end';
  if (!ours.complete && nodes.complete) return isStricter() ? undefined : `incomplete without a reason: ${ours.refused ?? 'waits'}`;
  if (ours.complete && ours.body !== nodes.body) return 'another body';
  if (ends) return undefined;
  if (ours.reusable && !nodes.reusable) return 'node does not use the connection again';
  if (!ours.reusable && nodes.reusable && !isCareful()) return 'not used again without a reason';
  return undefined;
}

const versions = ['HTTP/1.1', 'HTTP/1.0', 'HTTP/1.1', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/2.0', 'http/1.1', 'HTTP/1', 'ICY', '\r\nHTTP/1.1'];
const lines = [
  ' 200 OK',
  ' 200',
  ' 200 ',
  ' 204 No Content',
  ' 304 Not Modified',
  ' 503 Later',
  ' 410 Gone',
  ' 302 Found',
  ' 000 Nil',
  ' 099 Low',
  ' 999 High',
  ' 20 OK',
  ' 2000 OK',
  '  200 OK',
  ' 200  two',
  ' 200 caf\xe9',
  ' 200 a\tb',
  ' 200 a\0b',
  '200',
  ' 101 Switching Protocols',
];
// The first few of each are as they should be.
/** Lengths and codings as they must not be, or need not: in place of the one that frames the body, and beside it. */
const oddFramings = [
  'Content-Length:3',
  'content-length: \t3 \t',
  'Content-Length: 0',
  'Content-Length: 4',
  'Content-Length: 03',
  'Content-Length: 00000000000000000003',
  'Content-Length: 3, 3',
  'Content-Length: +3',
  'Content-Length: -3',
  'Content-Length: 3a',
  'Content-Length:',
  'Content-Length : 3',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, gzip',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: chunked,',
  'Transfer-Encoding: ',
];
const framings = [
  '',
  'Content-Length: 3',
  'content-length: \t3 ',
  'Transfer-Encoding: chunked',
  'transfer-encoding:CHUNKED',
  ...oddFramings,
];
const fields = [
  'Connection: close',
  'Connection: Keep-Alive',
  'Connection: x, CLOSE , y',
  'Keep-Alive: timeout=5',
  'Retry-After: 120',
  'Retry-After: Wed, 21 Oct 2026 07:28:00 GMT',
  'X: caf\xe9\xff',
  'Proxy-Connection: close',
  'X: ',
  'Connection: close, keep-alive',
  'Connection: close\t',
  'Connection: keep-alive\t',
  'Connection: closed',
  'Connection: not-keep-alive',
  'Connection: keep-alive;x',
  'Connection: close;x',
  'Connection: upgrade',
  'Connection: ',
  'Upgrade: websocket',
  'Retry-After:120',
  'Retry-After: \t 120 \t',
  'Retry-After: \xa0120',
  'Retry-After: ',
  'X: \x7f',
  'X: a\0b',
  'X: a\x01b',
  'X: a\rb',
  'X: a\nY: b',
  ' folded: x',
  'X: a\r\n b',
  'X: a\r\n\tb',
  ': no name',
  'no colon',
  'X y: z',
  'X\xe9: z',
  '"X": z',
  `X: ${'x'.repeat(5000)}`,
  ...oddFramings,
];
const bodies = [
  'abc',
  '3\r\nabc\r\n0\r\n\r\n',
  '3;x\r\nabc\r\n0\r\n\r\n',
  '0003\r\nabc\r\n00\r\n\r\n',
  '3\r\nabc\r\n0\r\nX: trailer\r\n\r\n',
  '1f40\r\n' + 'y'.repeat(8000) + '\r\n0\r\n\r\n',
  '',
  'abcd',
  '3;x=1;y="a;b\\"c"\r\nabc\r\n0\r\n\r\n',
  '3;x=a b\r\nabc\r\n0\r\n\r\n',
  '3;\r\nabc\r\n0\r\n\r\n',
  '3 \r\nabc\r\n0\r\n\r\n',
  '3 ;x\r\nabc\r\n0\r\n\r\n',
  '3; x\r\nabc\r\n0\r\n\r\n',
  '3\t\r\nabc\r\n0\r\n\r\n',
  '3;\x01\r\nabc\r\n0\r\n\r\n',
  '3;caf\xe9\r\nabc\r\n0\r\n\r\n',
  '3;a=caf\xe9\r\nabc\r\n0\r\n\r\n',
  '3;a="x\r\nabc\r\n0\r\n\r\n',
  '3;a\nabc\r\n0\r\n\r\n',
  '00000000000000000000003\r\nabc\r\n0\r\n\r\n',
  'ffffffffffffffff\r\nabc',
  '10000000000000000\r\nabc',
  '0x3\r\nabc\r\n0\r\n\r\n',
  '3\nabc\r\n0\r\n\r\n',
  '3\r\nabc0\r\n\r\n',
  '3\r\nabc\n0\r\n\r\n',
  '3\r\nabcd\r\n0\r\n\r\n',
  '3\r\nabc\r\n0\r\nX trailer\r\n\r\n',
  '3\r\nabc\r\n0\r\nRetry-After: 7\r\n\r\n',
  '3\r\nabc\r\n0\r\nContent-Length: 7\r\n\r\n',
  '3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
  '3\r\nabc\r\n0\r\nX: a\0b\r\n\r\n',
  '3\r\nabc\r\n0\r\n folded\r\n\r\n',
  '3\r\nabc\r\n0\r\n: x\r\n\r\n',
  '3\r\nabc\r\n0\r\n\n',
  '3\r\nabc\r\n0\r\n',
  '3\r\nabc\r\n',
  '3\r\nab',
  '\r\n',
  'x'.repeat(6000),
];
const informational = [
  '',
  '',
  '',
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nRetry-After: 1\r\nConnection: close\r\n\r\n',
  'HTTP/1.1 199 x\r\nContent-Length: 5\r\n\r\n',
  'HTTP/1.0 100 Continue\r\n\r\n',
  'HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n',
];
const behind = ['', '', '', '\r\n', '\n', 'x', 'HTTP/1.1 200 OK\r\n\r\n', '\0'];

/** Four times of five one of the first `good`. */
const mostly = (all: readonly string[], good: number) =>
  fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...all.slice(0, good)) }, { weight: 1, arbitrary: fc.constantFrom(...all) });

const whole = fc
  .record({
    before: fc.constantFrom(...informational),
    version: mostly(versions, 3),
    line: mostly(lines, 8),
    framing: mostly(framings, 5),
    fields: fc.array(mostly(fields, 9), { maxLength: 3 }),
    eol: mostly(['\r\n', '\n'], 1),
    body: mostly(bodies, 6),
    after: fc.constantFrom(...behind),
  })
  .map(({ before, version, line, framing, fields: some, eol, body, after }) =>
    [
      before,
      version,
      line,
      eol,
      ...[framing, ...some].filter((field) => field !== '').flatMap((field) => [field, eol]),
      eol,
      body,
      after,
    ].join(''),
  );

/** A well-formed answer in which one byte was changed, taken away or added. */
const spoilt = fc
  .record({
    text: fc.constantFrom(
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nRetry-After: 5\r\nConnection: keep-alive\r\n\r\nabc',
      'HTTP/1.1 503 Later\r\nTransfer-Encoding: chunked\r\nRetry-After: 5\r\n\r\n3;x=1\r\nabc\r\n0\r\nX: y\r\n\r\n',
      'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc',
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n',
    ),
    at: fc.nat(120),
    gone: fc.constantFrom(0, 1, 1, 2),
    put: fc.oneof(
      fc.constantFrom('', '\r', '\n', '\r\n', ' ', '\t', '\0', ':', ';', ',', '0', '9', '\x7f', '\x80', '\xff', '"'),
      fc.nat(255).map((code) => String.fromCharCode(code)),
    ),
  })
  .map(({ text, at, gone, put }) => text.slice(0, at % text.length) + put + text.slice((at % text.length) + gone));

const pieced = fc
  .tuple(fc.oneof(whole, spoilt), fc.array(fc.nat(8191), { maxLength: 4 }), fc.boolean(), fc.integer({ min: 0, max: 9 }))
  .map(([text, cuts, ends, style]) => {
    const places =
      style === 0 && text.length < 400
        ? Array.from({ length: text.length }, (_, place) => place)
        : cuts.map((cut) => cut % Math.max(1, text.length)).sort((a, b) => a - b);
    const pieces = [0, ...places]
      .map((place, index, all) => text.slice(place, all[index + 1] ?? text.length))
      .filter((piece) => piece !== '');
    return { text, pieces, ends };
  });

void t.test('whatever comes, in whatever pieces, is read as node reads it, or refused for a reason that is listed', async (t) => {
  let both = 0;
  let whole = 0;
  let kept = 0;
  await fc.assert(
    fc.asyncProperty(pieced, async ({ text, pieces, ends }) => {
      const ours = readByUs(pieces, ends);
      const fault = verdict(text, ends, ours, await readByNode(pieces, ends));
      if (fault !== undefined) throw new Error(`${fault}: ${JSON.stringify(ours)}`);
      if (ours.status !== null) both += 1;
      if (ours.complete) whole += 1;
      if (ours.reusable) kept += 1;
    }),
    { numRuns: RUNS },
  );
  t.ok(
    both > RUNS / 5 && whole > RUNS / 8 && kept > RUNS / 40,
    `${both} had a status, ${whole} came to their end, ${kept} left the connection open`,
  );
});

void t.test('each thing that we refuse and node takes is such a thing', async (t) => {
  for (const [reason, [pattern, example]] of Object.entries(stricter)) {
    t.match(example, pattern, reason);
    const ours = readByUs([example], false);
    const nodes = await readByNode([example], false);
    t.ok(ours.refused !== undefined && nodes.status !== null, `${reason}: ${ours.refused} and ${nodes.status}`);
  }
  const long = `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(16_000)}\r\n`;
  for (const [more, taken] of [
    [200, true],
    [600, false],
  ] as const) {
    const text = `${long}Y: ${'y'.repeat(more)}\r\nContent-Length: 0\r\n\r\n`;
    t.equal(readByUs([text], false).status !== null, taken, 'some 16 KiB of head');
    t.equal((await readByNode([text], false)).status !== null, taken);
  }
});
