// The published client @solana/subscriptions on @solana/kit, unchanged, over HTTP and WebSocket:
// its builders drive the chain, its fetchers read it.
import { setMaxListeners } from 'node:events';
import {
  address,
  appendTransactionMessageInstructions,
  assertIsTransactionWithBlockhashLifetime,
  createKeyPairSignerFromBytes,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  getSignatureFromTransaction,
  type Instruction,
  isSolanaError,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
  SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
  type KeyPairSigner,
  type Signature,
} from '@solana/kit';
import { getAssociatedTokenAddressSync } from '@solana/spl-token';
import {
  fetchPlan,
  fetchPlansForOwner,
  fetchSubscriptionAuthority,
  fetchMaybeSubscriptionAuthority,
  fetchMaybeSubscriptionDelegation,
  fetchSubscriptionDelegation,
  fetchSubscriptionsForUser,
  findPlanPda,
  findSubscriptionAuthorityPda,
  findSubscriptionDelegationPda,
  getCancelSubscriptionOverlayInstructionAsync,
  getCloseSubscriptionAuthorityOverlayInstructionAsync,
  getCreatePlanOverlayInstructionAsync,
  getInitSubscriptionAuthorityOverlayInstructionAsync,
  getResumeSubscriptionOverlayInstructionAsync,
  getRevokeSubscriptionOverlayInstruction,
  getSubscribeOverlayInstructionAsync,
  getTransferSubscriptionOverlayInstructionAsync,
  SUBSCRIPTIONS_ERROR__AMOUNT_EXCEEDS_PERIOD_LIMIT,
  SUBSCRIPTIONS_ERROR__INVALID_INSTRUCTION_DATA,
} from '@solana/subscriptions';
import { PublicKey } from '@solana/web3.js';
import t, { type Test } from 'tap';
import { startTestChain } from '../../fixtures/localnet.ts';

const AMOUNT = 10_000_000n;
const HOURS = 720n;
const TOKEN_PROGRAM = address('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');

/** A chain, the kit's clients of it, and signers with money. */
async function setup(t: Test) {
  // A blockhash is valid for 15 s at least.
  const chain = await startTestChain(t, { blockMs: 100 });
  const rpc = createSolanaRpc(chain.rpcUrl);
  const rpcSubscriptions = createSolanaRpcSubscriptions(chain.wsUrl);
  const sendAndConfirm = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
  const signer = (usdc = 0n) =>
    createKeyPairSignerFromBytes(chain.wallet({ usdc }).keypair.secretKey);
  const ata = (owner: string) =>
    address(
      getAssociatedTokenAddressSync(new PublicKey(chain.mint), new PublicKey(owner)).toBase58(),
    );
  async function send(payer: KeyPairSigner, ...instructions: Instruction[]) {
    const { value: latestBlockhash } = await rpc
      .getLatestBlockhash({ commitment: 'confirmed' })
      .send();
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (m) => setTransactionMessageFeePayerSigner(payer, m),
      (m) => setTransactionMessageLifetimeUsingBlockhash(latestBlockhash, m),
      (m) => appendTransactionMessageInstructions(instructions, m),
    );
    const transaction = await signTransactionMessageWithSigners(message);
    assertIsTransactionWithBlockhashLifetime(transaction);
    await sendAndConfirm(transaction, {
      commitment: 'confirmed',
      preflightCommitment: 'confirmed',
    });
    return getSignatureFromTransaction(transaction);
  }
  return { chain, rpc, rpcSubscriptions, signer, ata, send, mint: address(chain.mint) };
}

