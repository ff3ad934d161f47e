import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../src/config.ts';
import type { Role } from '../src/config/variables.ts';
import type { OperatorError } from '../src/errors.ts';

const wallet = 'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44';
const whole = {
  DATABASE_URL: 'postgres://billing:pw@db.example:5432/billing',
  SOLANA_RPC_URL: 'http://127.0.0.1:8899, http://127.0.0.1:8999',
  KEEPER_KEYPAIR: '/keeper.json',
  KEEPER_ADDRESS: wallet,
  PLATFORM_TREASURY: wallet,
  JWT_SECRET: 'j'.repeat(32),
  ENCRYPTION_KEY: 'e'.repeat(32),
};

function refusal(role: Role, env: Record<string, string | undefined>): OperatorError {
  try {
    loadConfig(role, { env });
  } catch (error) {
    return error as OperatorError;
  }
  throw new Error('the configuration was accepted');
}

void t.test('a whole environment gives a frozen configuration with the documented defaults', (t) => {
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
  });
  t.same(config.rpcUrls, ['http://127.0.0.1:8899', 'http://127.0.0.1:8999']);
  t.equal(config.publicUrl, 'http://127.0.0.1:3000');
  t.ok(Object.isFrozen(config));
  t.end();
});

void t.test('every fault is reported in one message, each by its variable and what would be right, with exit code 2', (t) => {
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
});

void t.test('a message about a secret never shows the secret', (t) => {
  const error = refusal('serve', { ...whole, JWT_SECRET: 'hunter2', DATABASE_URL: 'mysql://root:hunter2@db/x' });
  t.match(error.message, /DATABASE_URL must be a URL that starts with postgres:/);
  t.notMatch(error.message, /hunter2/);
  t.end();
});

void t.test('each role asks only for what it needs', (t) => {
  t.doesNotThrow(() => loadConfig('dispatch', { env: { DATABASE_URL: whole.DATABASE_URL, ENCRYPTION_KEY: whole.ENCRYPTION_KEY } }));
  t.doesNotThrow(() => loadConfig('admin', { env: { DATABASE_URL: whole.DATABASE_URL } }));
  t.match(
    refusal('keeper', { DATABASE_URL: whole.DATABASE_URL }).message,
    /SOLANA_RPC_URL is required[^]*KEEPER_KEYPAIR is required[^]*PLATFORM_TREASURY is required/,
  );
  t.end();
});

void t.test('a secret can come from a file, but not from both', (t) => {
  const file = join(t.testdir(), 'secret');
  writeFileSync(file, `${'f'.repeat(40)}\n`);
  chmodSync(file, 0o600);
  const config = loadConfig('serve', { env: { ...whole, JWT_SECRET: undefined, JWT_SECRET_FILE: file } });
  t.same(config.jwtSecrets, ['f'.repeat(40)]);
  t.match(refusal('serve', { ...whole, JWT_SECRET_FILE: file }).message, /JWT_SECRET and JWT_SECRET_FILE are both given/);
  t.match(
    refusal('serve', { ...whole, JWT_SECRET: undefined, JWT_SECRET_FILE: `${file}.gone` }).message,
    /JWT_SECRET cannot be read from JWT_SECRET_FILE: ENOENT/,
  );
  t.end();
});

void t.test('an .env file fills in what the environment does not have; the environment wins', (t) => {
  const envFile = join(t.testdir(), '.env');
  writeFileSync(envFile, `PORT=4000\nHOST=0.0.0.0\n`);
  const config = loadConfig('serve', { env: { ...whole, PORT: '5000' }, envFile });
  t.match(config, { port: 5000, host: '0.0.0.0' });
  t.throws(() => loadConfig('serve', { env: whole, envFile: `${envFile}.gone` }), { name: 'OperatorError', exitCode: 2 });
  t.end();
});

void t.test('production always guards webhook addresses, whatever WEBHOOK_GUARD says', (t) => {
  t.equal(loadConfig('serve', { env: { ...whole, BILLING_ENV: 'production', WEBHOOK_GUARD: 'false' } }).webhookGuard, true);
  t.end();
});
