// Actions of wallets and merchants. The seed chooses the actor and its random numbers; the result
// also depends on the state of the subscription.
import { PublicKey, TransactionInstruction } from '@solana/web3.js';
import { SUBSCRIPTIONS_PROGRAM as PROGRAM } from '../../src/chain/clusters.ts';
import {
  authorityIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../src/chain/program/accounts.ts';
import {
  authorityAddress,
  CLOCK_SYSVAR,
  subscriptionAddress,
  TOKEN_PROGRAM,
  tokenAccountAddress,
} from '../../src/chain/program/addresses.ts';
import {
  type Instruction,
  sign,
  write,
  cancelSubscription,
  cancelSubscriptionNow,
  closeAuthority,
  initAuthority,
  resumeSubscription,
  revokeAuthority,
  subscribe,
  transferSubscription,
  UNKNOWN_INIT_ID,
  closeInstruction,
} from '../../src/chain/program/instructions.ts';
import {
  type AuthorityAccount,
  decodeClock,
  type SubscriptionAccount,
  type TokenAccount,
} from '../../src/chain/program/layouts.ts';
import { deletePlan, updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { updateDiscount, updateOwnIds } from '../../src/db/subscriptions/merchant-edits.ts';
import { forceCancel, requestCancel } from '../../src/domain/change/cancel.ts';
import {
  checkRegistration,
  storeRegistration,
} from '../../src/domain/registration/registration.ts';
import { ServiceError } from '../../src/errors.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import type { Wallet } from '../../src/local/sandbox/wallet.ts';
import { type Offer, PAYMENTS_FUNDED, type Player, publish } from './cast.ts';
import type { Ground } from './ground.ts';
import { patiently, send } from './send.ts';
import { findRegistration, goOn, halfPrice, type Registration, reinstateNewest } from './terms.ts';

/** The state that a wallet sees before it acts. */
interface Sight {
  now: bigint;
  pda: string;
  account: SubscriptionAccount | null;
  authority: AuthorityAccount | null;
  tokens: TokenAccount | null;
  /** The plan can still be collected from. */
  planRuns: boolean;
  /** Its live registration. */
  registration: Registration | undefined;
}

async function readSight(
  { rpc, sql, mint }: Ground,
  { wallet: { address }, plan }: Player,
): Promise<Sight> {
  const pda = subscriptionAddress(PROGRAM, plan.pda, address).address;
  const wanted = [
    pda,
    plan.pda,
    authorityAddress(PROGRAM, address, mint).address,
    tokenAccountAddress(address, mint).address,
    CLOCK_SYSVAR,
  ];
  const { accounts } = await patiently(() => rpc.getMultipleAccounts(wanted));
  const [subscription = null, onChain = null, authority = null, tokens = null, clock] = accounts;
  if (!clock) throw new Error('no clock');
  const now = decodeClock(clock.data).unixTimestamp;
  const planSeen = planIn(onChain, PROGRAM);
  const registration = await findRegistration(sql, pda);
  return {
    now,
    pda,
    account: subscriptionIn(subscription, PROGRAM),
    authority: authorityIn(authority, PROGRAM),
    tokens: tokenAccountIn(tokens),
    planRuns:
      planSeen !== null &&
      planSeen.createdAt === plan.createdAt &&
      (planSeen.endTs === 0n || planSeen.endTs >= now),
    registration,
  };
}

/**
 * One wallet (or its merchant) takes one action; resolves with the action and its result.
 * `repairs`: only actions that make a subscription payable again. Throws errors of the RPC client
 * and Postgres.
 */
export async function act(
  ground: Ground,
  player: Player,
  random: Random,
  { repairs }: { repairs: boolean },
): Promise<string> {
  const sight = await readSight(ground, player);
  const { account, now, registration, planRuns, tokens, authority } = sight;
  const die = random.below(100);
  const expired = account !== null && account.expiresAt !== 0n && account.expiresAt <= now;
  if (account === null || expired || !planRuns) return subscribeAnew(ground, player, sight);
  if (account.expiresAt !== 0n) return die < 50 ? resume(ground, player, sight) : 'waits';
  if (registration === undefined) {
    // A subscription that was ended by force is registered only after its merchant has reinstated
    // it.
    if (die < 30) return reinstateNewest(ground, sight.pda);
    return die < 70 ? register(ground, player) : cancel(ground, player, sight);
  }
  if (registration.pausedAt !== null) return die < 70 ? goOn(ground, registration, now) : 'waits';
  if (authority !== null && authority.initId !== account.initId)
    return cancel(ground, player, sight);
  const approved =
    tokens?.delegate === authorityAddress(PROGRAM, player.wallet.address, ground.mint).address;
  if (authority === null || !approved) return die < 70 ? approve(ground, player, sight) : 'waits';
  if (tokens.amount < player.offer.amount) return die < 70 ? topUp(ground, player) : 'waits';
  if (repairs) return 'is well';
  if (die < 14) return cancel(ground, player, sight);
  if (die < 20) return cancelNow(ground, player, sight);
  if (die < 34) return runDry(ground, player, tokens, die % 3 === 0);
  if (die < 44) return revoke(ground, player);
  if (die < 48)
    return only(
      ground,
      'revokeAuthority',
      player,
      revokeAuthority(PROGRAM, { user: player.wallet.address, mint: ground.mint }),
    );
  if (die < 52)
    return only(
      ground,
      'closeAuthority',
      player,
      closeAuthority(PROGRAM, { user: player.wallet.address, mint: ground.mint }),
    );
  if (die < 72) return pullForeign(ground, player, sight);
  return byMerchant(ground, registration, die < 86 ? 'force' : 'period_end');
}

const parties = ({ wallet, plan }: Player, { pda }: Sight) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});