void t.test(
  'the published client opens, pulls, cancels, revokes and closes over HTTP',
  async (t) => {
    const { chain, rpc, signer, ata, send, mint } = await setup(t);
    const [merchant, treasury, keeper, subscriber] = await Promise.all([
      signer(1n),
      signer(1n),
      signer(),
      signer(5n * AMOUNT),
    ]);
    const user = {
      owner: subscriber,
      tokenMint: mint,
      tokenProgram: TOKEN_PROGRAM,
      userAta: ata(subscriber.address),
    };
    await send(subscriber, await getInitSubscriptionAuthorityOverlayInstructionAsync(user));
    const [authorityPda] = await findSubscriptionAuthorityPda({
      user: subscriber.address,
      tokenMint: mint,
    });
    const authority = await fetchSubscriptionAuthority(rpc, authorityPda);
    t.match(authority.data, { user: subscriber.address, tokenMint: mint });
    t.ok(
      authority.data.initId > 0n && authority.data.initId <= BigInt(chain.slot()),
      'the init id is the slot it was opened in',
    );

    const terms = {
      planId: 3n,
      mint,
      amount: AMOUNT,
      periodHours: HOURS,
      endTs: 0n,
      metadataUri: 'https://example.org/plan',
    };
    const parties = {
      destinations: [merchant.address, treasury.address],
      pullers: [keeper.address],
    };
    await send(
      merchant,
      await getCreatePlanOverlayInstructionAsync({ owner: merchant, ...terms, ...parties }),
    );
    const [planPda] = await findPlanPda({ owner: merchant.address, planId: 3n });
    const plan = await fetchPlan(rpc, planPda);
    t.match(plan.data.data.terms, { amount: AMOUNT, periodHours: HOURS });
    t.same(
      (await fetchPlansForOwner(rpc, merchant.address)).map((found) => found.address),
      [planPda],
      'getProgramAccounts with the client’s own filters',
    );

    await send(
      subscriber,
      await getSubscribeOverlayInstructionAsync({
        subscriber,
        merchant: merchant.address,
        planId: 3n,
        tokenMint: mint,
        expectedAmount: AMOUNT,
        expectedPeriodHours: HOURS,
        expectedCreatedAt: plan.data.data.terms.createdAt,
        expectedSubscriptionAuthorityInitId: authority.data.initId,
      }),
    );
    const [subscriptionPda] = await findSubscriptionDelegationPda({
      planPda,
      subscriber: subscriber.address,
    });
    t.same(
      (await fetchSubscriptionsForUser(rpc, subscriber.address)).map((found) => found.address),
      [subscriptionPda],
    );

    const pull = (amount: bigint, to: string) =>
      getTransferSubscriptionOverlayInstructionAsync({
        amount,
        caller: keeper,
        delegator: subscriber.address,
        planPda,
        subscriptionPda,
        tokenMint: mint,
        tokenProgram: TOKEN_PROGRAM,
        receiverAta: ata(to),
      });
    const signature = await send(
      keeper,
      await pull(AMOUNT - 100_000n, merchant.address),
      await pull(100_000n, treasury.address),
    );
    const balance = async (owner: string) =>
      BigInt(
        (await rpc.getTokenAccountBalance(ata(owner), { commitment: 'confirmed' }).send()).value
          .amount,
      );
    t.same(
      [
        await balance(subscriber.address),
        await balance(merchant.address),
        await balance(treasury.address),
      ],
      [4n * AMOUNT, AMOUNT - 99_999n, 100_001n],
    );
    t.equal(
      (await fetchSubscriptionDelegation(rpc, subscriptionPda)).data.amountPulledInPeriod,
      AMOUNT,
    );

    const landed = await rpc
      .getTransaction(signature, {
        commitment: 'confirmed',
        encoding: 'json',
        maxSupportedTransactionVersion: 0,
      })
      .send();
    t.equal(Number(landed?.version), 0);
    t.same(
      landed?.meta?.innerInstructions?.map(({ index, instructions }) => [
        index,
        instructions.length,
      ]),
      [
        [0, 2],
        [1, 2],
      ],
    );
    t.equal(landed?.meta?.postTokenBalances?.length, 3);

    const refused = await pull(1n, merchant.address)
      .then((more) => send(keeper, more))
      .catch((error: unknown) => error);
    t.ok(
      isSolanaError(
        refused,
        SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
      ),
    );
    const cause = (refused as Error).cause;
    t.ok(isSolanaError(cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM));
    t.equal(
      isSolanaError(cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM) && cause.context.code,
      SUBSCRIPTIONS_ERROR__AMOUNT_EXCEEDS_PERIOD_LIMIT,
    );

    const side = { subscriber, planPda };
    const expiresAt = async () =>
      (await fetchSubscriptionDelegation(rpc, subscriptionPda)).data.expiresAtTs;
    await send(subscriber, await getCancelSubscriptionOverlayInstructionAsync(side));
    t.not(await expiresAt(), 0n);
    await t.rejects(
      send(subscriber, await getResumeSubscriptionOverlayInstructionAsync(side)),
      { cause: { context: { code: SUBSCRIPTIONS_ERROR__INVALID_INSTRUCTION_DATA } } },
      'the form of program 0.3.0',
    );

    chain.passSeconds(Number(HOURS) * 3600 + 1);
    await send(
      subscriber,
      getRevokeSubscriptionOverlayInstruction({ authority: subscriber, planPda, subscriptionPda }),
    );
    t.notOk((await fetchMaybeSubscriptionDelegation(rpc, subscriptionPda)).exists);
    await send(
      subscriber,
      await getCloseSubscriptionAuthorityOverlayInstructionAsync({
        user: subscriber,
        tokenMint: mint,
      }),
    );
    t.notOk((await fetchMaybeSubscriptionAuthority(rpc, authorityPda)).exists);
  },
);

