import assert from 'node:assert/strict';
import { address } from '@solana/kit';
import { getAssociatedTokenAddressSync } from '@solana/spl-token';
import {
  findEventAuthorityPda,
  findPlanPda,
  findSubscriptionAuthorityPda,
  findSubscriptionDelegationPda,
} from '@solana/subscriptions';
import { PublicKey } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import {
  addressBytes,
  authorityAddress,
  eventAuthorityAddress,
  isAddress,
  planAddress,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../../src/chain/program/addresses.ts';

const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => bs58.encode(bytes));

void t.test(
  'derived program addresses equal those of the published client @solana/subscriptions',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(
        key,
        key,
        fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        async (one, other, planId) => {
          const plan = planAddress(SUBSCRIPTIONS_PROGRAM, one, planId);
          assert.deepEqual(
            [plan.address, plan.bump],
            await findPlanPda({ owner: address(one), planId }),
          );
          const subscription = subscriptionAddress(SUBSCRIPTIONS_PROGRAM, one, other);
          assert.deepEqual(
            [subscription.address, subscription.bump],
            await findSubscriptionDelegationPda({
              planPda: address(one),
              subscriber: address(other),
            }),
          );
          const authority = authorityAddress(SUBSCRIPTIONS_PROGRAM, one, other);
          assert.deepEqual(
            [authority.address, authority.bump],
            await findSubscriptionAuthorityPda({ user: address(one), tokenMint: address(other) }),
          );
        },
      ),
      { numRuns: 25 },
    );
    t.pass();
  },
);

void t.test('the derived event authority equals the address in docs/chain.md', async (t) => {
  const { address: found, bump } = eventAuthorityAddress(SUBSCRIPTIONS_PROGRAM);
  t.equal(found, '3Hnj4BYoDgtpBuqXfiy7Y8cNa3jXaNd4oqgSXBzkMcH7');
  t.same([found, bump], await findEventAuthorityPda());
});

void t.test('derived token accounts are the associated token accounts of SPL Token', (t) => {
  fc.assert(
    fc.property(key, key, (owner, mint) => {
      const expected = getAssociatedTokenAddressSync(
        new PublicKey(mint),
        new PublicKey(owner),
        true,
      ).toBase58();
      assert.equal(tokenAccountAddress(owner, mint).address, expected);
    }),
    { numRuns: 25 },
  );
  t.pass();
  t.end();
});

void t.test('another program id gives other derived addresses', (t) => {
  const [program, owner] = [
    '11111111111111111111111111111112',
    'SysvarRent111111111111111111111111111111111',
  ];
  t.not(
    planAddress(program, owner, 1n).address,
    planAddress(SUBSCRIPTIONS_PROGRAM, owner, 1n).address,
  );
  t.end();
});

void t.test('a derived address is the same with and without the cache', (t) => {
  const owner = 'SysvarRent111111111111111111111111111111111';
  const first = planAddress(SUBSCRIPTIONS_PROGRAM, owner, 7n);
  t.equal(planAddress(SUBSCRIPTIONS_PROGRAM, owner, 7n), first);
  t.not(planAddress(SUBSCRIPTIONS_PROGRAM, owner, 8n).address, first.address);
  t.not(
    subscriptionAddress(SUBSCRIPTIONS_PROGRAM, owner, first.address),
    authorityAddress(SUBSCRIPTIONS_PROGRAM, owner, first.address),
  );
  t.end();
});

void t.test('isAddress only accepts Base58 of 32 bytes', (t) => {
  fc.assert(fc.property(key, (one) => isAddress(one)));
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 80 }).filter((bytes) => bytes.length !== 32),
      (bytes) => !isAddress(bs58.encode(bytes)),
    ),
  );
  for (const text of [
    '',
    ' ',
    '0'.repeat(32),
    'l'.repeat(43),
    `${SUBSCRIPTIONS_PROGRAM} `,
    `${SUBSCRIPTIONS_PROGRAM}1`,
    '1'.repeat(31),
  ]) {
    t.equal(isAddress(text), false, JSON.stringify(text));
  }
  t.equal(isAddress('1'.repeat(32)), true);
  t.equal(isAddress('1'.repeat(1_000_000)), false, 'without decoding a megabyte');
  t.end();
});

void t.test('addressBytes throws an error that names the invalid address', (t) => {
  t.same(addressBytes('11111111111111111111111111111111'), new Uint8Array(32));
  t.throws(() => addressBytes('nonsense0'), { name: 'TypeError', message: /"nonsense0"/ });
  t.throws(() => addressBytes('z'.repeat(44)), TypeError);
  t.end();
});