async function actBySending(
  name: string,
  ground: Ground,
  signers: readonly Wallet[],
  instructions: readonly Instruction[],
): Promise<string> {
  const end = await send(ground.rpc, signers, instructions);
  return end === 'landed' ? name : `${name} ${end}`;
}

const only = (ground: Ground, name: string, { wallet }: Player, ...instructions: Instruction[]) =>
  actBySending(name, ground, [wallet], instructions);

/** Closes ended subscriptions, subscribes to an offered plan, and registers. */
export async function subscribeAnew(ground: Ground, player: Player, seen?: Sight): Promise<string> {
  const { wallet, offer, plan: old, sponsored } = player;
  const { mint, keeper, rpc } = ground;
  const { account, authority, tokens, pda: oldPda } = seen ?? (await readSight(ground, player));
  const user = wallet.address;
  if (tokens === null || tokens.amount < offer.amount) await topUp(ground, player);
  const plan = offer.plan;
  const subscription = subscriptionAddress(PROGRAM, plan.pda, user).address;
  const approved = tokens?.delegate === authorityAddress(PROGRAM, user, mint).address;
  const over =
    account === null
      ? []
      : [
          closeInstruction(PROGRAM, user, {
            plan: old.pda,
            subscription: oldPda,
            payer: account.payer,
          }),
        ];
  const terms = {
    planId: plan.planId,
    planBump: plan.bump,
    mint,
    amount: offer.amount,
    periodHours: BigInt(offer.periodHours),
    createdAt: plan.createdAt,
    initId: authority?.initId ?? UNKNOWN_INIT_ID,
  };
  const payer = sponsored ? keeper.address : undefined;
  ground.asked.push({ subscriptionPda: subscription, at: new Date() });
  const end = await send(rpc, sponsored ? [wallet, keeper] : [wallet], [
    ...over,
    ...(authority !== null && approved ? [] : [initAuthority(PROGRAM, { user, mint })]),
    subscribe(PROGRAM, {
      subscriber: user,
      merchant: offer.merchant.address,
      plan: plan.pda,
      subscription,
      terms,
      payer,
    }),
  ]);
  const name = account === null ? 'subscribe' : 'close, subscribe';
  if (end !== 'landed') {
    // A plan that is over lets only the payer close; the account is given up with it.
    if (end === 'failed' && account !== null && plan.id !== old.id) player.plan = plan;
    return `${name} ${end}`;
  }
  player.plan = plan;
  const registered = await register(ground, player);
  return registered === 'register' ? name : `${name}, ${registered}`;
}

