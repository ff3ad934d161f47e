// rpc, builders, decoders and the stream against the local chain: the same calls that serve and the
// keeper make.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { generateKeypair, type Keypair, signatureOf } from '../../../src/chain/keypair.ts';
import {
  authorityIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../../src/chain/program/accounts.ts';
import {
  authorityAddress,
  CLOCK_SYSVAR,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../../src/chain/program/addresses.ts';
import { classifyPullError, type PullLayout } from '../../../src/chain/program/errors.ts';
import { programEvents } from '../../../src/chain/program/events.ts';
import {
  cancelSubscriptionNow,
  closeInstruction,
  revokeAuthority,
} from '../../../src/chain/program/instructions.ts';
import { decodeClock } from '../../../src/chain/program/layouts.ts';
import { hasSilentCall } from '../../../src/chain/program/logs.ts';
import { pullPeriod } from '../../../src/chain/program/period.ts';
import { updatePlan } from '../../../src/chain/program/plan-instructions.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import {
  followProgram,
  type ProgramNotification,
  websocketUrl,
} from '../../../src/chain/streams/program.ts';
import {
  type Collection,
  signPayments,
  transferPlaces,
  transfersOf,
} from '../../../src/chain/transactions/collection.ts';
import { addSignature } from '../../../src/chain/transactions/message.ts';
import { createPlanTransaction } from '../../../src/chain/transactions/plans.ts';
import {
  signTransaction,
  type SubscribeState,
} from '../../../src/chain/transactions/subscriptions.ts';
import { memo } from '../../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../../src/chain/transactions/wallet.ts';
import { startLocalnet } from '../../../src/local/chain/start.ts';
import { readable } from '../../fixtures/transactions.ts';
import {
  approveTransaction,
  cancelTransaction,
  closeTransaction,
  resumeTransaction,
  subscribeTransaction,
} from '../../fixtures/wallet-transactions.ts';

const log = pino({ level: 'silent' });
const HOUR = 3600n;
const AMOUNT = 10_000_000n;
const NET = 9_900_000n;
const FEE = 100_000n;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A chain that makes a block every 50 ms, a client, and a published plan. */
async function setup(t: Test) {
  const chain = await startLocalnet({ blockMs: 50 });
  const rpc = createRpc({ urls: [chain.rpcUrl], log });
  t.teardown(async () => {
    await rpc.close();
    await chain.close();
  });
  const [merchant, keeper, treasury] = [generateKeypair(), generateKeypair(), generateKeypair()];
  /** Gives money, and waits until everyone can see it. */
  async function fund(owner: string, gift: { lamports?: bigint; usdc?: bigint }): Promise<void> {
    chain.fund(owner, gift);
    const given = BigInt(chain.slot());
    while ((await rpc.getSlot()) <= given) await pause(5);
  }
  for (const { address } of [merchant, keeper]) await fund(address, { lamports: 10_000_000_000n });
  for (const { address } of [merchant, treasury]) await fund(address, { usdc: 1n });
  const { programId, mint } = chain;

  async function publish(planId: bigint, endTs = 0n) {
    const terms = {
      planId,
      mint,
      amount: AMOUNT,
      periodHours: 1n,
      endTs,
      destinations: [merchant.address, treasury.address],
      pullers: [keeper.address],
      metadataUri: 'https://example.com/plan',
    };
    const { blockhash } = await rpc.getLatestBlockhash();
    const { transaction, plan } = createPlanTransaction(programId, {
      merchant: merchant.address,
      terms,
      blockhash,
    });
    t.equal(await land(rpc, transaction, merchant), null, 'plan published');
    return plan;
  }

  /** Everything the keeper reads of a subscription, in one request, the clock included. */
  async function readState(plan: string, subscriber: string) {
    const subscription = subscriptionAddress(programId, plan, subscriber).address;
    const authority = authorityAddress(programId, subscriber, mint).address;
    const ata = tokenAccountAddress(subscriber, mint).address;
    const { accounts } = await rpc.getMultipleAccounts([
      subscription,
      plan,
      authority,
      ata,
      CLOCK_SYSVAR,
    ]);
    const [one, two, three, four, five] = accounts;
    return {
      subscription: subscriptionIn(one!, programId),
      plan: planIn(two!, programId),
      authority: authorityIn(three!, programId),
      account: tokenAccountIn(four!),
      now: decodeClock(five!.data).unixTimestamp,
    };
  }

  async function subscribe(plan: string, wallet: Keypair, change: Partial<SubscribeState> = {}) {
    const seen = await readState(plan, wallet.address);
    const state = {
      plan: seen.plan!,
      authority: seen.authority,
      hasTokenAccount: seen.account !== null,
      approved:
        seen.account?.delegate === authorityAddress(programId, wallet.address, mint).address,
      previous: seen.subscription,
      ...change,
    };
    const { blockhash } = await rpc.getLatestBlockhash();
    const built = subscribeTransaction(programId, { subscriber: wallet.address, state, blockhash });
    return { err: await land(rpc, built.transaction, wallet), subscription: built.subscription };
  }

  async function subscriber(plan: string, usdc = 1_000_000_000n) {
    const wallet = generateKeypair();
    await fund(wallet.address, { lamports: 1_000_000_000n, usdc });
    const { err, subscription } = await subscribe(plan, wallet);
    t.equal(err, null, 'subscribed');
    return { wallet, parties: { subscriber: wallet.address, plan, subscription } };
  }

  let attempt = 0;
  async function sign(
    parties: { subscriber: string; plan: string; subscription: string },
    { computeUnits = 200_000, ...change }: Partial<Collection> & { computeUnits?: number } = {},
  ) {
    const transfers = transfersOf({
      ...parties,
      programId,
      mint,
      keeper: keeper.address,
      merchant: merchant.address,
      treasury: treasury.address,
      net: NET,
      fee: FEE,
      ...change,
    });
    const { blockhash } = await rpc.getLatestBlockhash();
    return signPayments(keeper, transfers, {
      version: 'legacy',
      blockhash,
      reference: `attempt ${attempt++}`,
      budget: { computeUnits, loadedDataBytes: 10_000_000, priorityFee: 1n },
    });
  }
  async function collect(
    parties: { subscriber: string; plan: string; subscription: string },
    change: Partial<Collection> & { computeUnits?: number } = {},
  ): Promise<{ signature: string; err: unknown; layout: PullLayout }> {
    const { signature, bytes } = await sign(parties, change);
    await rpc.sendTransaction(bytes);
    const layout = { pulls: transferPlaces(bytes, programId, parties.subscription) };
    return { signature, err: await outcome(rpc, signature), layout };
  }

  /** Moves the chain's time forward, and waits until the confirmed state is of that time. */
  async function advance(seconds: bigint): Promise<void> {
    const target = BigInt(Math.floor(chain.now() / 1000)) + seconds;
    chain.timeTravel({ absoluteTimestamp: Number(target * 1000n) });
    while ((await rpc.getClock()).unixTimestamp < target) await pause(5);
  }
  return {
    chain,
    rpc,
    sign,
    fund,
    merchant,
    keeper,
    treasury,
    programId,
    mint,
    publish,
    readState,
    subscribe,
    subscriber,
    collect,
    advance,
  };
}

/** Signs the transaction for a wallet, sends it, and waits for its result: null, or the error. */
async function land(rpc: Rpc, base64: string, ...signers: Keypair[]): Promise<unknown> {
  const signed = signers.reduce((transaction, signer) => addSignature(signer, transaction), base64);
  const bytes = Buffer.from(signed, 'base64');
  await rpc.sendTransaction(bytes);
  return outcome(rpc, signatureOf(bytes));
}

async function outcome(rpc: Rpc, signature: string): Promise<unknown> {
  for (;;) {
    const { statuses } = await rpc.getSignatureStatuses([signature]);
    const [status] = statuses;
    if (status && status.commitment !== 'processed') return status.err;
    await pause(10);
  }
}

void t.test(
  'a subscription from plan to payment emits events that equal the moved amounts',
  async (t) => {
    const {
      rpc,
      merchant,
      treasury,
      keeper,
      programId,
      mint,
      publish,
      readState,
      subscriber,
      collect,
      advance,
    } = await setup(t);
    const plan = await publish(1n);
    const { parties } = await subscriber(plan);
    const before = await readState(plan, parties.subscriber);
    t.match(before.plan, {
      owner: merchant.address,
      amount: AMOUNT,
      pullers: [keeper.address],
      metadataUri: 'https://example.com/plan',
    });
    t.match(before.subscription, {
      subscriber: parties.subscriber,
      plan,
      payer: parties.subscriber,
      amountPulled: 0n,
      expiresAt: 0n,
    });
    t.equal(
      before.account?.delegate,
      authorityAddress(programId, parties.subscriber, mint).address,
    );
    t.equal(before.account?.delegatedAmount, 2n ** 64n - 1n);
    t.equal(before.authority?.initId, before.subscription?.initId);
    t.match(pullPeriod(before.subscription!, before.plan, before.now), {
      verdict: 'collectable',
      available: AMOUNT,
    });

    const { signature, err } = await collect(parties);
    t.equal(err, null);
    const after = await readState(plan, parties.subscriber);
    const period = pullPeriod(after.subscription!, after.plan, after.now);
    t.match(period, {
      verdict: 'collected',
      pulled: AMOUNT,
      next: after.subscription!.periodStart + HOUR,
    });
    t.equal(after.account?.amount, before.account!.amount - AMOUNT);

    const transaction = readable(await rpc.getTransaction(signature));
    t.equal(transaction.signature, signature);
    const shared = {
      kind: 'transfer',
      subscription: parties.subscription,
      plan,
      subscriber: parties.subscriber,
      mint,
      periodStart: period.start,
      periodEnd: period.end,
      puller: keeper.address,
    };
    const received = ({ address }: Keypair) => ({
      receiver: address,
      receiverAccount: tokenAccountAddress(address, mint).address,
    });
    t.same(programEvents(transaction, programId), [
      { ...shared, amount: NET, pulled: NET, ...received(merchant), instruction: 3 },
      { ...shared, amount: FEE, pulled: AMOUNT, ...received(treasury), instruction: 4 },
    ]);

    const [again] = [await collect(parties)];
    t.same(
      classifyPullError(again.err, {
        layout: again.layout,
        logs: null,
        gross: AMOUNT,
        subscriberAccount: after.account,
      }),
      {
        kind: 'already_collected',
      },
    );
    t.same(
      programEvents(readable(await rpc.getTransaction(again.signature)), programId),
      [],
      'a failed transaction emits no event',
    );

    await advance(3n * HOUR);
    const later = await readState(plan, parties.subscriber);
    const due = pullPeriod(later.subscription!, later.plan, later.now);
    t.match(due, { verdict: 'collectable', start: period.start + 3n * HOUR, available: AMOUNT });
    t.equal((await collect(parties)).err, null);
    t.equal(
      (await readState(plan, parties.subscriber)).subscription?.periodStart,
      due.start,
      'missed periods are gone, as the arithmetic said',
    );
  },
);

void t.test('the compute limit derived from a simulation suffices for the payment', async (t) => {
  const { rpc, programId, publish, subscriber, sign, collect } = await setup(t);
  const { parties } = await subscriber(await publish(1n));
  const { bytes } = await sign(parties, { computeUnits: 1_400_000 });
  const simulated = await rpc.simulateTransaction(bytes);
  t.equal(simulated.err, null);
  t.ok(
    simulated.unitsConsumed! > 0n && simulated.unitsConsumed! < 200_000n,
    String(simulated.unitsConsumed),
  );
  t.ok(simulated.logs.some((line) => line.includes(programId)));
  const limit = Number((simulated.unitsConsumed! * 12n) / 10n);
  t.equal((await collect(parties, { computeUnits: limit })).err, null);
  const { err, layout } = await collect(parties, { computeUnits: 600 });
  t.match(classifyPullError(err, { layout, logs: null, gross: AMOUNT, subscriberAccount: null }), {
    kind: 'ours',
    reason: 'compute_budget',
  });
});

void t.test(
  'each failure that a wallet can cause is classified from the chain’s response',
  async (t) => {
    const {
      rpc,
      fund,
      merchant,
      mint,
      programId,
      publish,
      readState,
      subscribe,
      subscriber,
      collect,
      advance,
    } = await setup(t);
    const plan = await publish(1n);
    const charge = async (
      parties: { subscriber: string; plan: string; subscription: string },
      change: Partial<Collection> = {},
    ) => {
      const { err, layout, signature } = await collect(parties, change);
      if (err === null) return 'paid';
      const { account } = await readState(parties.plan, parties.subscriber);
      const { logs } = readable(await rpc.getTransaction(signature));
      const failure = classifyPullError(err, {
        layout,
        logs,
        gross: AMOUNT,
        subscriberAccount: account,
      });
      return 'reason' in failure ? `${failure.kind} ${failure.reason}` : failure.kind;
    };
    const hash = async () => (await rpc.getLatestBlockhash()).blockhash;

    await t.test('a wallet with too little money fails until it is topped up', async (t) => {
      const { parties } = await subscriber(plan, AMOUNT - 1n);
      t.equal(await charge(parties), 'subscriber insufficient_funds');
      t.equal(
        (await readState(plan, parties.subscriber)).account?.amount,
        AMOUNT - 1n,
        'the net transfer was taken back with the fee',
      );
      await fund(parties.subscriber, { usdc: 1n });
      t.equal(await charge(parties), 'paid');
    });
    await t.test('a wallet that revoked its approval fails until it approves again', async (t) => {
      const { parties, wallet } = await subscriber(plan);
      t.equal(
        await land(
          rpc,
          walletTransaction(
            wallet.address,
            [revokeAuthority(programId, { user: wallet.address, mint })],
            await hash(),
          ),
          wallet,
        ),
        null,
      );
      t.match(await readState(plan, wallet.address), {
        authority: null,
        account: { delegate: null },
      });
      t.equal(await charge(parties), 'subscriber authority_closed');
      t.equal(
        await land(
          rpc,
          approveTransaction(programId, { user: wallet.address, mint, blockhash: await hash() }),
          wallet,
        ),
        null,
      );
      t.equal(
        await charge(parties),
        'subscriber authority_replaced',
        'another authority than the one subscribed with',
      );
    });
    await t.test(
      'a subscription can be cancelled, resumed, cancelled until its end, closed and opened again',
      async (t) => {
        const { parties, wallet } = await subscriber(plan);
        t.equal(await charge(parties), 'paid');
        t.equal(await land(rpc, cancelTransaction(programId, parties, await hash()), wallet), null);
        const { subscription } = await readState(plan, wallet.address);
        t.equal(subscription?.expiresAt, subscription!.periodStart + HOUR);
        const back = resumeTransaction(
          programId,
          { ...parties, mint, expiresAt: subscription!.expiresAt },
          await hash(),
        );
        t.equal(await land(rpc, back, wallet), null);
        t.equal((await readState(plan, wallet.address)).subscription?.expiresAt, 0n);
        t.equal(await land(rpc, cancelTransaction(programId, parties, await hash()), wallet), null);
        await advance(HOUR);
        t.equal(await charge(parties), 'cancelled');

        const { err } = await subscribe(plan, wallet, { previous: null });
        t.match(err, { InstructionError: [2, { Custom: 517 }] }, 'the old account is in the way');
        t.equal((await subscribe(plan, wallet)).err, null, 'and is closed by the same transaction');
        t.equal((await readState(plan, wallet.address)).subscription?.amountPulled, 0n);

        t.equal(await land(rpc, cancelTransaction(programId, parties, await hash()), wallet), null);
        await advance(HOUR);
        const lamports = await rpc.getBalance(wallet.address);
        t.equal(
          await land(
            rpc,
            closeTransaction(programId, { ...parties, payer: wallet.address }, await hash()),
            wallet,
          ),
          null,
        );
        t.equal((await readState(plan, wallet.address)).subscription, null);
        t.ok((await rpc.getBalance(wallet.address)) > lamports, 'the rent came back');
        t.equal(await charge(parties), 'subscription_closed');
      },
    );
    await t.test('a subscription is cancelled at once with both signatures', async (t) => {
      const { parties, wallet } = await subscriber(plan);
      const { subscription } = await readState(plan, wallet.address);
      const { periodStart } = subscription!;
      const cancel = { ...parties, merchant: merchant.address, periodStart };
      const now = walletTransaction(
        wallet.address,
        [cancelSubscriptionNow(programId, cancel)],
        await hash(),
      );
      t.equal(await land(rpc, now, wallet, merchant), null);
      t.equal(await charge(parties), 'cancelled');
    });
    await t.test(
      'the last period of a plan that ended is paid up to its last second',
      async (t) => {
        const { now } = await readState(plan, merchant.address);
        const ending = await publish(2n, now + 2n * HOUR);
        const { parties } = await subscriber(ending);
        t.equal(await charge(parties), 'paid');
        await advance(HOUR + 1800n);
        const seen = await readState(ending, parties.subscriber);
        t.match(pullPeriod(seen.subscription!, seen.plan, seen.now), {
          verdict: 'collectable',
          end: seen.plan!.endTs,
          next: null,
        });
        t.equal(await charge(parties), 'paid');
        await advance(HOUR);
        const over = await readState(ending, parties.subscriber);
        t.match(pullPeriod(over.subscription!, over.plan, over.now), { verdict: 'plan_ended' });
        t.equal(await charge(parties), 'plan_ended');
      },
    );
    await t.test(
      'a treasury outside the plan, or a merchant without token account, counts as a keeper failure',
      async (t) => {
        const { parties } = await subscriber(plan);
        const stranger = generateKeypair().address;
        await fund(stranger, { usdc: 1n });
        t.equal(await charge(parties, { treasury: stranger }), 'ours destination_refused');
        t.equal(
          await charge(parties, { merchant: generateKeypair().address }),
          'ours receiver_account_missing',
        );
      },
    );
    await t.test(
      'a sunset plan is still collected, and accepts no new subscriptions',
      async (t) => {
        const other = await publish(3n);
        const { parties } = await subscriber(other);
        const { plan: seen, now } = await readState(other, parties.subscriber);
        const owner = merchant.address;
        const edit = { ...seen!, status: 'sunset', endTs: now + 10n * HOUR } as const;
        const sunset = walletTransaction(
          owner,
          [updatePlan(programId, { owner, plan: other, edit, seen: seen! })],
          await hash(),
        );
        t.equal(await land(rpc, sunset, merchant), null);
        t.match((await readState(other, parties.subscriber)).plan, {
          status: 'sunset',
          endTs: now + 10n * HOUR,
        });
        t.equal(await charge(parties), 'paid');
        const late = generateKeypair();
        await fund(late.address, { lamports: 1_000_000_000n, usdc: 1n });
        t.match((await subscribe(other, late)).err, { InstructionError: [3, { Custom: 500 }] });
      },
    );
  },
);

void t.test(
  'the stream reports payments, cancellations, and a gap after the node was unreachable',
  async (t) => {
    const { chain, rpc, keeper, programId, publish, subscriber, collect } = await setup(t);
    const notifications: ProgramNotification[] = [];
    let gaps = 0;
    const slots: bigint[] = [];
    const transactions = new Map<string, boolean>();
    t.equal(websocketUrl(chain.rpcUrl), `${chain.wsUrl}/`);
    const follower = followProgram({
      urls: [chain.wsUrl],
      programId,
      onNotification: (notification) => notifications.push(notification),
      onTransaction: ({ signature, logs }) =>
        transactions.set(signature, hasSilentCall(logs, programId)),
      onGap: () => (gaps += 1),
      onSlot: (slot) => slots.push(slot),
      log,
    });
    t.teardown(() => follower.close());
    while (gaps === 0) await pause(5);
    const { parties, wallet } = await subscriber(await publish(1n));
    const seen = async (pulled: bigint, expires: boolean) => {
      for (;;) {
        const notification = notifications.findLast(
          ({ address }) => address === parties.subscription,
        );
        const subscription = notification && subscriptionIn(notification, programId);
        if (
          subscription &&
          subscription.amountPulled === pulled &&
          (subscription.expiresAt !== 0n) === expires
        )
          return notification;
        await pause(5);
      }
    };
    await seen(0n, false);
    const { err, signature } = await collect(parties);
    t.equal(err, null);
    const paid = await seen(AMOUNT, false);
    while (!transactions.has(signature)) await pause(5);
    t.equal(
      transactions.get(signature),
      false,
      'a payment is reported with its logs, without a read of its transaction',
    );
    const { blockhash } = await rpc.getLatestBlockhash();
    await land(rpc, cancelTransaction(programId, parties, blockhash), wallet);
    const cancelled = await seen(AMOUNT, true);
    t.ok(cancelled.slot > paid.slot);
    t.ok(slots.length > 0);
    t.equal(gaps, 1);
    t.equal(
      closeInstruction(programId, keeper.address, {
        ...parties,
        payer: wallet.address,
      })
        .keys.at(-1)
        ?.pubkey.toBase58(),
      wallet.address,
    );
  },
);

void t.test(
  'the client reads block heights, slots, clock, balances, rent and fees from the local chain',
  async (t) => {
    const { rpc, keeper } = await setup(t);
    const { blockhash, lastValidBlockHeight, blockHeight } = await rpc.getLatestBlockhash();
    t.equal(lastValidBlockHeight - blockHeight, 150n);
    const [height, slot, clock] = [
      await rpc.getHeight(),
      await rpc.getSlot(),
      await rpc.getClock(),
    ];
    t.ok(
      height.blockHeight >= blockHeight && height.slot >= height.blockHeight && slot >= height.slot,
    );
    t.ok(
      Math.abs(Number(clock.slot - slot)) < 10,
      `the clock is of slot ${clock.slot}, the chain at ${slot}`,
    );
    t.ok((await rpc.getBlockHeight({ commitment: 'finalized' })) <= (await rpc.getBlockHeight()));
    t.match(await rpc.getGenesisHash(), /^\w{32,44}$/);
    t.equal(await rpc.getBalance(keeper.address), 10_000_000_000n);
    t.equal(await rpc.getMinimumBalanceForRentExemption(165), 1_488_440n);
    t.ok(Array.isArray(await rpc.getRecentPrioritizationFees([keeper.address])));
    const message = signTransaction(keeper, [memo('')], blockhash).bytes.subarray(65);
    t.equal(await rpc.getFeeForMessage(message), 5000n);
    const time = await rpc.getBlockTime((await rpc.getSlot()) - 1n);
    t.ok(time !== null && time <= clock.unixTimestamp + 5n);
  },
);

void t.test('the transactions of a wallet’s address can be listed', async (t) => {
  const { rpc, publish, subscriber, collect } = await setup(t);
  const { parties } = await subscriber(await publish(1n));
  const [one] = [await collect(parties)];
  const list = await rpc.getSignaturesForAddress(parties.subscription);
  t.equal(list[0]?.signature, one.signature);
  t.equal(list.length, 2, 'the subscribe and the payment');
  t.same(
    (await rpc.getSignaturesForAddress(parties.subscription, { until: list[1]!.signature })).map(
      ({ signature }) => signature,
    ),
    [one.signature],
  );
});
