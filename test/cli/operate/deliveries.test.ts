// `billing deliveries` in a real terminal: keys pressed, the screen read.
import t, { type Test } from 'tap';
import { large, openDeliveries, scene, small, type Scene } from '../../fixtures/deliveries.ts';
import type { Terminal } from '../../fixtures/terminal.ts';
import { runDispatcher } from '../../fixtures/webhooks.ts';

const linesWith = (screen: string, text: string) =>
  screen.split('\n').filter((line) => line.includes(text));

/** A delivery from its first line to its last, which on a low terminal takes several pages. */
async function readThrough(terminal: Terminal): Promise<string> {
  terminal.press('g');
  let all = '';
  for (;;) {
    // Any content, but a complete frame.
    const screen = await terminal.waitFor('');
    const [, first = '', last, count] = /lines (\d+) to (\d+) of (\d+)/.exec(screen) ?? [];
    const body = screen.split('\n').slice(2, -3);
    all += `${body.join('\n')}\n`;
    if (last === count) return all;
    terminal.press('pagedown');
    await terminal.waitGone(`lines ${first} to`);
  }
}

async function showsListAndFilters(t: Test, stage: Scene, size: typeof small): Promise<void> {
  const terminal = openDeliveries(t, stage.database, [], size);
  let screen = await terminal.waitFor(/live, as of[^]*1 of 8/);
  t.equal(terminal.buffer(), 'alternate', 'on the other screen of the terminal');
  t.match(screen, /Deliveries.*live, as of/);
  t.equal(linesWith(screen, 'failed').filter((line) => / 410 /.test(line)).length, 4);
  t.equal(linesWith(screen, 'delivered').length, 3);
  t.match(
    linesWith(screen, 'pending')[0],
    />.*payment_success +2 +503 +.*Tea house/,
    'the newest at the top, with its last answer',
  );
  t.equal(screen.includes(stage.ids.busy), size === large, 'whole ids where there is room');
  t.equal(screen.includes('?of=letters'), size === large, 'and addresses');

  terminal.press('s');
  await terminal.waitFor('Which status?');
  terminal.press('f', 'a', 'i', 'enter');
  screen = await terminal.waitFor('1 of 4');
  t.match(screen, /status failed/);
  t.equal(linesWith(screen, ' 410 ').length, 4);
  t.notMatch(screen, /delivered/);

  terminal.press('x');
  await terminal.waitFor('1 of 8');
  terminal.press('t');
  await terminal.waitFor('Which type?');
  terminal.press('payment_f', 'enter');
  t.match(await terminal.waitFor('1 of 3'), /type payment_failed/);

  terminal.press('a');
  t.match(await terminal.waitFor('Tea house  '), /Which app\?[^]*any[^]*Letters[^]*Tea house/);
  terminal.press('down', 'down', 'enter');
  t.match(
    await terminal.waitFor('No delivery matches.'),
    /type payment_failed · app Tea house/,
    'filters add up',
  );

  terminal.press('x');
  await terminal.waitFor('1 of 8');
  terminal.press('u');
  await terminal.waitFor('Queued until:');
  terminal.press('yesterday', 'enter');
  await terminal.waitFor('Type 2026-11-21');
  terminal.press(...Array.from({ length: 9 }, () => 'backspace'), '1h', 'enter');
  await terminal.waitFor('No delivery matches.');
  terminal.press('x', 'f');
  await terminal.waitFor('Queued since:');
  terminal.press('1h', 'enter');
  await terminal.waitFor(/since \d{4}-/);
  await terminal.waitFor('1 of 8');

  terminal.press('?');
  t.match(
    await terminal.waitFor('clear the filters'),
    /mark, to replay several[^]*look again now[^]*leave/,
    'every key is explained',
  );
  terminal.press('escape');
  await terminal.waitGone('clear the filters');
  terminal.press('q');
  t.same(await terminal.ended, { code: 0, signal: 0 });
  t.equal(terminal.buffer(), 'normal', 'the terminal is given back');
}

