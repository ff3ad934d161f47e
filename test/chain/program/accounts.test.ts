import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import {
  authorityIn,
  liveSubscriptionIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../../src/chain/program/accounts.ts';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { ChainDataError } from '../../../src/chain/program/layouts.ts';

const account = (owner: string, data: Buffer) => ({ owner, lamports: 1n, data });
const subscription = Buffer.alloc(155);
subscription.set([4, 1]);
const plan = Buffer.alloc(491);
plan.set([1]);
const token = Buffer.alloc(165);
token.set([1], 108);

void t.test('account data is decoded only if the subscriptions program owns the account', (t) => {
  const program = SUBSCRIPTIONS_PROGRAM;
  const forger = 'Vote111111111111111111111111111111111111111';
  t.equal(subscriptionIn(account(program, subscription), program)?.amount, 0n);
  t.equal(planIn(account(program, plan), program)?.status, 'sunset');
  t.equal(authorityIn(account(program, Buffer.alloc(106)), program)?.initId, 0n);
  t.equal(tokenAccountIn(account(TOKEN_PROGRAM, token))?.state, 'initialized');
  for (const read of [
    () => subscriptionIn(account(forger, subscription), program),
    () => planIn(account(forger, plan), program),
    () => authorityIn(account(forger, Buffer.alloc(106)), program),
    () => tokenAccountIn(account(forger, token)),
    () => subscriptionIn(account(SYSTEM_PROGRAM, subscription), program),
  ]) {
    t.throws(read, { constructor: ChainDataError, message: /belongs to/ });
  }
  t.end();
});

void t.test('a missing, a closed and an empty account are read as no subscription', (t) => {
  t.equal(subscriptionIn(null, SUBSCRIPTIONS_PROGRAM), null);
  t.equal(subscriptionIn(account(SYSTEM_PROGRAM, Buffer.alloc(0)), SUBSCRIPTIONS_PROGRAM), null);
  t.equal(tokenAccountIn(account(SYSTEM_PROGRAM, Buffer.alloc(0))), null);
  t.end();
});

void t.test('an on-chain subscription counts as live while it is not cancelled', (t) => {
  const program = SUBSCRIPTIONS_PROGRAM;
  t.equal(liveSubscriptionIn(account(program, subscription), program)?.expiresAt, 0n);
  const cancelled = Buffer.alloc(155, 1);
  cancelled.set([4, 1]);
  const others = [
    account(program, cancelled),
    account(program, plan),
    account(TOKEN_PROGRAM, token),
    account(SYSTEM_PROGRAM, Buffer.alloc(0)),
    null,
  ];
  for (const other of others) t.equal(liveSubscriptionIn(other, program), null);
  t.end();
});
