// Sign-in from pages, with a wallet that refuses to sign for another page than the one that it is
// connected to.
import { ComputeBudgetProgram, Message, TransactionMessage } from '@solana/web3.js';
import bs58 from 'bs58';
import { pino } from 'pino';
import t from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { type Rewrite, startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { chainApi, testApi, type TestApi } from '../fixtures/http.ts';
import { call as rpcCall } from '../fixtures/localnet.ts';
import { envelopes } from '../fixtures/off-chain-message.ts';
import { browserWallet, inputOf, type SignInInput } from '../fixtures/wallet.ts';

const publicUrl = 'https://billing.test:8443';
const shop = 'https://shop.test';
const corsOrigins = [shop, 'http://localhost:5173'];

const asked = async (api: TestApi, wallet: string, origin?: string) =>
  (
    await api.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
      body: { wallet },
      ...(origin === undefined ? {} : { headers: { origin } }),
    })
  ).body.data;

const verified = (api: TestApi, body: Record<string, unknown>, origin?: string) =>
  api.call<{ token: string; role: string }>('POST', '/auth/verify', {
    body,
    ...(origin === undefined ? {} : { headers: { origin } }),
  });

void t.test('a wallet signs in from PUBLIC_URL and from each allowed origin', async (t) => {
  const api = await testApi(t, { publicUrl, corsOrigins });
  for (const origin of [publicUrl, ...corsOrigins]) {
    const keypair = generateKeypair();
    const wallet = browserWallet(keypair, origin);
    const first = await asked(api, keypair.address, origin);
    t.equal(inputOf(first.message).domain, new URL(origin).host);
    t.equal(inputOf(first.message).uri, origin);
    const signed = await verified(api, {
      wallet: keypair.address,
      nonce: first.nonce,
      signature: bs58.encode(wallet.signMessage(first.message)),
    });
    t.equal(signed.status, 200, `${origin}, signMessage`);
    const second = await asked(api, keypair.address, origin);
    const { signedMessage, signature } = wallet.signIn(inputOf(second.message));
    const answer = await verified(api, {
      wallet: keypair.address,
      nonce: second.nonce,
      signature: bs58.encode(signature),
      signedMessage: signedMessage.toString('base64'),
    });
    t.equal(answer.status, 200, `${origin}, signIn`);
    t.equal(answer.body.data.role, origin === publicUrl ? 'merchant' : 'subscriber');
  }
});

void t.test(
  'a page of another origin, host or port gets a text that its wallet refuses',
  async (t) => {
    const api = await testApi(t, { publicUrl, corsOrigins });
    for (const origin of [
      'https://evil.test',
      'https://billing.test',
      'https://billing.test:9443',
      'http://shop.test',
      'https://shop.test:8443',
      'https://shop.test.evil.test',
      'http://localhost:5174',
      'null',
    ]) {
      const keypair = generateKeypair();
      const { message } = await asked(api, keypair.address, origin);
      t.equal(inputOf(message).domain, 'billing.test:8443', origin);
      if (origin === 'null') continue;
      const wallet = browserWallet(keypair, origin);
      for (const sign of [() => wallet.signMessage(message), () => wallet.signIn(inputOf(message))])
        t.throws(sign, { code: -32000 }, origin);
    }
    const { message } = await asked(api, generateKeypair().address);
    t.equal(inputOf(message).uri, publicUrl, 'without an Origin it is PUBLIC_URL');
  },
);