void t.test(
  'subscriptions of kit get slots, accounts, programs, logs and signatures',
  async (t) => {
    const { chain, rpc, rpcSubscriptions } = await setup(t);
    const abortController = new AbortController();
    // Each subscription of the kit listens to it; beyond ten Node warns of a leak.
    setMaxListeners(0, abortController.signal);
    const { signal: abortSignal } = abortController;
    const { address: owner } = chain.wallet({ usdc: 0n });
    chain.mineBlocks(2);
    const wallet = address(owner);
    // kit drops notifications that come before they are waited for.
    const next = async <T>(source: Promise<AsyncIterable<T>>): Promise<T> => {
      for await (const item of await source) return item;
      throw new Error('the subscription ended');
    };
    const config = { commitment: 'confirmed', encoding: 'base64' } as const;
    const slot = next(rpcSubscriptions.slotNotifications().subscribe({ abortSignal }));
    const { slot: number, parent, root } = await slot;
    t.ok(number > parent && parent >= root);
    const account = next(
      rpcSubscriptions.accountNotifications(wallet, config).subscribe({ abortSignal }),
    );
    const filters = [{ dataSize: 165n }];
    const program = next(
      rpcSubscriptions
        .programNotifications(TOKEN_PROGRAM, { ...config, filters })
        .subscribe({ abortSignal }),
    );
    const logs = next(
      rpcSubscriptions
        .logsNotifications({ mentions: [wallet] }, { commitment: 'confirmed' })
        .subscribe({ abortSignal }),
    );
    // Answers of one connection come in order: when this one is there, the subscriptions before it
    // are.
    await next(rpcSubscriptions.slotNotifications().subscribe({ abortSignal }));
    const airdrop = await chain.rpc<Signature>('requestAirdrop', owner, 5_000_000_000);
    const final = next(
      rpcSubscriptions
        .signatureNotifications(airdrop, { commitment: 'finalized' })
        .subscribe({ abortSignal }),
    );
    t.equal((await account).value.lamports, 15_000_000_000n);
    t.equal((await logs).value.signature, airdrop);
    await chain.rpc('localnet_faucet', owner, 7);
    t.equal((await program).value.account.space, 165n);
    t.equal((await final).value.err, null);
    const { value } = await rpc.getSignatureStatuses([airdrop]).send();
    t.equal(value[0]?.confirmationStatus, 'finalized');
    abortController.abort();
  },
);
