import assert from 'node:assert/strict';
import { type Address, address } from '@solana/kit';
import { ACCOUNT_SIZE, AccountLayout, AccountState } from '@solana/spl-token';
import {
  getPlanDataEncoder,
  getPlanEncoder,
  getSubscriptionAuthorityEncoder,
  getSubscriptionDelegationEncoder,
} from '@solana/subscriptions';
import { PublicKey } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import {
  ChainDataError,
  decodeAuthority,
  decodeClock,
  decodePlan,
  decodeSubscription,
  decodeTokenAccount,
} from '../../../src/chain/program/layouts.ts';

const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const i64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const u8 = fc.nat(255);
const key = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes): Address => address(bs58.encode(bytes)));
const keys = fc.array(
  key.filter((one) => one !== SYSTEM_PROGRAM),
  { maxLength: 4 },
);
const slots = (some: Address[]) => [
  ...some,
  ...Array.from({ length: 4 - some.length }, () => address(SYSTEM_PROGRAM)),
];

void t.test('a plan that the published client encodes is decoded field by field', (t) => {
  const uri = fc
    .string({ unit: 'grapheme-ascii', maxLength: 128 })
    .filter((text) => !text.includes('\0'));
  fc.assert(
    fc.property(
      fc.record({
        owner: key,
        bump: u8,
        planId: u64,
        mint: key,
        amount: u64,
        periodHours: u64,
        createdAt: i64,
        endTs: i64,
      }),
      fc.boolean(),
      keys,
      keys,
      uri,
      (
        { owner, bump, planId, mint, amount, periodHours, createdAt, endTs },
        active,
        destinations,
        pullers,
        metadataUri,
      ) => {
        const bytes = getPlanEncoder().encode({
          discriminator: 1,
          owner,
          bump,
          status: active ? 1 : 0,
          data: {
            planId,
            mint,
            terms: { amount, periodHours, createdAt },
            endTs,
            destinations: slots(destinations),
            pullers: slots(pullers),
            metadataUri,
          },
        });
        assert.deepEqual(decodePlan(new Uint8Array(bytes)), {
          owner,
          bump,
          status: active ? 'active' : 'sunset',
          planId,
          mint,
          amount,
          periodHours,
          createdAt,
          endTs,
          destinations,
          pullers,
          metadataUri,
        });
      },
    ),
  );
  t.equal(getPlanDataEncoder().fixedSize, 456);
  t.end();
});

void t.test('a subscription that the published client encodes is decoded field by field', (t) => {
  fc.assert(
    fc.property(
      fc.record({ bump: u8, subscriber: key, plan: key, payer: key, initId: i64 }),
      fc.record({
        amount: u64,
        periodHours: u64,
        planCreatedAt: i64,
        amountPulled: u64,
        periodStart: i64,
        expiresAt: i64,
      }),
      (head, body) => {
        const bytes = getSubscriptionDelegationEncoder().encode({
          header: {
            discriminator: 4,
            version: 1,
            bump: head.bump,
            delegator: head.subscriber,
            delegatee: head.plan,
            payer: head.payer,
            initId: head.initId,
          },
          terms: {
            amount: body.amount,
            periodHours: body.periodHours,
            createdAt: body.planCreatedAt,
          },
          amountPulledInPeriod: body.amountPulled,
          currentPeriodStartTs: body.periodStart,
          expiresAtTs: body.expiresAt,
        });
        assert.deepEqual(decodeSubscription(new Uint8Array(bytes)), { ...head, ...body });
      },
    ),
  );
  t.pass();
  t.end();
});

void t.test('an authority that the published client encodes is decoded field by field', (t) => {
  fc.assert(
    fc.property(
      fc.record({ user: key, mint: key, payer: key, bump: u8, initId: i64 }),
      (authority) => {
        const { mint: tokenMint, ...rest } = authority;
        assert.deepEqual(
          decodeAuthority(
            new Uint8Array(
              getSubscriptionAuthorityEncoder().encode({ discriminator: 0, tokenMint, ...rest }),
            ),
          ),
          { ...authority },
        );
      },
    ),
  );
  t.pass();
  t.end();
});