void t.test(
  'with a loopback PUBLIC_URL, sign-in works from all names of the machine, at the same port',
  async (t) => {
    const role = async (publicUrl: string, origin: string) => {
      const api = await testApi(t, { publicUrl });
      const { message } = await asked(api, generateKeypair().address, origin);
      return [inputOf(message).domain, /as a (\w+)/.exec(message)?.[1]];
    };
    const own = 'http://127.0.0.1:3000';
    for (const host of ['127.0.0.1:3000', 'localhost:3000', '[::1]:3000'])
      t.same(await role(own, `http://${host}`), [host, 'merchant']);
    t.same(await role('http://localhost:3000', own), ['127.0.0.1:3000', 'merchant']);
    for (const other of [
      'http://localhost:3001',
      'http://localhost',
      'https://localhost:3000',
      'http://127.0.0.2:3000',
      'http://localhost.test:3000',
    ])
      t.same(await role(own, other), ['127.0.0.1:3000', 'subscriber'], other);
    t.same(await role(publicUrl, 'https://localhost:8443'), ['billing.test:8443', 'subscriber']);
  },
);

void t.test(
  'merchants can sign in only on pages of the service and of DASHBOARD_ORIGINS',
  async (t) => {
    const desk = 'https://desk.test';
    const api = await testApi(t, { publicUrl, corsOrigins, dashboardOrigins: [`${desk}/`] });
    const merchants = [publicUrl, desk, undefined];
    const others = [
      shop,
      'https://evil.test',
      'https://desk.test:8443',
      'http://desk.test',
      'null',
    ];
    const ask = (origin: string | undefined, role?: string, wallet = generateKeypair().address) =>
      api.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
        body: { wallet, ...(role !== undefined && { role }) },
        ...(origin !== undefined && { headers: { origin } }),
      });
    for (const origin of merchants) {
      const { body } = await ask(origin, 'merchant');
      t.equal(inputOf(body.data.message).uri, origin ?? publicUrl);
      t.match(inputOf(body.data.message).statement, /as a merchant/, String(origin));
    }
    for (const origin of others) {
      const refused = await ask(origin, 'merchant');
      t.match(refused, { status: 403, body: { error: { code: 'FORBIDDEN' } } }, origin);
      t.match((await ask(origin)).body.data.message, /as a subscriber/, origin);
      // A nonce that was asked for without an Origin, for a page to use it.
      const keypair = generateKeypair();
      const { nonce, message } = (await ask(undefined, 'merchant', keypair.address)).body.data;
      const signature = bs58.encode(keypair.sign(Buffer.from(message)));
      const answer = await verified(api, { wallet: keypair.address, nonce, signature }, origin);
      t.match(answer, { status: 403, body: { data: null } }, origin);
    }
    const preflight = await api.app.inject({
      method: 'OPTIONS',
      url: '/auth/nonce',
      headers: { origin: desk, 'access-control-request-method': 'POST' },
    });
    t.equal(preflight.headers['access-control-allow-origin'], desk);
  },
);

void t.test('a signedMessage must equal the issued message', async (t) => {
  const api = await testApi(t, { publicUrl, corsOrigins });
  const keypair = generateKeypair();
  const wallet = browserWallet(keypair, shop);
  const attempt = async (
    change: (input: SignInInput) => SignInInput,
    edit = (text: string) => text,
  ) => {
    const { nonce, message } = await asked(api, keypair.address, shop);
    const { signedMessage } = wallet.signIn(change(inputOf(message)));
    const bytes = Buffer.from(edit(signedMessage.toString()));
    const answer = await verified(api, {
      wallet: keypair.address,
      nonce,
      signature: bs58.encode(keypair.sign(bytes)),
      signedMessage: bytes.toString('base64'),
    });
    return answer.status;
  };
  const later = { issuedAt: new Date(Date.now() + 1000).toISOString() };
  t.equal(await attempt((input) => input), 200);
  t.equal(
    await attempt((input) => ({ ...input, chainId: `solana:${input.chainId}` })),
    200,
    'the chain with its namespace',
  );
  const faults: Record<string, (input: SignInInput) => SignInInput> = {
    'no statement': ({ statement: _statement, ...input }) => input,
    'another statement': (input) => ({ ...input, statement: 'Give me everything.' }),
    'another path': (input) => ({ ...input, uri: `${shop}/pay` }),
    'no URI': ({ uri: _uri, ...input }) => input,
    'another version': (input) => ({ ...input, version: '2' }),
    'another chain': (input) => ({ ...input, chainId: 'mainnet' }),
    'no chain': ({ chainId: _chain, ...input }) => input,
    'another nonce': (input) => ({ ...input, nonce: 'abcdefgh' }),
    'another time': (input) => ({ ...input, ...later }),
    'no expiration': ({ expirationTime: _expiration, ...input }) => input,
    'a further field': (input) => ({ ...input, requestId: '1' }),
  };
  for (const [fault, change] of Object.entries(faults)) t.equal(await attempt(change), 401, fault);
  const edits: Record<string, (text: string) => string> = {
    'another domain': (text) => text.replace('shop.test wants', 'evil.test wants'),
    'another address': (text) => text.replace(keypair.address, generateKeypair().address),
    'a field twice': (text) => `${text}\nNonce: abcdefgh`,
    'a line more': (text) => `${text}\nAnd more.`,
    'another form': () => 'hello',
  };
  for (const [fault, edit] of Object.entries(edits))
    t.equal(await attempt((input) => input, edit), 401, fault);
});

