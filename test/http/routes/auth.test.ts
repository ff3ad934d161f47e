// POST /auth/nonce and POST /auth/verify.
import bs58 from 'bs58';
import t from 'tap';
import nacl from 'tweetnacl';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { tokenAccountAddress } from '../../../src/chain/program/addresses.ts';
import { testApi, type TestApi } from '../../fixtures/http.ts';

interface Nonce {
  nonce: string;
  message: string;
  expiresAt: string;
}
interface Verified {
  token: string;
  tokenType: string;
  expiresAt: string;
  role: string;
  wallet: string;
}

const ask = async (api: TestApi, wallet: string, role?: string) =>
  (
    await api.call<Nonce>('POST', '/auth/nonce', {
      body: { wallet, ...(role === undefined ? {} : { role }) },
    })
  ).body.data;
const unauthorized = {
  status: 401,
  body: { success: false, data: null, error: { code: 'UNAUTHORIZED' } },
};

void t.test(
  'the sign-in message is a Sign-In With Solana text with domain, address, role, nonce and times',
  async (t) => {
    const api = await testApi(t);
    const wallet = generateKeypair().address;
    const { nonce, message, expiresAt } = await ask(api, wallet, 'subscriber');
    const lines = message.split('\n');
    t.equal(lines[0], 'billing.test wants you to sign in with your Solana account:');
    t.equal(lines[1], wallet);
    t.match(lines[3], /subscriber/);
    t.ok(lines.includes('URI: http://billing.test'));
    t.ok(lines.includes('Version: 1'));
    t.ok(lines.includes(`Nonce: ${nonce}`));
    t.ok(lines.includes(`Expiration Time: ${expiresAt}`));
    const issued = lines
      .find((line) => line.startsWith('Issued At: '))!
      .slice('Issued At: '.length);
    t.equal(Date.parse(expiresAt) - Date.parse(issued), 5 * 60_000);
    t.match((await ask(api, wallet)).message, /as a merchant/, 'merchant is the default role');
  },
);

void t.test(
  'an address without a key gets an error that says it cannot sign in, and what it can do',
  async (t) => {
    const api = await testApi(t);
    // The vault of a multisig is derived from a program, as a token account is.
    const wallet = tokenAccountAddress(
      generateKeypair().address,
      generateKeypair().address,
    ).address;
    const refused = {
      status: 400,
      body: {
        error: {
          code: 'VALIDATION_ERROR',
          details: [{ path: 'wallet', message: /cannot sign in. Use a wallet with a key/ }],
        },
      },
    };
    t.match(await api.call('POST', '/auth/nonce', { body: { wallet } }), refused);
    const signature = bs58.encode(Buffer.alloc(64, 1));
    const body = { wallet, nonce: 'x', signature };
    t.match(await api.call('POST', '/auth/verify', { body }), refused);
    const planId = '01960000-0000-7000-8000-000000000000';
    t.match(
      await api.call('POST', `/checkout/plans/${planId}/offers`, { body: { wallet } }),
      refused,
    );
  },
);

void t.test(
  'a signed nonce gives a JWT of one hour; a first merchant sign-in creates the merchant in the free tier',
  async (t) => {
    const api = await testApi(t);
    const pair = nacl.sign.keyPair();
    const wallet = bs58.encode(pair.publicKey);
    const { nonce, message } = await ask(api, wallet, 'merchant');
    const signature = bs58.encode(nacl.sign.detached(Buffer.from(message), pair.secretKey));
    const before = Date.now();
    const verified = await api.call<Verified>('POST', '/auth/verify', {
      body: { wallet, nonce, signature },
    });
    const after = Date.now();
    t.equal(verified.status, 200);
    t.match(verified.body.data, { tokenType: 'Bearer', role: 'merchant', wallet });
    const issuedAt = Date.parse(verified.body.data.expiresAt) - 3_600_000;
    // In whole seconds.
    t.ok(issuedAt > before - 1000 && issuedAt <= after, 'an hour');
    const payload = JSON.parse(
      Buffer.from(verified.body.data.token.split('.')[1]!, 'base64url').toString(),
    ) as Record<string, unknown>;
    t.same(Object.keys(payload).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'role', 'sub']);
    t.match(payload, {
      sub: wallet,
      role: 'merchant',
      iss: 'http://billing.test',
      aud: 'http://billing.test',
    });
    const profile = await api.call('GET', '/merchant/profile', { token: verified.body.data.token });
    t.match(profile.body.data, { wallet, tier: 'free', name: null, email: null });
  },
);