void t.test('a token account that SPL Token encodes is decoded field by field', (t) => {
  fc.assert(
    fc.property(
      fc.record({ mint: key, owner: key, amount: u64, delegatedAmount: u64 }),
      fc.option(key),
      fc.boolean(),
      ({ mint, owner, amount, delegatedAmount }, delegate, frozen) => {
        const bytes = Buffer.alloc(ACCOUNT_SIZE);
        AccountLayout.encode(
          {
            mint: new PublicKey(mint),
            owner: new PublicKey(owner),
            amount,
            delegateOption: delegate === null ? 0 : 1,
            delegate: new PublicKey(delegate ?? SYSTEM_PROGRAM),
            delegatedAmount,
            state: frozen ? AccountState.Frozen : AccountState.Initialized,
            isNativeOption: 0,
            isNative: 0n,
            closeAuthorityOption: 0,
            closeAuthority: PublicKey.default,
          },
          bytes,
        );
        assert.deepEqual(decodeTokenAccount(bytes), {
          mint,
          owner,
          amount,
          delegate,
          delegatedAmount: delegate === null ? 0n : delegatedAmount,
          state: frozen ? 'frozen' : 'initialized',
        });
      },
    ),
  );
  t.pass();
  t.end();
});

void t.test('data of another length, kind or version is refused with the reason', (t) => {
  const refused = (decode: () => unknown, message: RegExp) =>
    t.throws(decode, { constructor: ChainDataError, message });
  const plan = new Uint8Array(491).fill(0);
  refused(() => decodePlan(plan), /Plan account has the discriminator 1, this one has 0/);
  refused(() => decodePlan(plan.subarray(1)), /Plan account has 491 bytes, this one has 490/);
  refused(() => decodePlan(new Uint8Array()), /0/);
  plan.set([1]);
  plan.set([2], 34);
  refused(() => decodePlan(plan), /status/);
  const subscription = new Uint8Array(155);
  refused(() => decodeSubscription(subscription), /discriminator 4, this one has 0/);
  subscription.set([4, 2]);
  refused(() => decodeSubscription(subscription), /version 1 is known, this one has 2/);
  refused(() => decodeAuthority(new Uint8Array(105)), /106 bytes/);
  refused(() => decodeTokenAccount(new Uint8Array(165)), /state is 1 or 2, this one has 0/);
  refused(() => decodeTokenAccount(new Uint8Array(170)), /165 bytes/);
  refused(() => decodeClock(new Uint8Array(8)), /40 bytes/);
  t.end();
});

void t.test('accounts with fields that later program versions append are decoded', (t) => {
  for (const [decode, length, head] of [
    [decodePlan, 491, [1]],
    [decodeSubscription, 155, [4, 1]],
    [decodeAuthority, 106, [0]],
  ] as const) {
    const known = new Uint8Array(length);
    known.set(head);
    const grown = new Uint8Array(length + 40).fill(7);
    grown.set(known);
    t.same(decode(grown), decode(known));
  }
  t.end();
});

void t.test('for any bytes, a decoder throws only ChainDataError', (t) => {
  const lengths = fc.constantFrom(0, 1, 40, 106, 155, 165, 491);
  const bytes = lengths.chain((length) => fc.uint8Array({ minLength: length, maxLength: length }));
  fc.assert(
    fc.property(bytes, (data) => {
      for (const decode of [
        decodePlan,
        decodeSubscription,
        decodeAuthority,
        decodeTokenAccount,
        decodeClock,
      ]) {
        try {
          decode(data);
        } catch (error) {
          if (!(error instanceof ChainDataError)) throw error;
        }
      }
    }),
    { numRuns: 500 },
  );
  t.pass();
  t.end();
});

void t.test("the Clock sysvar's slot and time are decoded", (t) => {
  const bytes = Buffer.alloc(40, 0xff);
  bytes.writeBigUInt64LE(123n, 0);
  bytes.writeBigInt64LE(1_700_000_000n, 32);
  t.same(decodeClock(bytes), { slot: 123n, unixTimestamp: 1_700_000_000n });
  t.end();
});
