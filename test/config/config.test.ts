import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import type { ConfigRole } from '../../src/config/variables.ts';
import type { OperatorError } from '../../src/errors.ts';

const wallet = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';
const whole = {
  DATABASE_URL: 'postgres://billing:pw@db.example:5432/billing',
  SOLANA_RPC_URL: 'http://127.0.0.1:8899, http://127.0.0.1:8999',
  KEEPER_KEYPAIR: '/keeper.json',
  KEEPER_ADDRESS: wallet,
  PLATFORM_TREASURY: wallet,
  JWT_SECRET: 'j'.repeat(32),
  ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
};

function refusal(role: ConfigRole, env: Record<string, string | undefined>): OperatorError {
  try {
    loadConfig(role, { env });
  } catch (error) {
    return error as OperatorError;
  }
  throw new Error('the configuration was accepted');
}

void t.test(
  'a complete environment is read into a frozen configuration with the documented defaults',
  (t) => {
    const config = loadConfig('serve', { env: whole });
    t.match(config, {
      env: 'development',
      port: 3000,
      host: '127.0.0.1',
      feeBps: 100,
      pastDueDays: 7,
      metricsPort: 9464,
      cluster: 'devnet',
      webhookGuard: false,
      serveRpcRate: 10,
      connectionsPerAddress: 200,
    });
    t.same(config.rpcUrls, ['http://127.0.0.1:8899', 'http://127.0.0.1:8999']);
    t.equal(config.publicUrl, 'http://127.0.0.1:3000');
    t.ok(Object.isFrozen(config));
    t.end();
  },
);

void t.test(
  'one message reports every fault with its variable and the right form, exit code 2',
  (t) => {
    const error = refusal('serve', {
      ...whole,
      DATABASE_URL: undefined,
      PORT: '70000',
      BILLING_ENV: 'prod',
      JWT_SECRET: 'short',
      PLATFORM_FEE_BPS: '1e2',
    });
    t.equal(error.exitCode, 2);
    t.match(error.message, /DATABASE_URL is required/);
    t.match(error.message, /PORT must be a whole number from 0 to 65535/);
    t.match(error.message, /BILLING_ENV must be one of development, production/);
    t.match(error.message, /JWT_SECRET must be at least 32 bytes/);
    t.match(error.message, /PLATFORM_FEE_BPS must be a whole number/);
    t.end();
  },
);

void t.test('an error message about a secret variable never shows the secret', (t) => {
  const error = refusal('serve', {
    ...whole,
    JWT_SECRET: 'hunter2',
    DATABASE_URL: 'mysql://root:hunter2@db/x',
  });
  t.match(error.message, /DATABASE_URL must be a URL that starts with postgres:/);
  t.notMatch(error.message, /hunter2/);
  t.end();
});

void t.test('each role requires only its own variables', (t) => {
  t.doesNotThrow(() =>
    loadConfig('dispatch', {
      env: { DATABASE_URL: whole.DATABASE_URL, ENCRYPTION_KEY: whole.ENCRYPTION_KEY },
    }),
  );
  t.doesNotThrow(() => loadConfig('admin', { env: { DATABASE_URL: whole.DATABASE_URL } }));
  t.match(
    refusal('keeper', { DATABASE_URL: whole.DATABASE_URL }).message,
    /SOLANA_RPC_URL is required[^]*KEEPER_KEYPAIR is required[^]*PLATFORM_TREASURY is required/,
  );
  t.end();
});