void t.test(
  "a subscriber's sign-in creates no merchant, and repeated merchant sign-ins create only one",
  async (t) => {
    const api = await testApi(t);
    await api.signIn('subscriber');
    t.equal((await api.sql`select 1 from merchants`).length, 0);
    const keypair = generateKeypair();
    await Promise.all([api.signIn('merchant', keypair), api.signIn('merchant', keypair)]);
    t.equal((await api.sql`select 1 from merchants`).length, 1);
  },
);

void t.test('a nonce works once, even when many requests verify it at the same time', async (t) => {
  const api = await testApi(t);
  const keypair = generateKeypair();
  const wallet = keypair.address;
  const { nonce, message } = await ask(api, wallet);
  const body = { wallet, nonce, signature: bs58.encode(keypair.sign(Buffer.from(message))) };
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => api.call('POST', '/auth/verify', { body })),
  );
  t.equal(answers.filter(({ status }) => status === 200).length, 1);
  t.equal(answers.filter(({ status }) => status === 401).length, 19);
});

void t.test(
  'a wrong signature, wallet or nonce gets 401, and a wrong signature uses up the nonce',
  async (t) => {
    const api = await testApi(t);
    const keypair = generateKeypair();
    const wallet = keypair.address;
    const verify = (body: Record<string, string>) => api.call('POST', '/auth/verify', { body });
    const signed = (by: typeof keypair, text: string) => bs58.encode(by.sign(Buffer.from(text)));

    const first = await ask(api, wallet);
    const another = generateKeypair();
    t.match(
      await verify({
        wallet: another.address,
        nonce: first.nonce,
        signature: signed(another, first.message),
      }),
      unauthorized,
      'another wallet',
    );
    t.match(
      await verify({ wallet, nonce: first.nonce, signature: signed(another, first.message) }),
      unauthorized,
      'signed by another',
    );
    t.match(
      await verify({ wallet, nonce: first.nonce, signature: signed(keypair, first.message) }),
      unauthorized,
      'used up',
    );

    const second = await ask(api, wallet);
    t.match(
      await verify({
        wallet,
        nonce: second.nonce,
        signature: signed(keypair, `${second.message} `),
      }),
      unauthorized,
      'another text',
    );
    const third = await ask(api, wallet);
    await api.sql`update auth_nonces set expires_at = now() - interval '1 second'`;
    t.match(
      await verify({ wallet, nonce: third.nonce, signature: signed(keypair, third.message) }),
      unauthorized,
      'expired',
    );
    t.match(
      await verify({ wallet, nonce: 'neverissued', signature: signed(keypair, 'x') }),
      unauthorized,
      'never issued',
    );
    const small = '11111111111111111111111111111111';
    const forged = bs58.encode(Buffer.concat([Buffer.from([1]), Buffer.alloc(63)]));
    for (let n = 0; n < 30; n += 1) {
      const { nonce } = await ask(api, small);
      t.match(
        await verify({ wallet: small, nonce, signature: forged }),
        unauthorized,
        'a key of small order proves nothing',
      );
    }
  },
);

void t.test("invalid sign-in input gets VALIDATION_ERROR with the field's name", async (t) => {
  const api = await testApi(t);
  const wallet = generateKeypair().address;
  const cases: [string, Record<string, unknown>, string][] = [
    ['/auth/nonce', {}, 'wallet'],
    ['/auth/nonce', { wallet: '0OIl' }, 'wallet'],
    ['/auth/nonce', { wallet: `1${wallet}` }, 'wallet'],
    ['/auth/nonce', { wallet: 5 }, 'wallet'],
    ['/auth/nonce', { wallet, role: 'admin' }, 'role'],
    ['/auth/nonce', { wallet, extra: 1 }, 'extra'],
    ['/auth/verify', { wallet, nonce: 'x' }, 'signature'],
    ['/auth/verify', { wallet, nonce: 'x', signature: 'short' }, 'signature'],
    ['/auth/verify', { wallet, nonce: '\0', signature: 'z'.repeat(88) }, 'nonce'],
    ['/auth/verify', { wallet, nonce: 'x'.repeat(101), signature: 'z'.repeat(88) }, 'nonce'],
  ];
  for (const [url, body, path] of cases) {
    t.match(
      await api.call('POST', url, { body }),
      { status: 400, body: { error: { code: 'VALIDATION_ERROR', details: [{ path }] } } },
      JSON.stringify(body),
    );
  }
});
