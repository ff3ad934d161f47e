#!/usr/bin/env -S node --
// After "--" Node 20 leaves --env-file alone, as newer ones do anyway.
import { main } from '../dist/cli.js';

const code = await main(process.argv);
// What was written goes out before the process ends, even where the pipe's reader is slow. If the
// reader has gone, the process ends at once.
await Promise.all(
  [process.stdout, process.stderr]
    .filter(({ writableLength }) => writableLength > 0)
    .map((stream) => new Promise((resolve) => stream.write('', () => resolve()))),
);
process.exit(code);