void t.test('a message in the envelope of an off-chain message signs in', async (t) => {
  const api = await testApi(t, { publicUrl, corsOrigins });
  const [keypair, other] = [generateKeypair(), generateKeypair()];
  const attempt = async (
    build: (text: Buffer) => Buffer,
    { signer = keypair, withBytes = true } = {},
  ) => {
    const { nonce, message } = await asked(api, keypair.address);
    const bytes = build(Buffer.from(message));
    return verified(api, {
      wallet: keypair.address,
      nonce,
      signature: bs58.encode(signer.sign(bytes)),
      ...(withBytes && { signedMessage: bytes.toString('base64') }),
    });
  };
  for (const [form, build] of Object.entries(envelopes)) {
    const signers = [keypair.address];
    t.equal((await attempt((text) => build({ text, signers }))).status, 200, form);
    const unsent = await attempt((text) => build({ text, signers }), { withBytes: false });
    t.equal(unsent.status, 401, `${form}, without the bytes`);
    const forged = await attempt((text) => build({ text, signers }), { signer: other });
    t.equal(forged.status, 401, `${form}, signed by another wallet`);
    const longer = (text: Buffer) => Buffer.concat([build({ text, signers }), Buffer.of(10)]);
    t.equal((await attempt(longer)).status, 401, `${form}, with a byte more`);
    const foreign = (text: Buffer) => build({ text, signers: [other.address] });
    t.equal((await attempt(foreign)).status, form === 'legacy' ? 200 : 401, `${form}, signer`);
  }
});

