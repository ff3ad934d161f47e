// The rules of the program once more, in TypeScript and from their description, not from the C:
// what a sequence of instructions must do. Wallets and plans are numbers here; times are seconds of
// the chain's clock.

export interface PlanModel {
  owner: number;
  amount: bigint;
  length: bigint;
  createdAt: bigint;
  endTs: bigint;
  active: boolean;
  destinations: readonly number[];
  pullers: readonly number[];
}

export interface SubscriptionModel {
  payer: number;
  initId: bigint;
  amount: bigint;
  length: bigint;
  createdAt: bigint;
  openedAt: bigint;
  /** The slot it was opened in: no two are opened in the same. */
  openedIn: bigint;
  expiresAt: bigint;
  /** Pulled amounts by the number of the period since it was created. */
  pulled: Map<bigint, bigint>;
}

export interface Model {
  now: bigint;
  slot: bigint;
  plans: Map<number, PlanModel>;
  /** Subscriptions by `plan:wallet`. */
  subscriptions: Map<string, SubscriptionModel>;
  /** The id of each wallet's open authority. */
  authorities: Map<number, bigint>;
  /** Wallets whose token account has the authority as its delegate. */
  approved: Set<number>;
  tokens: bigint[];
}

export interface Leg {
  plan: number;
  subscriber: number;
  caller: number;
  to: number;
  amount: bigint;
}

export const subscriptionKey = (plan: number, subscriber: number) => `${plan}:${subscriber}`;
const hasEnded = (plan: PlanModel, now: bigint) => plan.endTs !== 0n && now > plan.endTs;
const isSame = (plan: PlanModel, { amount, length, createdAt }: SubscriptionModel) =>
  plan.amount === amount && plan.length === length && plan.createdAt === createdAt;

/** Creates the plan if that is allowed; returns whether it did. */
export function createsPlan(model: Model, key: number, plan: PlanModel): boolean {
  if (model.plans.has(key) || plan.amount === 0n) return false;
  if (plan.endTs !== 0n && plan.endTs < model.now + plan.length) return false;
  model.plans.set(key, { ...plan, createdAt: model.now });
  return true;
}

export function updatesPlan(
  model: Model,
  key: number,
  change: Pick<PlanModel, 'active' | 'endTs' | 'pullers'>,
): boolean {
  const plan = model.plans.get(key);
  if (plan === undefined) return false;
  if (!plan.active) {
    const fewer = change.pullers.every((puller) => plan.pullers.includes(puller));
    if (change.active || change.endTs !== plan.endTs || !fewer) return false;
    plan.pullers = change.pullers;
    return true;
  }
  if (hasEnded(plan, model.now)) return false;
  if (!change.active && change.endTs === 0n) return false;
  if (plan.endTs !== 0n && (change.endTs === 0n || change.endTs > plan.endTs)) return false;
  if (change.endTs !== plan.endTs && change.endTs !== 0n && change.endTs < model.now + plan.length)
    return false;
  Object.assign(plan, change);
  return true;
}

export function deletesPlan(model: Model, key: number): boolean {
  const plan = model.plans.get(key);
  return plan !== undefined && hasEnded(plan, model.now) && model.plans.delete(key);
}

export function subscribes(model: Model, key: number, subscriber: number, payer: number): boolean {
  const plan = model.plans.get(key);
  const initId = model.authorities.get(subscriber);
  const at = subscriptionKey(key, subscriber);
  if (
    plan?.active !== true ||
    hasEnded(plan, model.now) ||
    initId === undefined ||
    model.subscriptions.has(at)
  )
    return false;
  const { amount, length, createdAt } = plan;
  model.subscriptions.set(at, {
    payer,
    initId,
    amount,
    length,
    createdAt,
    openedAt: model.now,
    openedIn: model.slot,
    expiresAt: 0n,
    pulled: new Map(),
  });
  return true;
}

