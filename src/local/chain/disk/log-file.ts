// Files of records. A record is a header (length and CRC-32 of the body, both u32), then the body:
// a value in v8's serialization. A reader never returns a part of a record.
import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
  fstatSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { crc32 } from 'node:zlib';

const HEADER = 8;

/** Appends a record to an open file. Returns the length of the record in bytes. */
export function appendRecord(fd: number, value: unknown): number {
  const body = serialize(value);
  const record = Buffer.alloc(HEADER + body.length);
  record.writeUInt32LE(body.length, 0);
  record.writeUInt32LE(crc32(body), 4);
  record.set(body, HEADER);
  for (let written = 0; written < record.length;) written += writeSync(fd, record, written);
  return record.length;
}

function readRecord(fd: number, position: number): { value: unknown; end: number } | null {
  const header = Buffer.alloc(HEADER);
  if (readSync(fd, header, 0, HEADER, position) < HEADER) return null;
  const length = header.readUInt32LE(0);
  if (position + HEADER + length > fstatSync(fd).size) return null;
  const body = Buffer.alloc(length);
  if (
    readSync(fd, body, 0, length, position + HEADER) < length ||
    crc32(body) !== header.readUInt32LE(4)
  )
    return null;
  return { value: deserialize(body), end: position + HEADER + length };
}

/**
 * Passes every complete record of a file to `each`. Returns the offset at which the last complete
 * record ends. With `repair` the file is cut at this offset, because a killed process may have left
 * an incomplete record at the end.
 */
export function readRecords(path: string, repair: boolean, each: (value: unknown) => void): number {
  if (!existsSync(path)) return 0;
  const fd = openSync(path, 'r+');
  try {
    let position = 0;
    for (let record = readRecord(fd, 0); record !== null; record = readRecord(fd, position)) {
      each(record.value);
      position = record.end;
    }
    if (repair) ftruncateSync(fd, position);
    return position;
  } finally {
    closeSync(fd);
  }
}

/**
 * Replaces the file at `path` by a file with a single record. If the process crashes, `path` has
 * either the old file or the new file.
 */
export function replaceFile(path: string, value: unknown): void {
  const fd = openSync(`${path}.tmp`, 'w');
  try {
    appendRecord(fd, value);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(`${path}.tmp`, path);
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
