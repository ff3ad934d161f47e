// Reads that several endpoints have to agree on, and groups of accounts that are read together.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { CLOCK_SYSVAR, SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { witnessAbsence } from '../../../src/chain/rpc/absence.ts';
import { readAccountGroups } from '../../../src/chain/rpc/account-groups.ts';
import { createRpc, type RpcOptions } from '../../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { type BelievesClock, createTrustedClock } from '../../../src/chain/rpc/trusted-clock.ts';
import { signTransaction } from '../../../src/chain/transactions/subscriptions.ts';
import { memo } from '../../../src/chain/transactions/system-instructions.ts';
import { answer, type Behaviour, HANDLED, startRpcServer } from '../../fixtures/rpc-server.ts';

const log = pino({ level: 'silent' });

async function setup(t: Test, behaviours: Behaviour[], options: Partial<RpcOptions> = {}) {
  const servers = await Promise.all(behaviours.map(startRpcServer));
  const urls = servers.map(({ url }) => url);
  const rpc = createRpc({ urls, timeoutMs: 20_000, probeMs: Infinity, log, ...options });
  t.teardown(async () => {
    await rpc.close();
    servers.forEach((server) => server.close());
  });
  return { rpc, servers };
}

const encoded = (data: Buffer, owner = SUBSCRIPTIONS_PROGRAM) => ({
  data: [data.toString('base64'), 'base64'],
  owner,
  lamports: 5,
});

/** An endpoint at a slot that responds for each address as `of` returns. */
const accountsOf =
  (slot: number, of: (address: string) => unknown): Behaviour =>
  ({ params }) => ({ context: { slot }, value: (params[0] as string[]).map(of) });

void t.test(
  'a group of accounts is read in one request that contains each shared address once',
  async (t) => {
    let slot = 100;
    const { rpc, servers } = await setup(t, [
      (seen, ...rest) =>
        accountsOf((slot += 1), (address) =>
          address === 'plan 3' ? null : encoded(Buffer.from(address)),
        )(seen, ...rest),
    ]);
    const groups = Array.from({ length: 60 }, (_, n) => [
      `subscription ${n}`,
      `plan ${n % 5}`,
      `tokens ${n}`,
      `authority ${n}`,
    ]);
    const read = await readAccountGroups(rpc, groups);
    t.equal(read.length, 60);
    read.forEach(({ accounts }, n) => {
      const names = accounts.map((account) => account?.data.toString());
      if (names.join() !== groups[n]!.map((one) => (one === 'plan 3' ? undefined : one)).join())
        t.fail(`group ${n}: ${names.join()}`);
    });
    const asked = servers[0]!.calls.map(({ params }) => params[0] as string[]);
    t.equal(asked.length, 2);
    for (const addresses of asked) {
      t.ok(addresses.length <= 100);
      t.equal(new Set(addresses).size, addresses.length);
    }
    for (const group of groups)
      t.equal(asked.filter((some) => group.every((one) => some.includes(one))).length, 1);
    t.same(new Set(read.map(({ slot: of }) => of)), new Set([101n, 102n]));
    t.same(await readAccountGroups(rpc, []), []);
    const wide = Array.from({ length: 101 }, (_, n) => `${n}`);
    await t.rejects(readAccountGroups(rpc, [wide]), RangeError);
  },
);

void t.test(
  'an account is absent only if every endpoint reports it as missing at finalized',
  async (t) => {
    const none = accountsOf(7, () => null);
    const closed = accountsOf(7, () => encoded(Buffer.alloc(0), SYSTEM_PROGRAM));
    const some = accountsOf(8, (address) => (address === 'a' ? null : encoded(Buffer.from('x'))));
    const two = await setup(t, [none, some]);
    t.same(await witnessAbsence(two.rpc, ['a', 'b']), {
      absent: new Set(['a']),
      disputed: new Set(['b']),
      witnesses: 2,
    });
    t.match(two.servers[1]!.calls[0]?.params[1], { commitment: 'finalized' });
    const both = await setup(t, [none, closed]);
    t.same(await witnessAbsence(both.rpc, ['a']), {
      absent: new Set(['a']),
      disputed: new Set(),
      witnesses: 2,
    });
    const alone = await setup(t, [none, (_, response) => answer(response, 'no', 500)]);
    t.equal(
      (await witnessAbsence(alone.rpc, ['a'])).witnesses,
      1,
      'a broken endpoint is no witness',
    );
  },
);