export function cancels(model: Model, key: number, subscriber: number): boolean {
  const plan = model.plans.get(key);
  const subscription = model.subscriptions.get(subscriptionKey(key, subscriber));
  if (subscription?.expiresAt !== 0n) return false;
  if (plan === undefined || !isSame(plan, subscription)) {
    subscription.expiresAt = model.now;
    return true;
  }
  const { openedAt, length } = subscription;
  const end = openedAt + ((model.now - openedAt) / length + 1n) * length;
  subscription.expiresAt = plan.endTs !== 0n && end > plan.endTs ? plan.endTs + 1n : end;
  return true;
}

export function cancelsNow(model: Model, key: number, subscriber: number): boolean {
  const subscription = model.subscriptions.get(subscriptionKey(key, subscriber));
  if (!model.plans.has(key) || subscription === undefined) return false;
  if (subscription.expiresAt !== 0n && subscription.expiresAt <= model.now) return false;
  subscription.expiresAt = model.now;
  return true;
}

export function resumes(model: Model, key: number, subscriber: number): boolean {
  const plan = model.plans.get(key);
  const subscription = model.subscriptions.get(subscriptionKey(key, subscriber));
  if (
    plan === undefined ||
    subscription === undefined ||
    hasEnded(plan, model.now) ||
    !isSame(plan, subscription)
  )
    return false;
  if (
    model.authorities.get(subscriber) !== subscription.initId ||
    subscription.expiresAt <= model.now
  )
    return false;
  subscription.expiresAt = 0n;
  return true;
}

export function closes(model: Model, key: number, subscriber: number, by: number): boolean {
  const at = subscriptionKey(key, subscriber);
  const subscription = model.subscriptions.get(at);
  if (subscription === undefined || (by !== subscriber && by !== subscription.payer)) return false;
  const plan = model.plans.get(key);
  const expired = subscription.expiresAt !== 0n && subscription.expiresAt <= model.now;
  const over = plan === undefined || hasEnded(plan, model.now) || !isSame(plan, subscription);
  return (expired || (by !== subscriber && over)) && model.subscriptions.delete(at);
}

/**
 * The period a pull belongs to, counted from the opening. The last second of a plan opens no new
 * one.
 */
export function periodOf(
  { openedAt, length }: SubscriptionModel,
  plan: PlanModel,
  now: bigint,
): bigint {
  const last = plan.endTs !== 0n && now >= plan.endTs ? plan.endTs - 1n : now;
  return last < openedAt ? 0n : (last - openedAt) / length;
}

function pullsOne(model: Model, { plan: key, subscriber, caller, to, amount }: Leg): boolean {
  const plan = model.plans.get(key);
  const subscription = model.subscriptions.get(subscriptionKey(key, subscriber));
  if (
    plan === undefined ||
    subscription === undefined ||
    hasEnded(plan, model.now) ||
    !isSame(plan, subscription)
  )
    return false;
  if (caller !== plan.owner && !plan.pullers.includes(caller)) return false;
  if (plan.destinations.length > 0 && !plan.destinations.includes(to)) return false;
  if (subscription.expiresAt !== 0n && model.now >= subscription.expiresAt) return false;
  if (model.authorities.get(subscriber) !== subscription.initId || !model.approved.has(subscriber))
    return false;
  const period = periodOf(subscription, plan, model.now);
  const pulled = (subscription.pulled.get(period) ?? 0n) + amount;
  const held = model.tokens[subscriber] ?? 0n;
  if (amount === 0n || pulled > plan.amount || held < amount) return false;
  subscription.pulled.set(period, pulled);
  model.tokens[subscriber] = held - amount;
  model.tokens[to] = (model.tokens[to] ?? 0n) + amount;
  return true;
}

/** Whether a transaction of these pulls goes through: all of them or none. */
export function pulls(model: Model, legs: readonly Leg[]): boolean {
  const before = structuredClone(model);
  if (legs.every((leg) => pullsOne(model, leg))) return true;
  Object.assign(model, before);
  return false;
}
