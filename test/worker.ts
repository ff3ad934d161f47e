// A process of test/run.ts. Runs the test files that it is sent, one after the other: modules are
// loaded and compiled once for many files.
import { text } from 'node:stream/consumers';
import root, { Test, type TestOpts } from 'tap';
import { runFile } from './fixtures/file.ts';

/** What test/run.ts sends. */
export interface Order {
  /** The file as the report names it. */
  file: string;
  /** Its compiled form. */
  url: string;
  /** Milliseconds after which it has failed. */
  timeoutMs: number;
}

/** What test/run.ts gets back. */
export interface Report {
  tap: string;
  /** Skipped assertions included. */
  total: number;
  passed: number;
  failed: number;
  /** Bytes that the process holds. */
  memory: number;
  /** CPU milliseconds that the process used, without what it started. */
  cpuMs: number;
}

async function run({ file, url, timeoutMs }: Order): Promise<Report> {
  const before = process.cpuUsage();
  const options: TestOpts = { name: file, timeout: timeoutMs, cb: () => import(url) };
  const test = new Test(options);
  const tap = text(test);
  const failures = await runFile(
    test,
    () =>
      new Promise((resolve) => {
        test.runMain(resolve);
      }),
  );
  // tap does not clear the timer of a test without a parent.
  test.setTimeout(0);
  const { total, pass, fail } = test.counts;
  const failed = fail + failures.length;
  const { user, system } = process.cpuUsage(before);
  return {
    tap: [await tap, ...failures].join('\n'),
    total,
    passed: pass,
    failed: failed === 0 && !test.passing() ? 1 : failed,
    memory: process.memoryUsage().rss,
    cpuMs: (user + system) / 1000,
  };
}

root.setTimeout(0);
process.on('message', (order: Order) => {
  void run(order).then((report) => process.send?.(report));
});
process.once('disconnect', () => process.exit());
