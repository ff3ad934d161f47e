// The short soak; the long one is `npm run soak`.
import t from 'tap';
import { afterCancel, type Attempt, isRegistered, type Told } from './verdict.ts';
import { soak } from './soak.ts';

void t.test('four keepers, faults, kill -9 and wallets at random: the books and the chain agree', { timeout: 280_000 }, async (t) => {
  const { result, breaches } = await soak({ seed: 3, keepers: 4, subscriptions: 60, payments: 120, tell: (line) => t.comment(line) });
  t.same(breaches, []);
  t.ok(result.payments.succeeded >= 120);
  t.ok(Object.keys(result.acts).length > 5, 'wallets acted');
  t.ok(Object.keys(result.faults).length >= 10, 'every kind of fault struck');
  for (const [name, holds] of Object.entries(result.invariants)) t.ok(holds, name);
});

const attempt = (createdAt: number): Attempt => ({
  subscriptionPda: 'pda',
  subscriptionId: 's',
  signature: `at ${createdAt}`,
  state: 'landed',
  createdAt,
});
const told = (type: string, at: number): Told => ({ subscriptionId: 's', subscriptionPda: 'pda', type, final: false, at });

void t.test('an attempt signed while a cancel stands is a breach, before it and after a resume it is none', (t) => {
  const cancel = [told('cancel_requested', 100_000), told('subscription_resumed', 200_000)];
  t.same(afterCancel([attempt(99_000), attempt(201_000)], cancel, []), []);
  t.equal(afterCancel([attempt(150_000)], cancel, []).length, 1);
  t.equal(afterCancel([attempt(300_000)], [told('cancel_forced', 100_000)], []).length, 1);
  const turns = [
    { subscriptionPda: 'pda', kind: 'cancelled', notBefore: 99_000, seenAt: 100_000 } as const,
    { subscriptionPda: 'pda', kind: 'resumed', notBefore: 400_000, seenAt: 450_000 } as const,
  ];
  t.same(afterCancel([attempt(110_000), attempt(390_000)], [], turns), [], 'a keeper may not have seen it yet, or have seen the next one');
  t.equal(afterCancel([attempt(150_000)], [], turns).length, 1);
  t.equal(afterCancel([attempt(150_000)], [told('subscription_created', 50_000)], turns).length, 1);
  t.same(
    afterCancel([attempt(150_000)], [told('subscription_created', 149_000)], turns),
    [],
    'registered since: a fork may have taken the opening back',
  );
  t.end();
});

void t.test('a pull counts for a registration while it lives', (t) => {
  const life = [told('subscription_created', 100_000), told('cancel_finalized', 500_000)];
  t.ok(isRegistered({ subscriptionPda: 'pda', seenAt: 300_000 }, life));
  t.notOk(isRegistered({ subscriptionPda: 'pda', seenAt: 90_000 }, life));
  t.notOk(isRegistered({ subscriptionPda: 'pda', seenAt: 600_000 }, life));
  t.notOk(isRegistered({ subscriptionPda: 'another', seenAt: 300_000 }, life));
  t.end();
});