void t.test(
  'a secret is read from its variable or from a file, and refused if both are set',
  (t) => {
    const file = join(t.testdir(), 'secret');
    writeFileSync(file, `${'g'.repeat(40)}\n`);
    chmodSync(file, 0o600);
    const config = loadConfig('serve', {
      env: { ...whole, JWT_SECRET: undefined, JWT_SECRET_FILE: file },
    });
    t.same(config.jwtSecrets, ['g'.repeat(40)]);
    t.match(
      refusal('serve', { ...whole, JWT_SECRET_FILE: file }).message,
      /JWT_SECRET and JWT_SECRET_FILE are both given/,
    );
    t.match(
      refusal('serve', { ...whole, JWT_SECRET: undefined, JWT_SECRET_FILE: `${file}.gone` })
        .message,
      /JWT_SECRET cannot be read from JWT_SECRET_FILE: ENOENT/,
    );
    t.end();
  },
);

void t.test(
  'an .env file supplies variables that the environment lacks; the environment wins',
  (t) => {
    const envFile = join(t.testdir(), '.env');
    writeFileSync(envFile, `PORT=4000\nHOST=0.0.0.0\nLOG_LEVEL=\n`);
    const config = loadConfig('serve', { env: { ...whole, PORT: '5000' }, envFile });
    t.match(config, { port: 5000, host: '0.0.0.0' });
    t.equal(config.logLevel, loadConfig('serve', { env: whole }).logLevel, 'empty is not set');
    t.throws(() => loadConfig('serve', { env: whole, envFile: `${envFile}.gone` }), {
      name: 'OperatorError',
      exitCode: 2,
    });
    t.end();
  },
);

void t.test('production always guards webhook addresses, also with WEBHOOK_GUARD off', (t) => {
  t.equal(
    loadConfig('serve', {
      env: {
        ...whole,
        BILLING_ENV: 'production',
        PUBLIC_URL: 'https://billing.example',
        WEBHOOK_GUARD: 'false',
      },
    }).webhookGuard,
    true,
  );
  t.end();
});

void t.test(
  'keeper wallets, keypairs and treasuries are lists, and the first entry is the active one',
  (t) => {
    const second = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU';
    const config = loadConfig('keeper', {
      env: {
        ...whole,
        KEEPER_ADDRESS: `${wallet}, ${second}`,
        PLATFORM_TREASURY: `${second},${wallet}`,
        KEEPER_KEYPAIR: '/a.json,/b.json',
      },
    });
    t.match(config, {
      keeperAddress: wallet,
      keeperAddresses: [wallet, second],
      treasury: second,
      treasuries: [second, wallet],
      keeperKeypair: '/a.json',
      keeperKeypairs: ['/a.json', '/b.json'],
    });
    t.match(
      refusal('serve', { ...whole, PLATFORM_TREASURY: `${wallet},${wallet}` }).message,
      /PLATFORM_TREASURY names the same twice/,
    );
    t.end();
  },
);

void t.test('an address that is not 32 bytes and 16 bytes of hex are refused', (t) => {
  const error = refusal('serve', {
    ...whole,
    PLATFORM_TREASURY: 'z'.repeat(44),
    JWT_SECRET: 'ab'.repeat(16),
  });
  t.match(error.message, /PLATFORM_TREASURY must be a Solana address: Base58 of 32 bytes/);
  t.match(error.message, /JWT_SECRET must be at least 32 bytes/);
  t.doesNotThrow(() => loadConfig('serve', { env: { ...whole, JWT_SECRET: 'ab'.repeat(32) } }));
  t.end();
});

void t.test('combinations of settings that contradict each other are refused', (t) => {
  const production = { ...whole, BILLING_ENV: 'production' };
  t.match(refusal('serve', production).message, /PUBLIC_URL is required where BILLING_ENV/);
  t.match(
    refusal('serve', { ...production, PUBLIC_URL: 'http://billing.example' }).message,
    /PUBLIC_URL must start with https/,
  );
  t.match(
    refusal('keeper', { ...whole, SOLANA_CLUSTER: 'mainnet-beta' }).message,
    /BILLING_ENV must be production/,
  );
  t.match(refusal('serve', { ...whole, PLATFORM_TRESURY: 'x' }).message, /PLATFORM_TREASURY meant/);
  t.end();
});
