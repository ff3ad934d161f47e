// Reads one HTTP/1.1 answer as it comes, to the letter of RFC 9112: what is not is an error, and its connection is not used again. Of the head it
// keeps the status and Retry-After, of the body the first 4 KiB, never decompressed.
import { BadAnswer } from './failure.ts';

const headLimit = 16 * 1024;
const bodyLimit = 4096;
/** Of heads that only announce the answer, extensions of chunks and trailers, none of which is used, in all: reading them as fast as they come is work. */
const idleLimit = 64 * 1024;
const opening = 'HTTP/1.';
const nothing = Buffer.alloc(0);
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** No control character but the tab: what RFC 9110 (5.5) and llhttp let into a field's value. */
const control = /[\0-\x08\n-\x1f\x7f]/;
const closes = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/;
/** With a tab behind it, llhttp takes it for another word, and so do we: the connection is closed, which is safe. */
const stays = /(?:^|,)[ \t]*keep-alive *(?:,|$)/;
/** The size of a chunk and its extensions, which nobody uses: RFC 9112 (7.1.1) without blanks, as llhttp takes them. */
const chunkSize =
  /^([0-9a-f]{1,12})(?:;[!#$%&'*+.^_`|~0-9a-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9a-z-]+|"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)*$/i;

type State = 'head' | 'sized' | 'endless' | 'chunk size' | 'chunk' | 'chunk end' | 'trailer' | 'done';

interface Head {
  /** null when it only announces the answer. */
  status: number | null;
  retryAfter: string | undefined;
  reusable: boolean;
  /** What is to be read next. */
  state: State;
  left: number;
}

/** Heads that come one after the other are mostly the same to the byte, all of the same second: a quarter of the reading is parsing them. */
let lastHead: Head & { text: string | undefined } = {
  text: undefined,
  status: null,
  retryAfter: undefined,
  reusable: true,
  state: 'head',
  left: 0,
};

// A class, since thousands are made each second: one object of one shape.
export class AnswerReader {
  /** null until the head of the final answer has come. */
  status: number | null = null;
  retryAfter: string | undefined;
  /** Whether the connection may carry another request once the answer is complete. */
  reusable = true;
  /** Bytes of the body that have come. */
  private length = 0;
  private readonly body: Buffer[] = [];
  private state: State = 'head';
  private rest: Buffer = nothing;
  /** Bytes that are still to come of the body, or of the chunk. */
  private left = 0;
  private idle = 0;

  /** Takes what came, and keeps no part of that memory. true once the answer is complete; throws BadAnswer. */
  read(chunk: Buffer): boolean {
    const seen = this.rest.length;
    const bytes = seen === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    this.rest = nothing;
    let at = 0;
    for (;;) {
      switch (this.state) {
        case 'head': {
          const end = bytes.indexOf('\r\n\r\n', Math.max(at, seen - 3), 'latin1');
          if (end - at > headLimit || (end < 0 && bytes.length - at > headLimit)) throw new BadAnswer('the head is longer than 16 KiB');
          if (end < 0) {
            if (!opening.startsWith(bytes.toString('latin1', at, at + opening.length)))
              throw new BadAnswer('it does not begin as HTTP/1 does');
            return this.keep(bytes.subarray(at));
          }
          this.spend(end - at);
          this.readHead(bytes.toString('latin1', at, end));
          at = end + 4;
          break;
        }
        case 'sized':
        case 'chunk': {
          const part = bytes.subarray(at, at + this.left);
          this.take(part);
          at += part.length;
          this.left -= part.length;
          if (this.left > 0) return false;
          this.state = this.state === 'sized' ? 'done' : 'chunk end';
          break;
        }
        case 'endless':
          this.take(bytes.subarray(at));
          return false;
        case 'chunk size':
        case 'chunk end':
        case 'trailer': {
          const end = bytes.indexOf('\r\n', at, 'latin1');
          if (end - at > headLimit || (end < 0 && bytes.length - at > headLimit)) throw new BadAnswer('a line is longer than 16 KiB');
          if (end < 0) return this.keep(bytes.subarray(at));
          this.spend(end - at);
          this.readLine(bytes.toString('latin1', at, end));
          at = end + 2;
          break;
        }
        case 'done':
          if (at < bytes.length) this.reusable = false;
          return true;
      }
    }
  }

  /** As much of the body has come as is kept, and more. */
  get full(): boolean {
    return this.length > bodyLimit;
  }

  /** The other side will send no more: whether that completes the answer. */
  end(): boolean {
    return this.state === 'endless' || this.state === 'done';
  }

  /** The first 4 KiB of the body; null when no status line came. */
  response(): Buffer | null {
    if (this.status === null) return null;
    return this.body.length === 1 && this.body[0] !== undefined ? this.body[0] : Buffer.concat(this.body);
  }

  private spend(length: number): void {
    this.idle += length;
    if (this.idle > idleLimit) throw new BadAnswer('there is no end to what is not the answer');
  }

  private keep(bytes: Buffer): false {
    this.rest = Buffer.from(bytes);
    return false;
  }

  private take(part: Buffer): void {
    // A copy: what came in one piece with it is not kept for its sake.
    if (this.length < bodyLimit && part.length > 0) this.body.push(Buffer.from(part.subarray(0, bodyLimit - this.length)));
    this.length += part.length;
  }

  private readHead(text: string): void {
    if (text !== lastHead.text) lastHead = { text, ...parseHead(text) };
    ({ status: this.status, retryAfter: this.retryAfter, reusable: this.reusable, state: this.state, left: this.left } = lastHead);
  }

  private readLine(text: string): void {
    if (this.state === 'chunk end') {
      if (text !== '') throw new BadAnswer('a chunk is longer than it says');
      this.state = 'chunk size';
    } else if (this.state === 'trailer') {
      if (text === '') this.state = 'done';
      else if (/^(?:content-length|transfer-encoding)$/.test(nameOf(text, text.indexOf(':'))))
        throw new BadAnswer('a trailer tells of the length anew');
    } else {
      const match = chunkSize.exec(text);
      if (match === null) throw new BadAnswer('the size of a chunk is malformed');
      this.left = parseInt(match[1] ?? '', 16);
      this.state = this.left === 0 ? 'trailer' : 'chunk';
    }
  }
}

/** Throws BadAnswer. */
function parseHead(text: string): Head {
  const [line = '', ...fields] = text.split('\r\n');
  const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\0\r\n]*)?$/.exec(line);
  if (match === null) throw new BadAnswer('there is no status line');
  const status = Number(match[2]);
  let length: number | undefined;
  let retryAfter: string | undefined;
  let coded = false;
  let coding: string | undefined;
  let keepAlive = match[1] === '1';
  let closing = false;
  for (const field of fields) {
    const colon = field.indexOf(':');
    const name = nameOf(field, colon);
    if (name === 'content-length') {
      const value = Number(/^[ \t]*(\d{1,15}) *$/.exec(field.slice(colon + 1))?.[1] ?? NaN);
      if (Number.isNaN(value) || length !== undefined) throw new BadAnswer('Content-Length is malformed, or there are two');
      length = value;
    } else if (name === 'transfer-encoding') {
      const value = field.slice(colon + 1).toLowerCase();
      coded = true;
      if (/[^ \t]/.test(value)) coding = coding === undefined ? value : `${coding},${value}`;
    } else if (name === 'connection' || name === 'proxy-connection') {
      const options = field.slice(colon + 1).toLowerCase();
      if (closes.test(options)) closing = true;
      else if (stays.test(options)) keepAlive = true;
    } else if (name === 'retry-after') retryAfter ??= unpadded(field.slice(colon + 1));
  }
  if (status === 101) throw new BadAnswer('the protocol was switched unasked');
  // What request smuggling is made of; RFC 9112 (6.3) would have it handled as an error.
  if (coded && length !== undefined) throw new BadAnswer('Content-Length and Transfer-Encoding contradict each other');
  if (closing) keepAlive = false;
  if (status < 200) {
    if (!keepAlive) throw new BadAnswer('the answer was to end with what only announces it');
    return { status: null, retryAfter: undefined, reusable: true, state: 'head', left: 0 };
  }
  const [state, left] = bodyOf(status, coding, length);
  return { status, retryAfter, reusable: keepAlive && state !== 'endless', state, left };
}

function bodyOf(status: number, coding: string | undefined, length: number | undefined): [state: State, left: number] {
  if (status === 204 || status === 304) return ['done', 0];
  if (coding !== undefined) return [/(?:^|,)[ \t]*chunked *$/.test(coding) ? 'chunk size' : 'endless', 0];
  if (length === undefined) return ['endless', 0];
  return [length === 0 ? 'done' : 'sized', length];
}

/** Without the blanks and tabs around it. No pattern: one that looks for blanks at the end tries each blank within, 0.3 s of them in a whole head. */
function unpadded(value: string): string {
  const isPadding = (at: number) => value[at] === ' ' || value[at] === '\t';
  let [start, end] = [0, value.length];
  while (start < end && isPadding(start)) start += 1;
  while (end > start && isPadding(end - 1)) end -= 1;
  return value.slice(start, end);
}

/** The name of a header or trailer field whose first colon is at `colon`. Throws BadAnswer for what is none. */
function nameOf(field: string, colon: number): string {
  const name = field.slice(0, Math.max(0, colon)).toLowerCase();
  if (!token.test(name) || control.test(field)) throw new BadAnswer('a header field is malformed');
  return name;
}
