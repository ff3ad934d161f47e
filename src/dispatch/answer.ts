// Reads one HTTP/1.1 answer as it comes, to the letter of RFC 9112: what is not is an error, and its connection is not used again. Of the head it
// keeps the status and Retry-After, of the body the first 4 KiB, never decompressed.
import { BadAnswer } from './failure.ts';

const headLimit = 16 * 1024;
const bodyLimit = 4096;
const opening = 'HTTP/1.';
const nothing = Buffer.alloc(0);
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

type State = 'head' | 'sized' | 'endless' | 'chunk size' | 'chunk' | 'chunk end' | 'trailer' | 'done';

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
    const [line = '', ...fields] = text.split('\r\n');
    const match = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\0\r\n]*)?$/.exec(line);
    if (match === null) throw new BadAnswer('there is no status line');
    const status = Number(match[2]);
    let length: number | undefined;
    let coding: string | undefined;
    let keepAlive = match[1] === '1';
    for (const field of fields) {
      const colon = field.indexOf(':');
      const name = field.slice(0, Math.max(0, colon)).toLowerCase();
      if (!token.test(name) || /[\0\r\n]/.test(field)) throw new BadAnswer('a header field is malformed');
      if (name === 'content-length') {
        const value = Number(/^[ \t]*(\d{1,15})[ \t]*$/.exec(field.slice(colon + 1))?.[1] ?? NaN);
        if (value !== (length ?? value)) throw new BadAnswer('Content-Length is malformed');
        length = value;
      } else if (name === 'transfer-encoding')
        coding = `${coding === undefined ? '' : `${coding},`}${field.slice(colon + 1)}`.toLowerCase();
      else if (name === 'connection') {
        const options = field.slice(colon + 1).toLowerCase();
        if (/(^|[\s,])close([\s,]|$)/.test(options)) keepAlive = false;
        else if (match[1] === '0' && options.includes('keep-alive')) keepAlive = true;
      } else if (name === 'retry-after') this.retryAfter ??= field.slice(colon + 1).trim();
    }
    if (status === 101) throw new BadAnswer('the protocol was switched unasked');
    if (status < 200) {
      this.retryAfter = undefined;
      return;
    }
    this.status = status;
    this.reusable = keepAlive;
    if (status === 204 || status === 304) this.state = 'done';
    else if (coding !== undefined) {
      // Both headers are what request smuggling is made of; such a connection is used once.
      if (length !== undefined) this.reusable = false;
      this.state = /(^|,)\s*chunked\s*$/.test(coding) ? 'chunk size' : 'endless';
    } else if (length === undefined) this.state = 'endless';
    else {
      this.left = length;
      this.state = length === 0 ? 'done' : 'sized';
    }
    if (this.state === 'endless') this.reusable = false;
  }

  private readLine(text: string): void {
    if (this.state === 'chunk end') {
      if (text !== '') throw new BadAnswer('a chunk is longer than it says');
      this.state = 'chunk size';
    } else if (this.state === 'trailer') {
      if (text === '') this.state = 'done';
    } else {
      const match = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i.exec(text);
      if (match === null) throw new BadAnswer('the size of a chunk is malformed');
      this.left = parseInt(match[1] ?? '', 16);
      this.state = this.left === 0 ? 'trailer' : 'chunk';
    }
  }
}
