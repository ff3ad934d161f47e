// Endpoints that show different things about one transaction of a refund's reference. A transfer
// that any endpoint shows is recorded. A transaction counts as another one only if two endpoints
// show it as such.
import t, { type Test } from 'tap';
import { recordRefunds } from '../../../src/domain/offers/refunds.ts';
import { rewritingRpc } from '../../fixtures/bad-endpoint.ts';
import type { Stage } from '../../fixtures/billing.ts';
import { ask, flood, lookNow, refunds, send, startPaid } from '../../fixtures/refund-stage.ts';

type Rewrite = (method: string, result: unknown) => unknown;

interface Listed {
  readonly err: unknown;
  readonly blockTime: number | null;
}
interface Returned {
  readonly meta: object;
  readonly blockTime: number | null;
  readonly transaction: { readonly message: object };
}

const failure = { InstructionError: [0, 'Custom'] };
const listing =
  (change: (one: Listed) => Listed): Rewrite =>
  (method, result) =>
    method === 'getSignaturesForAddress' ? (result as Listed[]).map(change) : result;
const returning =
  (change: (one: Returned) => unknown): Rewrite =>
  (method, result) =>
    method === 'getTransaction' && result !== null ? change(result as Returned) : result;

const withErr = returning((one) => ({ ...one, meta: { ...one.meta, err: failure } }));
const withoutInstructions = returning((one) => ({
  ...one,
  transaction: {
    ...one.transaction,
    message: { ...one.transaction.message, instructions: [] },
  },
}));
const missing = returning(() => null);
const listedAsFailed = listing((one) => ({ ...one, err: failure }));
const noTime: Rewrite = (method, result) => {
  const bare = <T extends { blockTime: number | null }>(one: T): T => ({ ...one, blockTime: null });
  return listing(bare)(method, returning(bare)(method, result));
};
const honest: Rewrite = (_method, result) => result;

/** A keeper's context whose endpoints rewrite the answers of the stage's chain, in this order. */
async function seenBy(t: Test, stage: Stage, endpoints: readonly Rewrite[]) {
  const rpc = await rewritingRpc(
    t,
    stage.net.rpcUrl,
    endpoints.map(
      (rewrite) => (method: string, _params: unknown, result: unknown) => rewrite(method, result),
    ),
  );
  return stage.parts(rpc).context;
}

/** Makes the refund overdue and its blockhash dead. */
async function age(stage: Stage) {
  await stage.sql`update refunds set created_at = now() - interval '6 minutes'`;
  stage.net.mineBlocks(200);
}

const sick: [string, Rewrite][] = [
  ['returns it with an error', withErr],
  ['returns it without its instructions', withoutInstructions],
  ['lists it as failed', listedAsFailed],
  ['knows no block time', noTime],
];
for (const [what, rewrite] of sick)
  void t.test(`a landed refund is recorded although one of three endpoints ${what}`, async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { offer } = await ask(stage, subscription, null);
    const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
    await age(stage);
    await recordRefunds(await seenBy(t, stage, [rewrite, honest, honest]));
    t.match(await refunds(stage), [{ status: 'succeeded', txSignature }]);
    const [row] = await stage.sql`select occurred_at from refunds`;
    t.type(row?.occurredAt, Date);
  });

void t.test(
  'a landed refund stays pending if one endpoint shows only another transaction and the other shows none',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { offer } = await ask(stage, subscription, null);
    const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
    await age(stage);
    for (const rewrite of [withErr, withoutInstructions]) {
      await lookNow(stage);
      await recordRefunds(await seenBy(t, stage, [rewrite, missing]));
      t.match(await refunds(stage), [{ status: 'pending' }]);
      await t.rejects(ask(stage, subscription, null), { code: 'CONFLICT' });
    }
    await lookNow(stage);
    await recordRefunds(await seenBy(t, stage, [missing, honest]));
    t.match(await refunds(stage), [{ status: 'succeeded', txSignature }]);
  },
);

void t.test(
  'a refund expires if two endpoints show that another transaction uses its reference',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { refund } = await ask(stage, subscription, null);
    await flood(stage, refund.reference, 1);
    await age(stage);
    await recordRefunds(await seenBy(t, stage, [honest, missing]));
    t.match(await refunds(stage), [{ status: 'pending' }], 'one of two returns it');
    await lookNow(stage);
    await recordRefunds(await seenBy(t, stage, [honest, missing, honest]));
    t.match(await refunds(stage), [{ status: 'expired' }]);
  },
);

void t.test(
  'a refund that just landed is recorded while the first endpoint lacks its block time',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { offer } = await ask(stage, subscription, null);
    const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
    await recordRefunds(await seenBy(t, stage, [noTime, honest]));
    t.match(await refunds(stage), [{ status: 'succeeded', txSignature }]);
  },
);
