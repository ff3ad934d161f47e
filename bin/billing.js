#!/usr/bin/env -S node --
// Without "--", Node (20 to 24) would take --env-file for itself.
import { closeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { main } from '../dist/cli.js';

const terminals = [0, 1, 2].filter((fd) => isatty(fd));
const code = await main(process.argv);
// Waits until all output is written, also to a slow reader of a pipe. If the reader has exited, the
// write fails and the process ends.
await Promise.all(
  [process.stdout, process.stderr]
    .filter(({ writableLength }) => writableLength > 0)
    .map((stream) => new Promise((resolve) => stream.write('', () => resolve()))),
);
// A write that failed emits its error after this turn, and the error sets exitCode.
await new Promise((resolve) => setImmediate(resolve));
// When a terminal was closed, Node 20 aborts while it restores the terminal's settings
// (github.com/nodejs/node/issues/51519). Node skips a closed descriptor.
for (const fd of terminals) if (!isatty(fd)) closeSync(fd);
process.exit(code === 0 ? (process.exitCode ?? 0) : code);
