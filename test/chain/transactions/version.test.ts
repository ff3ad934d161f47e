// Which version is signed on a cluster with version 1, on one without it, and where an endpoint
// refuses it.
import t, { type Test } from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { RpcError } from '../../../src/chain/rpc/errors.ts';
import { signPayments } from '../../../src/chain/transactions/collection.ts';
import {
  TransactionVersions,
  type VersionSetting,
} from '../../../src/chain/transactions/version.ts';
import { silent } from '../../fixtures/billing.ts';
import { startTestChain } from '../../fixtures/localnet.ts';

const MINUTE = 60_000;

async function versionsOn(t: Test, setting: VersionSetting = 'auto') {
  const net = await startTestChain(t);
  const rpc = createRpc({ urls: [net.rpcUrl], log: silent });
  t.teardown(() => rpc.close());
  const clock = { now: 0 };
  const versions = new TransactionVersions(rpc, setting, silent, () => clock.now);
  const setV1 = async (active: boolean) => {
    await net.rpc('localnet_setTransactionV1', active);
    // The client reads at commitment confirmed.
    net.mineBlocks(2);
  };
  /** The chain's error for a version 1 transaction that it does not support. */
  const refusal = async () => {
    await setV1(false);
    const { blockhash } = await rpc.getLatestBlockhash();
    const budget = { computeUnits: 10_000, loadedDataBytes: 100_000, priorityFee: 0n };
    const terms = { version: 1, blockhash, reference: 'a', budget } as const;
    const { bytes } = signPayments(generateKeypair(), [], terms);
    return rpc.sendTransaction(bytes).then(
      () => t.fail('it was taken'),
      (error: unknown) => error as RpcError,
    ) as Promise<RpcError>;
  };
  return { versions, clock, setV1, refusal };
}

void t.test(
  'without the feature account, transactions are legacy; the account is read again after ten minutes',
  async (t) => {
    const { versions, clock, setV1 } = await versionsOn(t);
    await setV1(false);
    t.equal(await versions.current(), 'legacy');
    await setV1(true);
    clock.now = 10 * MINUTE - 1;
    t.equal(await versions.current(), 'legacy');
    clock.now = 10 * MINUTE;
    t.equal(await versions.current(), 1);
    await setV1(false);
    clock.now = 20 * MINUTE;
    t.equal(await versions.current(), 'legacy');
  },
);

void t.test(
  'an endpoint’s refusal of version 1 causes legacy transactions for ten minutes',
  async (t) => {
    const { versions, clock, setV1, refusal } = await versionsOn(t);
    t.equal(await versions.current(), 1);
    versions.refused(new RpcError('here', 'sendTransaction', -32002, 'Blockhash not found'));
    t.equal(await versions.current(), 1);
    const error = await refusal();
    await setV1(true);
    t.ok(error instanceof RpcError, error.message);
    versions.refused(error);
    t.equal(await versions.current(), 'legacy');
    clock.now = 10 * MINUTE;
    t.equal(await versions.current(), 1);
  },
);

void t.test('a configured transaction version is used on every cluster', async (t) => {
  const [one, legacy] = [await versionsOn(t, '1'), await versionsOn(t, 'legacy')];
  one.versions.refused(await one.refusal());
  t.equal(await one.versions.current(), 1);
  t.equal(await legacy.versions.current(), 'legacy');
});
