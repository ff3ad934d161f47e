// The relay's answer where one of two endpoints is wrong about the transaction.
import t, { type Test } from 'tap';
import { generateKeypair, type Keypair, signatureOf } from '../../../src/chain/keypair.ts';
import { initAuthority } from '../../../src/chain/program/instructions.ts';
import { addSignature, unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { relay, type TakenOffer } from '../../../src/domain/offers/relay.ts';
import { rewritingRpc } from '../../fixtures/bad-endpoint.ts';
import { type Stage, startStage } from '../../fixtures/billing.ts';

type Rewrite = (method: string, result: unknown) => unknown;

interface Status {
  readonly err: unknown;
  readonly confirmationStatus: string;
}
interface Statuses {
  readonly context: { readonly slot: number };
  readonly value: readonly (Status | null)[];
}

const statuses =
  (change: (status: Status | null, slot: number) => object | null): Rewrite =>
  (method, result) => {
    if (method !== 'getSignatureStatuses') return result;
    const { context, value } = result as Statuses;
    return { context, value: value.map((one) => change(one, context.slot)) };
  };
const failure = { InstructionError: [2, { Custom: 1 }] };
const failsOnFork = statuses(
  (status, slot) =>
    status ?? { slot, err: failure, confirmations: 0, confirmationStatus: 'processed' },
);
const staysProcessed = statuses(
  (status) => status && { ...status, confirmations: 0, confirmationStatus: 'processed' },
);
const knowsNone = statuses(() => null);
const simulatesFailure: Rewrite = (method, result) =>
  method === 'simulateTransaction'
    ? { ...(result as object), value: { err: failure, logs: [], unitsConsumed: 1 } }
    : knowsNone(method, result);
const staysLow: Rewrite = (method, result) => (method === 'getBlockHeight' ? 1 : result);

/** Signs a transaction of a new wallet. */
async function signed(stage: Stage, wallet: Keypair): Promise<TakenOffer> {
  const { programId, mint } = stage.net;
  const { blockhash, lastValidBlockHeight } = await stage.rpc.getLatestBlockhash();
  const instruction = initAuthority(programId, { user: wallet.address, mint });
  const unsigned = unsignedTransaction(wallet.address, [instruction], blockhash);
  const bytes = Buffer.from(addSignature(wallet, unsigned), 'base64');
  const offer: TakenOffer['offer'] = {
    ...{ id: '', wallet: wallet.address, blockhash, lastValidBlockHeight, purpose: 'subscribe' },
    ...{ message: Buffer.alloc(0), planId: null, subscriptionPda: null, checkoutSessionId: null },
    ...{ resumes: false, replaces: null, changeWhen: null, cancels: null, trialHours: null },
    offeredAt: new Date(),
    blockhashSlot: 0n,
  };
  const lifetime = { blockhash, lastValidBlockHeight, slot: 0n };
  return { offer, bytes, signature: signatureOf(bytes), lifetime };
}

/** The relay's client, whose first endpoint rewrites the answers of the stage's chain. */
function client(t: Test, stage: Stage, rewrite: Rewrite) {
  return rewritingRpc(t, stage.net.rpcUrl, [
    (method, _params, result) => rewrite(method, result),
    (_method, _params, result) => result,
  ]);
}

void t.test('one endpoint alone does not decide the outcome that the relay reports', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  stage.net.mineBlocks(60);
  const make = async (rewrite: Rewrite) => {
    const one = await signed(stage, stage.wallet());
    const rpc = await client(t, stage, rewrite);
    return { one, answer: () => relay(rpc, one) };
  };
  const forked = await make(failsOnFork);
  const stuck = await make(staysProcessed);
  const lost = await make(knowsNone);
  const refused = await make(simulatesFailure);
  const dead = await make(staysLow);

  t.match(
    await Promise.all([forked.answer(), stuck.answer()]),
    [{ status: 'pending' }, { status: 'pending' }],
    'a failure that is not final is none',
  );
  for (const { one } of [forked, stuck, lost, refused]) await stage.rpc.sendTransaction(one.bytes);
  stage.net.mineBlocks(40);
  const landed = { status: 'confirmed', reason: null };
  t.match(await forked.answer(), landed);
  t.match(await stuck.answer(), landed, 'another endpoint has it as final');
  t.match(await refused.answer(), landed, 'a simulation says nothing about what has landed');
  stage.net.mineBlocks(220);
  t.match(await lost.answer(), landed, 'another endpoint has it, after its blockhash has expired');
  t.match(await dead.answer(), { status: 'lapsed' }, 'whatever height the first endpoint names');
});

void t.test('the relay reports a failure on chain once it is final', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  stage.net.mineBlocks(60);
  // Without a USDC account the approval fails.
  const wallet = generateKeypair();
  stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
  stage.net.mineBlocks(2);
  const one = await signed(stage, wallet);
  await stage.rpc.sendTransaction(one.bytes);
  stage.net.mineBlocks(40);
  t.match(await relay(stage.rpc, one), { status: 'failed', reason: /refused/ });
});