void t.test('a transaction that is never sent signs in subscribers only', async (t) => {
  const api = await chainApi(t);
  const keypair = api.funded();
  const wallet = keypair.address;
  const ask = (more: Record<string, unknown> = {}) =>
    api.call<{ nonce: string; message: string; transaction: string }>('POST', '/auth/nonce', {
      body: { wallet, method: 'transaction', ...more },
    });
  type Change = (message: TransactionMessage) => void;
  const attempt = async (change: Change = () => undefined, isVersion0 = false) => {
    const { nonce, transaction } = (await ask()).body.data;
    const built = TransactionMessage.decompile(
      Message.from(Buffer.from(transaction, 'base64').subarray(65)),
    );
    change(built);
    const compiled = isVersion0 ? built.compileToV0Message() : built.compileToLegacyMessage();
    const bytes = Buffer.from(compiled.serialize());
    const signature = keypair.sign(bytes);
    const verify = () =>
      verified(api, {
        wallet,
        nonce,
        signature: bs58.encode(signature),
        signedMessage: bytes.toString('base64'),
      });
    return { verify, sent: Buffer.concat([Buffer.of(1), signature, bytes]).toString('base64') };
  };
  const status = async (change?: Change, isVersion0?: boolean) =>
    (await (await attempt(change, isVersion0)).verify()).status;

  const { body } = await (await attempt()).verify();
  t.match(body.data, { role: 'subscriber', wallet });
  const { transaction, message } = (await ask()).body.data;
  t.ok(Buffer.from(transaction, 'base64').includes(message), 'the text is in it in clear');
  const [limit, price, transfer, text] = [0, 1, 2, 3] as const;
  t.equal(await status(({ instructions }) => void instructions.splice(limit, 2)), 200, 'no budget');
  t.equal(await status((m) => void (m.recentBlockhash = generateKeypair().address)), 200);
  t.equal(await status(undefined, true), 200, 'version 0');
  const refused: Record<string, Change> = {
    'another text': ({ instructions }) => {
      instructions[text]!.data = Buffer.from(`${message}.`);
    },
    'the memo alone': ({ instructions }) => void instructions.splice(transfer, 1),
    'the transfer alone': ({ instructions }) => void instructions.splice(text, 1),
    'a transfer of a lamport': ({ instructions }) => {
      const data = Buffer.from(instructions[transfer]!.data);
      data.writeBigUInt64LE(1n, 4);
      instructions[transfer]!.data = data;
    },
    'a fee above the limit': ({ instructions }) => {
      instructions[price] = ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1e9 });
    },
  };
  for (const [fault, change] of Object.entries(refused)) t.equal(await status(change), 401, fault);

  const { rpcUrl } = api.localnet;
  const behind = await startRewritingEndpoint(rpcUrl, (method, _params, result) =>
    method === 'getSignatureStatuses' ? { ...(result as object), value: [null] } : result,
  );
  const two = createRpc({ urls: [behind.url, rpcUrl], log: pino({ enabled: false }) });
  t.teardown(async () => {
    await two.close();
    behind.close();
  });
  for (const [blocks, isOneBehind] of [
    [3, false],
    [400, false],
    [3, true],
  ] as const) {
    if (isOneBehind) Object.assign(api.deps.chain, two);
    const landed = await attempt();
    const encoding = { encoding: 'base64', skipPreflight: true };
    const signature = await rpcCall<string>(rpcUrl, 'sendTransaction', landed.sent, encoding);
    api.localnet.mineBlocks(blocks);
    const statusOf = async (...options: unknown[]) =>
      (
        await rpcCall<{ value: ({ err: unknown } | null)[] }>(
          rpcUrl,
          'getSignatureStatuses',
          [signature],
          ...options,
        )
      ).value[0];
    t.equal((await statusOf({ searchTransactionHistory: true }))?.err, null, 'it lands');
    t.equal((await statusOf()) === null, blocks > 300, 'an old one is known to the history only');
    const when = `${blocks} blocks later${isOneBehind ? ', at one of two endpoints' : ''}`;
    t.equal((await landed.verify()).status, 401, `and gives no session ${when}`);
  }

  t.match(await ask({ role: 'merchant' }), { status: 403, body: { data: null } });
  await ask();
  await api.sql`update auth_nonces set role = 'merchant'`;
  const asMerchant = await attempt();
  await api.sql`update auth_nonces set role = 'merchant'`;
  t.equal((await asMerchant.verify()).status, 403, 'a nonce of a merchant takes no transaction');
});

