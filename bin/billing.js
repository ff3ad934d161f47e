#!/usr/bin/env -S node --
// After "--" Node 20 leaves --env-file alone, as newer ones do anyway.
import { main } from '../dist/cli.js';

const code = await main(process.argv);
// A slow reader's pipe may be full still: what was written goes out first. One that is gone is no
// reason to stay.
await Promise.all(
  [process.stdout, process.stderr]
    .filter(({ writableLength }) => writableLength > 0)
    .map((stream) => new Promise((resolve) => stream.write('', () => resolve()))),
);
process.exit(code);