async function showsOne(
  t: Test,
  { database, receiver, apps, ids }: Scene,
  size: typeof small,
): Promise<void> {
  const terminal = openDeliveries(t, database, ['--app', apps[0].appId], size);
  await terminal.waitFor('1 of 5');
  terminal.press('enter');
  await terminal.waitFor(`Delivery  ${ids.busy}`);
  const [first, second] = receiver.requests
    .filter(({ body }) => body.includes('busy'))
    .map(({ headers }) => headers);
  let all = await readThrough(terminal);
  t.match(all, /pending after 2 of 6 attempts, next attempt [^]*in \d+ (s|min)/);
  t.match(
    all,
    /\n {2}1 {2}\d{4}-.* ms +HTTP 503 +127\.0\.0\.1/,
    'when, how long, what came of it, where',
  );
  t.match(all, /\n> 2 {2}\d{4}-.* ms +HTTP 503 +127\.0\.0\.1/);
  const unwrapped = all.replaceAll(/\n */g, '');
  for (const name of [
    'x-service-signature',
    'x-service-timestamp',
    'webhook-id',
    'webhook-signature',
  ])
    t.ok(unwrapped.includes(`${name}: ${String(second?.[name])}`), `${name} as the server got it`);
  t.match(all, /"amountGross": "12500000"/);
  t.match(all, /"planName": "Tee für zwei"/);
  t.match(all, /HTTP 503, 8 bytes\s+\\x1b\[2Jbusy/, 'an answer cannot clear the screen');

  terminal.press('left', 'g');
  await terminal.waitFor('> 1 ');
  all = await readThrough(terminal);
  t.ok(
    all.includes(`webhook-signature: ${String(first?.['webhook-signature'])}`),
    "the first attempt's own signature",
  );

  terminal.press('n');
  await terminal.waitFor(`Delivery  ${ids.gone[3] ?? ''}`);
  all = await readThrough(terminal);
  t.match(all, /failed after 1 of 6 attempts, ended/);
  t.match(
    all,
    /"code": "no such hook"[^]*"hint": "\\u001b\[31mmoved"/,
    'JSON in an answer is laid out too',
  );
  for (const { secret } of apps)
    t.notOk(
      terminal.written().includes(secret.slice(6)),
      'no secret was written, not for a moment',
    );

  terminal.press('escape');
  await terminal.waitFor('2 of 5');
  terminal.press('ctrl-c');
  t.same(await terminal.ended, { code: 0, signal: 0 });
}

void t.test(
  'the deliveries screen shows the list, filters and one delivery at 80x24 and 200x50',
  async (t) => {
    const stage = await scene(t);
    for (const size of [small, large]) {
      const name = `${size.columns}x${size.rows}`;
      await t.test(
        `at ${name} the deliveries list is filtered by status, type, app and time, alone and combined`,
        (t) => showsListAndFilters(t, stage, size),
      );
      await t.test(
        `at ${name} a delivery shows its attempts with sent headers, body and response, and no secret`,
        (t) => showsOne(t, stage, size),
      );
    }
    await t.test(
      'the deliveries screen is redrawn when the terminal is resized, even to a very small size',
      async (t) => {
        const terminal = openDeliveries(t, stage.database, [], large);
        await terminal.waitFor('?of=letters');
        terminal.resize(80, 24);
        let screen = await terminal.waitFor(
          /^Deliveries(?![^]*of=letters)[^]*QUEUED, UTC[^]*q leave[^\n]*\n$/,
        );
        t.equal(linesWith(screen, 'QUEUED, UTC').length, 1, 'nothing of the old picture is left');
        t.equal(linesWith(screen, 'Deliveries').length, 1);
        t.match(screen.split('\n').at(-2), /q leave/, 'the keys at its foot');
        terminal.resize(40, 6);
        screen = await terminal.waitFor(/^Deliveries[^]*payment_[^]*q leave/);
        t.equal(linesWith(screen, 'payment_').length, 1, 'the row of the cursor has a place');
        terminal.resize(5, 2);
        terminal.resize(120, 30);
        await terminal.waitFor(/^Deliveries +live(?:[^]*payment_){8}[^]*1 of 8/);
        terminal.press('q');
        t.match(await terminal.ended, { code: 0 });
      },
    );
    await t.test(
      'SIGHUP, SIGTERM and a closed terminal each end the deliveries screen',
      async (t) => {
        for (const signal of ['SIGTERM', 'SIGHUP'] as const) {
          const terminal = openDeliveries(t, stage.database);
          await terminal.waitFor('1 of 8');
          process.kill(terminal.pid, signal);
          t.same(await terminal.ended, { code: 0, signal: 0 }, signal);
          t.equal(terminal.buffer(), 'normal', 'the terminal is restored');
        }
        const closed = openDeliveries(t, stage.database);
        await closed.waitFor('1 of 8');
        closed.hangUp();
        t.same(await closed.ended, { code: 0, signal: 0 });
      },
    );
  },
);

void t.test(
  'the deliveries screen replays marked rows or the row under the cursor only after a yes',
  async (t) => {
    const { database, receiver, ids } = await scene(t);
    const { sql } = database;
    const queued = () =>
      sql<
        { replayOf: string }[]
      >`select replay_of from all_deliveries where replay_of is not null order by replay_of`;
    const terminal = openDeliveries(t, database, ['--status', 'failed']);
    await terminal.waitFor('1 of 4');
    terminal.press(' ', ' ');
    await terminal.waitFor('2 marked');
    terminal.press('r');
    t.match(
      await terminal.waitFor('Send 2 again? y/N'),
      /Replay of 2 deliveries[^]*2 match \(2 failed\)/,
    );
    terminal.press('n');
    await terminal.waitGone('Replay of');
    t.same(await queued(), [], 'a no queues nothing');

    terminal.press('r');
    await terminal.waitFor('Send 2 again? y/N');
    terminal.press('y');
    await terminal.waitFor('Queued 2 again: 2 pending.');
    t.same(
      (await queued()).map(({ replayOf }) => replayOf),
      ids.gone.slice(2),
    );
    t.notMatch(terminal.screen(), /marked/, 'the marks are gone');

    receiver.answer = (response) => response.end('well, thank you');
    const before = receiver.requests.length;
    terminal.press('x');
    await terminal.waitFor('1 of 10');
    await runDispatcher(t, database);
    await receiver.got(before + 2);
    // Without a key press: the list refreshes itself.
    await terminal.waitFor(/>.*delivered[^]*delivered/);
    await terminal.waitFor('Queued 2 again: 2 delivered.');
    terminal.press('home', 'enter');
    await terminal.waitFor('Replay of');
    terminal.press('r');
    await terminal.waitFor('Send 1 again? y/N');
    terminal.press('y');
    await receiver.got(before + 3);
    await terminal.waitFor('Queued 1 again: 1 delivered.');
    // The new delivery is shown with its result.
    await terminal.waitFor('delivered after 1 of 6 attempts');
    const [newest] = await sql<
      { id: string }[]
    >`select id from all_deliveries order by id desc limit 1`;
    t.match(terminal.screen(), newest!.id);
    terminal.press('escape');
    await terminal.waitFor('of 11');
    terminal.press('q');
    t.match(await terminal.ended, { code: 0 });
  },
);
