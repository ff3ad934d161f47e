import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Keypair as Web3Keypair } from '@solana/web3.js';
import bs58 from 'bs58';
import t from 'tap';
import nacl from 'tweetnacl';
import { generateKeypair, keypairFromSecret, readKeypair } from '../../src/chain/keypair.ts';

void t.test('signatures and addresses equal those that tweetnacl and web3.js compute', (t) => {
  for (let run = 0; run < 20; run += 1) {
    const theirs = Web3Keypair.generate();
    const own = keypairFromSecret(theirs.secretKey);
    const message = nacl.randomBytes(run * 40);
    t.equal(own.address, theirs.publicKey.toBase58());
    t.same(own.sign(message), Buffer.from(nacl.sign.detached(message, theirs.secretKey)));
  }
  t.end();
});

void t.test('a generated key’s signatures verify with its address', (t) => {
  const keypair = generateKeypair();
  t.ok(
    nacl.sign.detached.verify(
      Buffer.from('message'),
      keypair.sign(Buffer.from('message')),
      bs58.decode(keypair.address),
    ),
  );
  t.not(generateKeypair().address, keypair.address);
  t.end();
});

void t.test('printing or serialising a keypair shows no secret', (t) => {
  const { secretKey } = Web3Keypair.generate();
  const shown =
    inspect(keypairFromSecret(secretKey), { depth: 10, showHidden: true }) +
    JSON.stringify(keypairFromSecret(secretKey));
  t.notMatch(shown, bs58.encode(secretKey));
  t.notMatch(shown, Buffer.from(secretKey.subarray(0, 32)).toString('hex'));
  t.end();
});

void t.test(
  'a keypair whose halves do not belong together is refused without showing them',
  (t) => {
    const { secretKey } = Web3Keypair.generate();
    const mixed = Buffer.concat([
      secretKey.subarray(0, 32),
      Web3Keypair.generate().publicKey.toBytes(),
    ]);
    t.throws(() => keypairFromSecret(mixed), {
      message: 'the public half of the keypair does not belong to its private half',
    });
    t.throws(() => keypairFromSecret(secretKey.subarray(0, 32)), {
      message: 'a keypair has 64 bytes, this one has 32',
    });
    t.end();
  },
);

void t.test('keypair files are read, or refused without showing their content', async (t) => {
  const folder = t.testdir();
  const file = async (name: string, content: string, mode = 0o600) => {
    const path = join(folder, name);
    await writeFile(path, content);
    await chmod(path, mode);
    return path;
  };
  const { secretKey, publicKey } = Web3Keypair.generate();
  const good = JSON.stringify([...secretKey]);

  await t.test('a keypair file that the Solana CLI wrote is read', async (t) => {
    t.equal((await readKeypair(await file('good.json', good))).address, publicKey.toBase58());
    t.equal(
      (await readKeypair(await file('readonly.json', `${good}\n`, 0o400))).address,
      publicKey.toBase58(),
    );
  });
  await t.test(
    'a keypair file that others can read is refused with the command that repairs it',
    async (t) => {
      for (const mode of [0o644, 0o640, 0o604, 0o660, 0o601]) {
        const path = await file(`open${mode}.json`, good, mode);
        await t.rejects(readKeypair(path), {
          message: `the keypair file ${path} is open to others (mode ${mode.toString(8)}): run chmod 600 ${path}`,
        });
      }
    },
  );
  await t.test(
    'a file that is not a keypair is refused by its name, without its content',
    async (t) => {
      const wrong = {
        'not JSON': good.slice(0, -1),
        object: '{"secret": 1}',
        'too short': JSON.stringify([...secretKey.subarray(0, 32)]),
        'no bytes': JSON.stringify([...secretKey.subarray(0, 63), 256]),
        fractions: JSON.stringify([...secretKey.subarray(0, 63), 1.5]),
        'a foreign half': JSON.stringify([
          ...secretKey.subarray(0, 32),
          ...Web3Keypair.generate().publicKey.toBytes(),
        ]),
        'a byte order mark': `\uFEFF${good}`,
        empty: '',
      };
      for (const [name, content] of Object.entries(wrong)) {
        const path = await file('wrong.json', content);
        const error: unknown = await readKeypair(path).catch((reason: unknown) => reason);
        t.ok(error instanceof Error && error.message.includes(path), name);
        t.match((error as Error).message, /not a Solana CLI keypair/, name);
        t.notMatch(inspect(error), [...secretKey.subarray(0, 6)].join(','), name);
      }
    },
  );
  await t.test('a missing keypair file is refused by its name', async (t) => {
    await t.rejects(readKeypair(join(folder, 'none.json')), {
      message: /none\.json cannot be read: ENOENT/,
    });
    await t.rejects(readKeypair(folder), { message: new RegExp(folder) });
  });
});

void t.test(
  'a keypair file from systemd credentials is accepted, although its group or an ACL may read it',
  async (t) => {
    if (process.getuid?.() !== 0) {
      // Only root can make such a file.
      process.stderr.write(`NOT RUN, it takes root: ${t.name}\n`);
      return;
    }
    const nobody = 65534;
    const folder = await mkdtemp(join(tmpdir(), 'billing-credentials-'));
    t.teardown(() => rm(folder, { recursive: true }));
    await chmod(folder, 0o755);
    const { secretKey, publicKey } = Web3Keypair.generate();
    const file = async (mode: number, uid: number) => {
      const path = join(folder, `${uid}-${mode.toString(8)}.json`);
      await writeFile(path, JSON.stringify([...secretKey]));
      await chown(path, uid, nobody);
      await chmod(path, mode);
      return path;
    };
    const [byGroup, byOwner, groupsOwn, writable, open] = [
      await file(0o440, 0),
      await file(0o400, nobody),
      await file(0o440, nobody),
      await file(0o460, 0),
      await file(0o444, 0),
    ];
    const asNobody = async <T>(work: () => Promise<T>): Promise<T> => {
      const group = process.getegid?.() ?? 0;
      process.setegid?.(nobody);
      process.seteuid?.(nobody);
      try {
        return await work();
      } finally {
        process.seteuid?.(0);
        process.setegid?.(group);
      }
    };
    await asNobody(async () => {
      t.equal((await readKeypair(byGroup)).address, publicKey.toBase58());
      t.equal((await readKeypair(byOwner)).address, publicKey.toBase58());
      for (const path of [groupsOwn, writable, open])
        await t.rejects(readKeypair(path), { message: /is open to others/ }, path);
    });
    await t.rejects(
      readKeypair(byGroup),
      { message: /is open to others/ },
      "to root itself it is root's own file, open to a group",
    );
  },
);