function clockOf(seconds: number): Behaviour {
  const data = Buffer.alloc(40);
  data.writeBigInt64LE(BigInt(seconds), 32);
  return accountsOf(7, () => encoded(data));
}

void t.test(
  'a clock over ten minutes off is accepted only if a second endpoint confirms it',
  async (t) => {
    const start = 1_800_000_000;
    const day = 86_400;
    let ms = 0;
    const reported: number[] = [];
    const trusted = (machine: number, clocks: number[]) =>
      createTrustedClock(
        async () => clocks.map((seconds) => ({ slot: 1n, unixTimestamp: BigInt(seconds) })),
        {
          machineSeconds: () => machine,
          monotonicMs: () => ms,
          onDisbelief: (seconds) => reported.push(seconds),
        },
      );
    /** The verdict on a reading after the endpoints were asked about it. */
    const believed = async (believes: BelievesClock, seconds: number) => {
      believes(BigInt(seconds));
      await new Promise(setImmediate);
      return believes(BigInt(seconds));
    };
    t.equal(trusted(start + 300, [])(BigInt(start)), true, 'the machine agrees');
    t.equal(await believed(trusted(start, [start + day]), start + day), false, 'alone');
    t.equal(
      await believed(trusted(start, [start + day, start]), start + day),
      false,
      'beside a good one',
    );
    t.equal(
      await believed(trusted(start, [start + day, start + day + 9]), start + day),
      true,
      'two agree',
    );
    t.same(reported, [start + day, start + day, start + day], 'each once');

    const creeping = trusted(start, [start]);
    t.equal(creeping(BigInt(start)), true);
    for (const ahead of [599, 1190, 1790, 2390]) {
      t.equal(await believed(creeping, start + ahead), ahead < 1200, `${ahead} s ahead, in steps`);
    }
    const off = trusted(start - day, [start, start]);
    t.equal(await believed(off, start), true, 'endpoints against the machine');
    ms += 3_600_000;
    t.equal(off(BigInt(start + 3600)), true, 'an hour later');
    t.equal(off(BigInt(start - day + 100)), true, 'the machine is a witness too');
  },
);

void t.test(
  'an endpoint with an implausible or missing clock is skipped if another endpoint has a good clock',
  async (t) => {
    const now = Math.floor(Date.now() / 1000);
    const reported: number[] = [];
    const clock = { onDisbelief: (seconds: number) => reported.push(seconds) };
    for (const wrong of [clockOf(now + 86_400), accountsOf(7, () => null)]) {
      const { rpc, servers } = await setup(t, [wrong, clockOf(now)], { clock });
      const { accounts } = await rpc.getMultipleAccounts([SYSTEM_PROGRAM, CLOCK_SYSVAR]);
      t.equal(accounts[1]?.data.readBigInt64LE(32), BigInt(now));
      t.equal((await rpc.getClock()).unixTimestamp, BigInt(now));
      t.ok(servers[1]!.calls.length >= 2);
    }
    t.same(reported, [now + 86_400], 'one report');
    const alone = await setup(t, [clockOf(now + 86_400)], { clock });
    await t.rejects(alone.rpc.getClock(), RpcUnreachable);
  },
);

void t.test(
  'a 429 on a send does not delay reads, and sends have their own rate limit',
  async (t) => {
    const { bytes, signature } = signTransaction(generateKeypair(), [memo('a')], SYSTEM_PROGRAM);
    const limited = await setup(t, [
      ({ method }, response) => {
        if (method !== 'sendTransaction') return 5;
        answer(response, '', 429, { 'retry-after': '60' });
        return HANDLED;
      },
    ]);
    await t.rejects(limited.rpc.sendTransaction(bytes), /429/);
    t.equal(await limited.rpc.getSlot(), 5n);

    const sender = await startRpcServer(() => signature);
    t.teardown(() => sender.close());
    const apart = await setup(t, [() => 5], { sendUrls: [sender.url], sendsPerSecond: 1 });
    const startedAt = performance.now();
    t.equal(await apart.rpc.sendTransaction(bytes), signature);
    t.equal(sender.calls.length, 1);
    t.equal(apart.servers[0]!.calls.length, 0);
    t.equal(apart.rpc.health().length, 2);
    await apart.rpc.sendTransaction(bytes);
    t.ok(performance.now() - startedAt > 990, 'the second waits its turn');
    await Promise.all(Array.from({ length: 20 }, () => apart.rpc.getSlot()));
  },
);
