// What must hold after a random walk: books against the chain, and rules that no single act can
// break. Each check returns what is wrong, in words.
import bs58 from 'bs58';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { creditedPart, isTimeTaken, refundedThrough } from '../../src/db/invoices/notes.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { planPullsIn } from '../../src/domain/collecting/differences.ts';
import type { Stage } from '../fixtures/billing.ts';
import { afterTheEnd, revived } from '../fixtures/ends.ts';
import type { Walk } from './party.ts';

const FAR = new Date('2200-01-01');
const PAGE = 1000;

/** Judges the walk; its keepers have done what was due, and are stopped. */
export async function judge(walk: Walk): Promise<string[]> {
  const { stage, alerts, breaches } = walk;
  const checks: Record<string, Promise<string[]>> = {
    creditsAddUp: creditFaults(stage),
    creditedTimeHasEnded: creditedTime(stage),
    reconcile: differences(stage),
    noPullTwice: pullsTwice(stage),
    noTimeChargedTwice: chargedTwice(stage),
    nothingAfterTheEnd: afterTheEnd(stage.sql),
    whatEndedStaysEnded: revived(stage.sql, walk),
    givenBackOnce: givenBackTwice(stage),
  };
  const found = [...breaches, ...Object.entries(alerts).map(([reason]) => `noAlerts: ${reason}`)];
  for (const [name, check] of Object.entries(checks))
    for (const breach of await check) found.push(`${name}: ${breach}`);
  return found;
}

const creditFaults = async ({ sql }: Stage) =>
  (await listCreditFaults(sql)).map(({ customerId, detail }) => `${customerId}: ${detail}`);

/** Registrations that are paid by a payment whose rest became credit, and by no other. */
async function creditedTime({ sql }: Stage): Promise<string[]> {
  const rows = await sql<{ id: string; payment: string }[]>`
    select s.id, p.id as payment
    from subscriptions s join subscription_work w on w.subscription_id = s.id
      join payments p using (subscription_pda)
    where ${isTimeTaken(sql)} and p.period_end = w.paid_through
      and s.replaces is null and s.replaced_by is null
      and ${refundedThrough(sql)} is distinct from w.paid_through and not exists (
        select from payments other where other.subscription_pda = s.subscription_pda
          and other.period_end = w.paid_through and other.status = 'succeeded'
          and not other.further and not exists (select from credit_notes n
            where n.payment_id = other.id and n.takes_time_from is not null))`;
  return rows.map(({ id, payment }) => `${id} has the time of ${payment}`);
}

async function differences({ sql, rpc, net, keeper }: Stage): Promise<string[]> {
  const reconciler = { sql, rpc, programId: net.programId, keepers: [keeper.address] };
  const found = await reconcile(reconciler, { since: new Date(0), until: FAR, repair: false });
  return found.differences.map(({ kind, detail }) => `${kind}: ${detail}`);
}

/** Pulls of the keeper: each has its attempt, and an on-chain period has one. */
async function pullsTwice({ sql, rpc, net, keeper, treasury }: Stage): Promise<string[]> {
  const parties = {
    ...{ programId: net.programId, keepers: [keeper.address], treasuries: [treasury.address] },
  };
  const attempts = new Set(
    (
      await sql<{ key: string }[]>`
        select encode(t.signature, 'hex') || a.subscription_pda || a.amount_gross as key
        from payment_attempts a join transactions t on t.id = a.transaction_id`
    ).map(({ key }) => key),
  );
  const wrong: string[] = [];
  const seen = new Map<string, string>();
  for (const { signature, err } of await listed(rpc, keeper.address)) {
    if (err !== null) continue;
    const transaction = await rpc.getTransaction(signature, { commitment: 'finalized' });
    const pulls = 'unreadable' in transaction ? transaction : planPullsIn(transaction, parties);
    if ('unreadable' in pulls) {
      wrong.push(`unreadable: ${signature}`);
      continue;
    }
    for (const { subscriptionPda, pull } of pulls) {
      if (pull.source !== 'keeper') continue;
      const hex = Buffer.from(bs58.decode(signature)).toString('hex');
      if (!attempts.has(`${hex}${subscriptionPda}${pull.gross}`))
        wrong.push(`${pull.gross} was pulled without such an attempt: ${signature}`);
      const period = `${subscriptionPda} ${pull.periodStart}`;
      const first = seen.get(period);
      if (first !== undefined) wrong.push(`${period} was pulled by ${first} and ${signature}`);
      seen.set(period, signature);
    }
  }
  return wrong;
}

async function listed(rpc: Stage['rpc'], address: string) {
  const found = [];
  for (let before: string | undefined; ;) {
    const options = { before, limit: PAGE, commitment: 'finalized' } as const;
    const page = await rpc.getSignaturesForAddress(address, options);
    found.push(...page);
    before = page.at(-1)?.signature;
    if (page.length < PAGE) return found;
  }
}

/**
 * Charged parts of payments of one account that overlap. The part of a payment whose rest became
 * credit ends when its subscription was replaced, which may be before the part begins.
 */
async function chargedTwice({ sql }: Stage): Promise<string[]> {
  const rows = await sql<{ id: string; other: string; pda: string; from: Date; to: Date }[]>`
    with parts as (
      select p.id, p.subscription_pda as pda, coalesce(i.covers_from, p.period_start) as starts_at,
        case when not ${isTimeTaken(sql)} then p.period_end else least(p.period_end, (
          select min(r.replaced_at) from subscriptions r
          where r.subscription_pda = p.subscription_pda and r.replaced_at >= p.occurred_at
        )) end as ends_at, s.chain_init_id as init,
        extract(epoch from s.chain_period_start)::int8 % (s.period_hours * 3600) as phase
      from payments p join subscriptions s on s.id = p.subscription_id
        left join invoices i on i.id = p.invoice_id
      where p.status = 'succeeded' and not p.further
    )
    select a.id, b.id as other, a.pda, greatest(a.starts_at, b.starts_at) as from,
      least(a.ends_at, b.ends_at) as to
    from parts a join parts b using (pda, init, phase)
    where a.id < b.id and greatest(a.starts_at, b.starts_at) < least(a.ends_at, b.ends_at)`;
  return rows.map(
    ({ id, other, pda, from, to }) =>
      `${from.toISOString()} to ${to.toISOString()} of ${pda} by ${id} and ${other}`,
  );
}

/** Payments of which more was refunded and credited than was paid. */
async function givenBackTwice({ sql }: Stage): Promise<string[]> {
  const rows = await sql<{ id: string; refunded: bigint; credited: bigint }[]>`
    select p.id, p.amount_refunded as refunded, ${creditedPart(sql)} as credited
    from payments p join invoices i on i.id = p.invoice_id
    where p.amount_refunded + ${creditedPart(sql)} > i.total`;
  return rows.map(
    ({ id, refunded, credited }) => `payment ${id}: ${refunded} refunded, ${credited} credited`,
  );
}