/** Registers the wallet's subscription, at once with the discount of a half-price one. */
export async function register(ground: Ground, player: Player): Promise<string> {
  const { wallet, offer, plan } = player;
  const { sql, rpc, mint, keeper, treasury } = ground;
  const network = { programId: PROGRAM, mint, puller: keeper.address, treasury };
  const subscriptionPda = subscriptionAddress(PROGRAM, plan.pda, wallet.address).address;
  ground.asked.push({ subscriptionPda, at: new Date() });
  try {
    const request = {
      appId: offer.appId,
      planId: plan.id,
      subscriptionPda,
      wallet: wallet.address,
    };
    const registration = await checkRegistration(sql, rpc, network, request);
    player.registeredId = await sql.begin(async (tx) => {
      const id = await storeRegistration(tx, registration);
      if (player.isHalfPrice) await updateDiscount(tx, id, halfPrice(id));
      if (player.customer !== null)
        await updateOwnIds(tx, id, { externalId: player.customer }, 'merchant');
      return id;
    });
    return 'register';
  } catch (error) {
    if (error instanceof ServiceError) return `register ${error.code}`;
    throw error;
  }
}

const cancel = (ground: Ground, player: Player, sight: Sight) =>
  only(ground, 'cancel', player, cancelSubscription(PROGRAM, parties(player, sight)));

function cancelNow(ground: Ground, player: Player, sight: Sight): Promise<string> {
  const { merchant } = player.offer;
  const periodStart = sight.account?.periodStart ?? 0n;
  const instruction = cancelSubscriptionNow(PROGRAM, {
    ...parties(player, sight),
    merchant: merchant.address,
    periodStart,
  });
  return actBySending('cancelNow', ground, [player.wallet, merchant], [instruction]);
}

function resume(ground: Ground, player: Player, sight: Sight): Promise<string> {
  const terms = {
    ...parties(player, sight),
    mint: ground.mint,
    expiresAt: sight.account?.expiresAt ?? 0n,
  };
  return only(ground, 'resume', player, resumeSubscription(PROGRAM, terms));
}

async function approve(ground: Ground, player: Player, { tokens }: Sight): Promise<string> {
  if (tokens === null) return topUp(ground, player);
  return only(
    ground,
    'approve',
    player,
    initAuthority(PROGRAM, { user: player.wallet.address, mint: ground.mint }),
  );
}

async function topUp({ cheat }: Ground, { wallet, offer }: Player): Promise<string> {
  await cheat('localnet_faucet', wallet.address, (PAYMENTS_FUNDED * offer.amount).toString());
  return 'topUp';
}

/** SPL Token's Revoke: the approval goes and the authority stays. */
function revoke(ground: Ground, player: Player): Promise<string> {
  return only(ground, 'revoke', player, token(ground, player, Buffer.of(5), []));
}

/**
 * Everything goes elsewhere (Transfer), to the last but one base unit, or all of it and the account
 * with it (CloseAccount).
 */
function runDry(
  ground: Ground,
  player: Player,
  { amount }: TokenAccount,
  close: boolean,
): Promise<string> {
  const data = Buffer.alloc(9, 3);
  data.writeBigUInt64LE(close ? amount : amount - 1n, 1);
  // The keeper's own USDC is not part of the check.
  const away = token(ground, player, data, [
    tokenAccountAddress(ground.keeper.address, ground.mint).address,
  ]);
  if (!close) return only(ground, 'runDry', player, away);
  return only(
    ground,
    'closeTokens',
    player,
    away,
    token(ground, player, Buffer.of(9), [player.wallet.address]),
  );
}

function token(
  { mint }: Ground,
  { wallet: { address } }: Player,
  data: Buffer,
  to: string[],
): Instruction {
  const account = tokenAccountAddress(address, mint).address;
  return new TransactionInstruction({
    programId: new PublicKey(TOKEN_PROGRAM),
    keys: [write(account), ...to.map(write), sign(address)],
    data,
  });
}