void t.test(
  'a sign-in transaction is accepted only if both endpoints show that it was never sent',
  async (t) => {
    const api = await chainApi(t);
    const { rpcUrl } = api.localnet;
    const keypair = api.funded();
    const wallet = keypair.address;
    api.localnet.mineBlocks(40);
    const attempt = async ({ isSent = false } = {}) => {
      const { body } = await api.call<{ nonce: string; transaction: string }>(
        'POST',
        '/auth/nonce',
        {
          body: { wallet, method: 'transaction' },
        },
      );
      const { nonce, transaction } = body.data;
      const bytes = Buffer.from(transaction, 'base64').subarray(65);
      const signature = keypair.sign(bytes);
      if (isSent) {
        const sent = Buffer.concat([Buffer.of(1), signature, bytes]).toString('base64');
        const encoding = { encoding: 'base64', skipPreflight: true };
        await rpcCall<string>(rpcUrl, 'sendTransaction', sent, encoding);
        api.localnet.mineBlocks(40);
      }
      return verified(api, {
        ...{ wallet, nonce, signature: bs58.encode(signature) },
        signedMessage: bytes.toString('base64'),
      });
    };
    const lacking: Rewrite = (method, _params, result) =>
      method === 'getSignatureStatuses' ? { ...(result as object), value: [null] } : result;
    const honest: Rewrite = (_method, _params, result) => result;
    const short: Rewrite = (method, params, result) =>
      method === 'getFirstAvailableBlock' ? 1_000_000 : lacking(method, params, result);
    const stuck: Rewrite = (method, params, result) =>
      method === 'getSignatureStatuses'
        ? { context: { slot: 1 }, value: [null] }
        : lacking(method, params, result);
    api.localnet.mineBlocks(400);
    let isBusy = true;
    const busy = (isForever: boolean) =>
      startRewritingEndpoint(rpcUrl, honest, (method) => {
        if (method !== 'getSignatureStatuses' || !isBusy) return undefined;
        isBusy = isForever;
        return { code: 429, message: 'Too many requests' };
      });
    for (const [what, other, isSent, status] of [
      ['the other one is down', await busy(true), true, 503],
      ['the history of the other one is short', short, true, 503],
      ['the other one is far behind', stuck, true, 503],
      ['the other one has it', honest, true, 401],
      ['neither has it', honest, false, 200],
      ['the other one is rate limited for a moment', await busy(false), false, 200],
    ] as const) {
      isBusy = true;
      const endpoints = [
        await startRewritingEndpoint(rpcUrl, lacking),
        typeof other === 'function' ? await startRewritingEndpoint(rpcUrl, other) : other,
      ];
      const urls = endpoints.map(({ url }) => url);
      const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
      Object.assign(api.deps.chain, rpc);
      const verification = await attempt({ isSent });
      t.equal(verification.status, status, what);
      if (status === 503) t.match(verification.body.error, { message: /ask for another nonce/ });
      await rpc.close();
      for (const one of endpoints) one.close();
    }
  },
);

void t.test('GET /auth/methods lists the sign-in methods for the request’s Origin', async (t) => {
  const api = await testApi(t, { publicUrl, corsOrigins });
  const methods = async (origin: string) =>
    (
      await api.call<{ method: string; roles: string[] }[]>('GET', '/auth/methods', {
        headers: { origin },
      })
    ).body.data.map(({ method, roles }) => `${method}: ${roles.join(' ')}`);
  t.same(await methods(publicUrl), [
    'signIn: merchant subscriber',
    'signMessage: merchant subscriber',
    'signOffchainMessage: merchant subscriber',
    'transaction: subscriber',
  ]);
  t.same(
    await methods(shop),
    ['signIn', 'signMessage', 'signOffchainMessage', 'transaction'].map(
      (method) => `${method}: subscriber`,
    ),
  );
});

void t.test('a nonce expires by the clock of Postgres', async (t) => {
  const api = await testApi(t, { publicUrl, corsOrigins });
  const keypair = generateKeypair();
  const sign = async (expiresIn: string) => {
    const { nonce, message } = await asked(api, keypair.address);
    await api.sql`update auth_nonces set expires_at = now() + ${expiresIn}::interval where nonce = ${nonce}`;
    const signature = bs58.encode(keypair.sign(Buffer.from(message)));
    return (await verified(api, { wallet: keypair.address, nonce, signature })).status;
  };
  t.equal(await sign('1 minute'), 200);
  t.equal(await sign('-1 second'), 401);
});
