import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import nacl from 'tweetnacl';
import { CLUSTERS } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { tokenAccountAddress } from '../../../src/chain/program/addresses.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { readInstallation } from '../../../src/keeper/guard/preflight.ts';
import { startStage } from '../../fixtures/billing.ts';
import { startTestChain } from '../../fixtures/localnet.ts';
import { answer, HANDLED, startRpcServer } from '../../fixtures/rpc-server.ts';

const mint = generateKeypair().address;

async function configured(file: string, more: Record<string, string> = {}) {
  return loadConfig('keeper', {
    env: {
      DATABASE_URL: 'postgres://127.0.0.1/none',
      SOLANA_RPC_URL: 'http://127.0.0.1:1',
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: mint,
      KEEPER_KEYPAIR: file,
      PLATFORM_TREASURY: generateKeypair().address,
      ...more,
    },
  });
}

void t.test(
  'a keypair file that is missing, malformed or readable by others is refused without showing its contents',
  async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'billing-keypair-'));
    t.teardown(() => rm(directory, { recursive: true, force: true }));
    const file = join(directory, 'id.json');
    const secret = [...nacl.sign.keyPair().secretKey];
    await t.rejects(readInstallation(await configured(file)), {
      name: 'OperatorError',
      exitCode: 2,
      message: /KEEPER_KEYPAIR.*id\.json/,
    });
    await writeFile(file, '{"not": "a keypair"}', { mode: 0o600 });
    await t.rejects(readInstallation(await configured(file)), {
      name: 'OperatorError',
      message: /not a Solana CLI keypair/,
    });
    await writeFile(file, JSON.stringify(secret));
    await chmod(file, 0o644);
    await t.rejects(readInstallation(await configured(file)), {
      name: 'OperatorError',
      message: /chmod 600/,
    });
    await chmod(file, 0o600);
    const {
      keypairs: [keypair],
    } = await readInstallation(await configured(file));
    const other = generateKeypair().address;
    await t.rejects(readInstallation(await configured(file, { KEEPER_ADDRESS: other })), {
      name: 'OperatorError',
      message: new RegExp(`KEEPER_ADDRESS is ${other}.*${keypair.address}`),
    });
    await t.rejects(readInstallation(await configured(file, { USDC_MINT: '' })), {
      name: 'OperatorError',
      message: /USDC_MINT is required/,
    });
  },
);

void t.test(
  'a keeper that is configured for another cluster, program or mint does not start',
  async (t) => {
    const stage = await startStage(t);
    await t.rejects(stage.startKeeper({ cluster: 'devnet' }), {
      name: 'OperatorError',
      message: /SOLANA_CLUSTER is devnet/,
    });
    await t.rejects(stage.startKeeper({ programId: generateKeypair().address }), {
      name: 'OperatorError',
      message: /no Subscriptions program/,
    });
    await t.rejects(stage.startKeeper({ usdcMint: generateKeypair().address }), {
      name: 'OperatorError',
      message: /no SPL Token mint/,
    });
    const treasury = generateKeypair().address;
    await t.rejects(stage.startKeeper({ treasury, treasuries: [treasury] }), {
      name: 'OperatorError',
      exitCode: 2,
      message: new RegExp(`${treasury} has no account for the mint[^]*spl-token create-account`),
    });
  },
);

void t.test('a keeper whose first treasury cannot receive starts if another one can', async (t) => {
  const stage = await startStage(t);
  const treasury = generateKeypair().address;
  const said: string[] = [];
  const { pino } = await import('pino');
  const log = pino({ level: 'warn' }, { write: (line: string) => void said.push(line) });
  const treasuries = [treasury, stage.treasury.address];
  const { address } = tokenAccountAddress(stage.treasury.address, stage.net.mint);
  await stage.until('the block with its account is confirmed', async () => {
    const { accounts } = await stage.rpc.getMultipleAccounts([address]);
    return accounts[0] !== null;
  });
  const keeper = await stage.startKeeper({ treasury, treasuries }, { log });
  await stage.until('it is ready', async () => (await keeper.ready()) === undefined);
  t.match(said.join(''), `${treasury} has no account for the mint`, 'the log says which cannot');
});

void t.test(
  'a keeper without RPC is not ready and reports it once; it continues once RPC is back',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    await stage.net.rpc('localnet_setFault', { kind: 'status', status: 500 });
    const said: string[] = [];
    const { pino } = await import('pino');
    const log = pino({ level: 'info' }, { write: (line: string) => void said.push(line) });
    const keeper = await stage.startKeeper({}, { log });
    t.match(await keeper.ready(), /no Solana RPC endpoint answered/);
    await new Promise((resolve) => setTimeout(resolve, 2500));
    t.same(await stage.payments(subscription), []);
    await stage.net.rpc('localnet_clearFaults');
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.equal(await keeper.ready(), undefined);
    t.equal(said.filter((line) => line.includes('no Solana RPC endpoint answers')).length, 1);
    t.equal(said.filter((line) => line.includes('the Solana RPC is back')).length, 1);
  },
);

void t.test('an endpoint of another chain is not used and ends no subscription', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  // The other chain is ahead and has none of the accounts.
  const other = await startTestChain(t);
  other.mineBlocks(3000);
  const devnet = await startRpcServer(({ method, params }, response) => {
    const result =
      method === 'getGenesisHash'
        ? Promise.resolve(CLUSTERS.devnet.genesisHash)
        : other.rpc(method, ...params);
    result.then(
      (found) => answer(response, { result: found }),
      () => answer(response, '', 500),
    );
    return HANDLED;
  });
  t.teardown(() => devnet.close());
  const keeper = await stage.startKeeper({ rpcUrls: [stage.net.rpcUrl, devnet.url] });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.net.rpc('localnet_setFault', { kind: 'status', status: 500 });
  await stage.sql`update subscription_work set due_at = to_timestamp(0)`;
  await stage.until('it is missed', async () => /serves devnet/.test((await keeper.ready()) ?? ''));
  await new Promise((resolve) => setTimeout(resolve, 1000));
  t.match(await stage.row(subscription), {
    status: 'active',
    cancelRequestedAt: null,
    setbacks: 0,
  });
  await stage.net.rpc('localnet_clearFaults');
  await stage.until('it goes on', async () => (await keeper.ready()) === undefined);
  t.equal((await stage.row(subscription)).cancelRequestedAt, null);
});
