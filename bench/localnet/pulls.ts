// Subscribed wallets of one plan, and signed pulls from them. Like a keeper's pull, each has one
// transfer for the net amount and one for the fee.
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { generateKeypair, type Keypair } from '../../src/chain/keypair.ts';
import { planAddress, subscriptionAddress } from '../../src/chain/program/addresses.ts';
import {
  type Instruction,
  initAuthority,
  subscribe,
  UNKNOWN_INIT_ID,
} from '../../src/chain/program/instructions.ts';
import { decodePlan } from '../../src/chain/program/layouts.ts';
import { createPlan } from '../../src/chain/program/plan-instructions.ts';
import { signPayments, transfersOf } from '../../src/chain/transactions/collection.ts';
import { signTransaction } from '../../src/chain/transactions/subscriptions.ts';
import { createTokenAccount } from '../../src/chain/transactions/system-instructions.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';

/** A chain to prepare: the chain behind the RPC endpoint, or a chain in this process. */
export interface Target {
  fund(owner: string, lamports: bigint, usdc: bigint): Promise<void>;
  blockhash(): Promise<string>;
  send(transaction: Buffer): Promise<void>;
  account(address: string): Promise<Buffer>;
}

/** The plan, its parties and the subscribed wallets. */
export interface Scene {
  readonly keeper: Keypair;
  readonly merchant: Keypair;
  readonly treasury: string;
  readonly plan: string;
  readonly wallets: readonly { readonly address: string; readonly subscription: string }[];
}

const PLAN_AMOUNT = 500_000_000n;

/** Publishes a plan and subscribes `count` wallets to it. */
export async function prepare(target: Target, count: number): Promise<Scene> {
  const [keeper, merchant, treasury] = [generateKeypair(), generateKeypair(), generateKeypair()];
  const send = async (signer: Keypair, instructions: Instruction[]) =>
    target.send(signTransaction(signer, instructions, await target.blockhash()).bytes);
  await target.fund(keeper.address, 1_000_000_000_000n, 0n);
  await target.fund(merchant.address, 10_000_000_000n, 0n);
  const plan = planAddress(SUBSCRIPTIONS_PROGRAM, merchant.address, 1n);
  const terms = {
    planId: 1n,
    mint: LOCALNET_MINT,
    amount: PLAN_AMOUNT,
    periodHours: 720n,
    endTs: 0n,
    destinations: [merchant.address, treasury.address],
    pullers: [keeper.address],
    metadataUri: '',
  };
  await send(merchant, [
    createPlan(SUBSCRIPTIONS_PROGRAM, { merchant: merchant.address, plan: plan.address, terms }),
  ]);
  await send(keeper, [
    createTokenAccount({ payer: keeper.address, owner: merchant.address, mint: LOCALNET_MINT }),
    createTokenAccount({ payer: keeper.address, owner: treasury.address, mint: LOCALNET_MINT }),
  ]);
  const { createdAt } = decodePlan(await target.account(plan.address));
  const wallets = [];
  for (let number = 0; number < count; number += 1) {
    const wallet = generateKeypair();
    const subscription = subscriptionAddress(
      SUBSCRIPTIONS_PROGRAM,
      plan.address,
      wallet.address,
    ).address;
    await target.fund(wallet.address, 1_000_000_000n, PLAN_AMOUNT);
    const { planId, mint, amount, periodHours } = terms;
    await send(wallet, [
      initAuthority(SUBSCRIPTIONS_PROGRAM, { user: wallet.address, mint }),
      subscribe(SUBSCRIPTIONS_PROGRAM, {
        subscriber: wallet.address,
        merchant: merchant.address,
        plan: plan.address,
        subscription,
        terms: {
          planId,
          planBump: plan.bump,
          mint,
          amount,
          periodHours,
          createdAt,
          initId: UNKNOWN_INIT_ID,
        },
      }),
    ]);
    wallets.push({ address: wallet.address, subscription });
  }
  return { keeper, merchant, treasury: treasury.address, plan: plan.address, wallets };
}

let made = 0;

/**
 * Signs `count` pulls, alternating between the wallets. Each pull transfers 99 and 1 base units.
 */
export function signPulls(
  { keeper, merchant, treasury, plan, wallets }: Scene,
  blockhash: string,
  count: number,
): Buffer[] {
  return Array.from({ length: count }, (_, number) => {
    const wallet = wallets[number % wallets.length]!;
    const transfers = transfersOf({
      programId: SUBSCRIPTIONS_PROGRAM,
      mint: LOCALNET_MINT,
      keeper: keeper.address,
      merchant: merchant.address,
      treasury,
      plan,
      subscription: wallet.subscription,
      subscriber: wallet.address,
      net: 99n,
      fee: 1n,
    });
    return signPayments(keeper, transfers, {
      version: 'legacy',
      blockhash: blockhash,
      reference: `pull ${(made += 1)}`,
      budget: { computeUnits: 200_000, loadedDataBytes: 10_000_000, priorityFee: 0n },
    }).bytes;
  });
}