/** The plan's owner collects by itself. */
function pullForeign(ground: Ground, player: Player, sight: Sight): Promise<string> {
  const { merchant, amount } = player.offer;
  const pull = {
    ...parties(player, sight),
    caller: merchant.address,
    receiver: merchant.address,
    mint: ground.mint,
    amount,
  };
  return actBySending('pullForeign', ground, [merchant], [transferSubscription(PROGRAM, pull)]);
}

async function byMerchant(
  { sql }: Ground,
  registration: { id: string; status: string },
  mode: 'force' | 'period_end',
): Promise<string> {
  try {
    await sql.begin((tx) =>
      mode === 'force' ? forceCancel(tx, registration) : requestCancel(tx, registration),
    );
    return mode === 'force' ? 'forceCancel' : 'merchantCancel';
  } catch (error) {
    if (error instanceof ServiceError) return `byMerchant ${error.code}`;
    throw error;
  }
}

/**
 * When a keeper reads the wallet's token account next, the wallet has no money or no approval any
 * more, and the keeper's transaction fails.
 */
export function failAfterRead(
  { badNodes, cheat, mint }: Ground,
  { wallet: { address } }: Player,
  how: 'poor' | 'revoked',
  then: () => void,
): void {
  const update = how === 'poor' ? { amount: 0 } : { delegate: null, delegatedAmount: 0 };
  badNodes.onRead.set(tokenAccountAddress(address, mint).address, async () => {
    await cheat('surfnet_setTokenAccount', address, mint, update);
    then();
  });
}

/**
 * A merchant cancels a subscription with an open attempt; resolves with its wallet, undefined if
 * there is none.
 */
export async function cancelInTheAir({ sql }: Ground): Promise<string | undefined> {
  const [one] = await sql<{ id: string; status: string; subscriberWallet: string }[]>`
    select s.id, s.status, s.subscriber_wallet from payment_attempts a join subscriptions s on s.id = a.subscription_id
    where a.state = 'open' and s.status in ('active', 'past_due') order by a.created_at desc limit 1`;
  if (one === undefined) return undefined;
  await sql.begin((tx) => forceCancel(tx, one));
  return one.subscriberWallet;
}

/**
 * Sunsets an offer's plan, which ends some periods later, and puts another in its place; or closes
 * one whose end has passed.
 */
export async function tendOffer(ground: Ground, offer: Offer, random: Random): Promise<string> {
  const { rpc } = ground;
  const { merchant, past } = offer;
  const [oldest] = past;
  const owner = merchant.address;
  const wanted = [(oldest ?? offer.plan).pda, CLOCK_SYSVAR];
  const { accounts } = await patiently(() => rpc.getMultipleAccounts(wanted));
  const seen = planIn(accounts[0] ?? null, PROGRAM);
  const now = decodeClock(accounts[1]?.data ?? Buffer.alloc(0)).unixTimestamp;
  if (oldest !== undefined && (seen === null || seen.endTs < now)) {
    if (seen === null) {
      past.shift();
      return 'deletePlan';
    }
    return actBySending(
      'deletePlan',
      ground,
      [merchant],
      [deletePlan(PROGRAM, { owner, plan: oldest.pda })],
    );
  }
  if (oldest !== undefined || seen === null) return 'tendOffer waits';
  const endTs = now + BigInt((1 + random.below(3)) * offer.periodHours * 3600 + random.below(3600));
  const successor = await publish(ground, offer);
  const { pullers, metadataUri } = seen;
  const edit = { status: 'sunset', endTs, pullers, metadataUri } as const;
  const end = await send(
    rpc,
    [merchant],
    [updatePlan(PROGRAM, { owner, plan: offer.plan.pda, edit, seen })],
  );
  if (end === 'landed') past.push(offer.plan);
  offer.plan = successor;
  return end === 'landed' ? 'sunsetPlan' : `sunsetPlan ${end}`;
}
