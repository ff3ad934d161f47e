// Log lines on a disk that becomes full and has room again. RLIMIT_FSIZE stands for the disk: a
// write is cut off at the limit, and the next one fails.
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { emptyDirectory } from './fixtures/directory.ts';

void t.test(
  'after a full disk cuts off a log line, the next log line starts on a new line',
  async (t) => {
    const file = join(await emptyDirectory(t), 'log');
    const script = `
    import { openSync, readFileSync, writeFileSync } from 'node:fs';
    import { LineSink } from '${new URL('../src/line-sink.ts', import.meta.url).href}';
    process.on('SIGXFSZ', () => undefined);
    let dropped = 0;
    const sink = new LineSink(openSync('${file}', 'a'), () => (dropped += 1));
    for (const letter of 'abc') sink.write(letter.repeat(40_000) + '\\n');
    writeFileSync('${file}', readFileSync('${file}').subarray(40_001));
    for (const letter of 'de') sink.write(letter + '\\n');
    console.log(dropped);`;
    const { stdout, stderr } = spawnSync(
      'bash',
      ['-c', 'ulimit -f 64 && exec "$0" "$@"', process.execPath].concat([
        '--import',
        'tsx',
        '--input-type=module',
        '--eval',
        script,
      ]),
      { encoding: 'utf8' },
    );
    t.equal(stdout, '2\n', stderr);
    const [torn = '', ...rest] = (await readFile(file, 'utf8')).split('\n');
    t.match(torn, /^b+$/);
    t.ok(torn.length < 40_000, 'written in part');
    t.same(rest, ['d', 'e', '']);
  },
);
