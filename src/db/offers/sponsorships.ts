// Sponsorships: the decisions of keepers about signed offers. An open sponsorship has a stored
// transaction that a keeper sends and tracks. An open sponsorship with the purpose `subscribe` also
// has an open payment attempt.
import bs58 from 'bs58';
import {
  insertOfferInvoice,
  type Invoice,
  type InvoiceSums,
  readInvoices,
  voidOfferInvoice,
} from '../invoices/invoices.ts';
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { hexOf } from '../postgres/signatures.ts';
import { DECISION_MINUTES, type SponsoredPurpose } from './offers.ts';
import { networkOf } from './signed-offers.ts';

/** The period start and the amounts (base units) of a sponsored sign-up's payment. */
export interface SponsoredPayment {
  periodStart: Date;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  feeOwed: bigint;
}

/** The fields that a sponsorship takes over from its offer. */
export interface SponsorshipTerms {
  offerId: string;
  purpose: SponsoredPurpose;
  wallet: string;
  address: string;
  sponsor: string;
  merchantId: string | null;
  planId: string | null;
  subscriptionPda: string | null;
  checkoutSessionId: string | null;
  /**
   * `replaces`: the subscription that a change of plan replaces. `creditAt`: the chain time at
   * which the credit was computed.
   */
  replaces: string | null;
  creditAt: Date | null;
}

/** A transaction that the sponsor signed, with the maximum cost in lamports (`reserved`). */
export interface NewSponsorship extends SponsorshipTerms {
  claimId: string;
  signature: string;
  transaction: Buffer;
  lastValidBlockHeight: bigint;
  blockhashSlot: bigint;
  reserved: bigint;
  fee: bigint;
  authorityRent: bigint;
  subscriptionRent: bigint;
  /** Whether the transaction counts against the budget of new merchants. */
  merchantIsNew: boolean;
  /** The first payment of a sign-up; null for any other purpose. */
  payment: (SponsoredPayment & { invoice: InvoiceSums }) | null;
}

/**
 * Progress of an open transaction: accepted by an RPC endpoint (`sent`), or at a commitment level.
 */
export type ChainState = 'sent' | 'processed' | 'confirmed';

/** Length of a lease in seconds. No other keeper claims a sponsorship during its lease. */
const LEASE_SECONDS = 10;

/**
 * Takes the lock for storing sponsorships, until this database transaction ends. Without the lock,
 * two keepers could each find enough budget for one more sponsorship and together exceed the
 * budget.
 */
export async function lockSponsoring(tx: Transaction): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended('sponsoring', 2))`;
}

const termsOf = (sql: Queryable, terms: SponsorshipTerms) => sql`
  ${terms.offerId}::uuid, ${terms.purpose}, ${terms.wallet}, ${terms.address}, ${terms.sponsor},
  ${terms.merchantId}::uuid, ${terms.planId}::uuid, ${terms.subscriptionPda},
  (select id from checkout_sessions where id = ${terms.checkoutSessionId}::uuid),
  ${terms.replaces}::uuid, ${terms.creditAt}::timestamptz`;

/**
 * Stores a signed transaction, its sponsorship, and its invoice with a payment attempt. Returns
 * `decided` if a keeper has already decided about the offer, or if the offer was signed ten or more
 * minutes ago. Returns `busy` if the subscription's address has an open attempt. After `decided` or
 * `busy`, the caller must roll back.
 */
export async function insertSponsorship(
  tx: Transaction,
  sponsorship: NewSponsorship,
): Promise<'stored' | 'decided' | 'busy'> {
  const [inserted] = await tx<{ transactionId: string }[]>`
    with committed as (
      insert into transactions (signature, bytes, last_valid_block_height, blockhash_slot)
      values (decode(${hexOf(sponsorship.signature)}, 'hex'), ${sponsorship.transaction},
        ${sponsorship.lastValidBlockHeight}, ${sponsorship.blockhashSlot})
      on conflict (signature) do nothing
      returning id
    )
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, plan_id,
      subscription_pda, checkout_session_id, replaces, credit_at, transaction_id, state, reserved,
      fee, authority_rent, subscription_rent, merchant_is_new, claim_id, lease_until)
    select ${termsOf(tx, sponsorship)}, committed.id, 'open', ${sponsorship.reserved},
      ${sponsorship.fee}, ${sponsorship.authorityRent}, ${sponsorship.subscriptionRent},
      ${sponsorship.merchantIsNew}, ${sponsorship.claimId},
      now() + ${LEASE_SECONDS} * interval '1 second'
    from committed where exists (select from offers o where o.id = ${sponsorship.offerId}
      and o.signed is not null and o.signed_at > now() - ${DECISION_MINUTES} * interval '1 minute')
    on conflict (offer_id) do nothing
    returning transaction_id`;
  if (inserted === undefined) return 'decided';
  const { payment, offerId, planId, subscriptionPda } = sponsorship;
  if (payment === null || planId === null || subscriptionPda === null) return 'stored';
  const { periodStart, amountGross, platformFee, amountNet, feeOwed } = payment;
  const offer = { ...sponsorship, planId, subscriptionPda };
  const invoiceId = await insertOfferInvoice(tx, offer, payment);
  const attempts = await tx`
    insert into payment_attempts (offer_id, invoice_id, subscription_pda, transaction_id, position,
      period_start, claim_id, amount_gross, platform_fee, amount_net, fee_owed)
    values (${offerId}, ${invoiceId}, ${subscriptionPda}, ${inserted.transactionId}, 0,
      ${periodStart}, ${sponsorship.claimId}, ${amountGross}, ${platformFee}, ${amountNet},
      ${feeOwed})
    on conflict (subscription_pda) where state = 'open' do nothing
    returning id`;
  return attempts.length === 1 ? 'stored' : 'busy';
}

/**
 * Records that the offer is refused, and why. If a keeper has already decided about the offer,
 * records nothing and returns false.
 */
export async function refuseSponsorship(
  sql: Queryable,
  terms: SponsorshipTerms,
  reason: string,
): Promise<boolean> {
  const { count } = await sql`
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, plan_id,
      subscription_pda, checkout_session_id, replaces, credit_at, state, reason, ended_at)
    values (${termsOf(sql, terms)}, 'refused', ${reason}, now())
    on conflict (offer_id) do nothing`;
  return count === 1;
}

/**
 * An open sponsorship with its transaction. `claimId` is the claim of the keeper that tracks the
 * transaction.
 */
export interface OpenSponsorship extends SponsorshipTerms {
  claimId: string;
  transactionId: string;
  signature: string;
  transaction: Buffer;
  lastValidBlockHeight: bigint;
  blockhashSlot: bigint;
  fee: bigint;
  authorityRent: bigint;
  subscriptionRent: bigint;
  seen: ChainState | null;
  createdAt: Date;
  /** The payment attempt of a sign-up, with its amounts; null for any other purpose. */
  attempt: SponsoredAttempt | null;
}

/** The open payment attempt of a sign-up. */
export interface SponsoredAttempt extends SponsoredPayment {
  id: string;
  /** It has no subscription, period and cover yet. */
  invoice: Invoice;
}

/** SQL condition: the open sponsorship `o` has no lease, or its lease has expired. */
const isOrphan = (sql: Queryable) => sql`(
  o.state = 'open' and (o.lease_until is null or o.lease_until < now()))`;

/**
 * Claims open sponsorships without a valid lease. Client networks and merchants (without a plan:
 * wallets) take turns: a sponsorship is ordered by its position within its network or its merchant,
 * whichever is later.
 */
export async function claimSponsorships(
  sql: Queryable,
  { claimId, limit }: { claimId: string; limit: number },
): Promise<OpenSponsorship[]> {
  const claimed = await sql<{ offerId: string }[]>`
    with turns as (
      select o.offer_id, row_number() over (partition by ${networkOf(sql)} order by o.offer_id)
          as of_network,
        row_number() over (partition by coalesce(o.merchant_id::text, o.wallet)
          order by o.offer_id) as of_merchant
      from sponsorships o where ${isOrphan(sql)}
    ), orphans as (
      select o.offer_id from sponsorships o where o.offer_id = any(array(
          select offer_id from turns order by greatest(of_network, of_merchant), offer_id
          limit ${limit}))
        and ${isOrphan(sql)} for update skip locked
    )
    update sponsorships s set claim_id = ${claimId},
      lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
    from orphans where s.offer_id = orphans.offer_id
    returning s.offer_id`;
  return readOpenSponsorships(
    sql,
    claimed.map(({ offerId }) => offerId),
  );
}

/**
 * Returns for how many seconds the oldest open sponsorship has had no lease; 0 if all have a lease.
 */
export async function readOldestSponsorship(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(coalesce(o.lease_until, o.created_at))`)} as seconds
    from sponsorships o where ${isOrphan(sql)}`;
  return row?.seconds ?? 0;
}

export async function readOpenSponsorships(
  sql: Queryable,
  offerIds: readonly string[],
): Promise<OpenSponsorship[]> {
  if (offerIds.length === 0) return [];
  const rows = await sql<
    (Omit<OpenSponsorship, 'signature' | 'attempt'> & {
      signature: Buffer;
      attemptId: string | null;
      invoiceId: string;
    } & SponsoredPayment)[]
  >`
    select s.offer_id, s.purpose, s.wallet, s.address, s.sponsor, s.merchant_id, s.plan_id,
      s.subscription_pda, s.checkout_session_id, s.replaces, s.credit_at, s.claim_id, s.transaction_id, s.fee,
      s.authority_rent, s.subscription_rent, s.seen, s.created_at, t.signature,
      t.bytes as transaction, t.last_valid_block_height, t.blockhash_slot, a.id as attempt_id,
      a.invoice_id, a.period_start, a.amount_gross, a.platform_fee, a.amount_net, a.fee_owed
    from sponsorships s join transactions t on t.id = s.transaction_id
      left join payment_attempts a on a.offer_id = s.offer_id and a.state = 'open'
    where s.offer_id = any(${[...offerIds]}::uuid[]) and s.state = 'open'`;
  const signUps = rows.filter(({ attemptId }) => attemptId !== null);
  const invoiceOf = await readInvoices(
    sql,
    signUps.map(({ invoiceId }) => invoiceId),
  );
  return rows.map(({ signature, attemptId: id, invoiceId, ...row }) => {
    const { periodStart, amountGross, platformFee, amountNet, feeOwed, ...rest } = row;
    const amounts = { periodStart, amountGross, platformFee, amountNet, feeOwed };
    const attempt = id === null ? null : { id, ...amounts, invoice: invoiceOf(invoiceId) };
    return { ...rest, signature: bs58.encode(signature), attempt };
  });
}

/** Renews the leases of this claim. Returns the offer ids of the renewed leases. */
export async function renewSponsorships(
  sql: Queryable,
  claimId: string,
  offerIds: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ offerId: string }[]>`
    update sponsorships set lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
    where offer_id = any(${[...offerIds]}::uuid[]) and claim_id = ${claimId} and state = 'open'
    returning offer_id`;
  return new Set(rows.map(({ offerId }) => offerId));
}

/** Ends the leases of a claim, so that another keeper can claim the sponsorships at once. */
export async function releaseSponsorships(sql: Queryable, claimId: string): Promise<void> {
  await sql`
    update sponsorships set claim_id = null, lease_until = null
    where claim_id = ${claimId} and state = 'open'`;
}

/** Records how far the transaction has come. */
export async function markSeen(sql: Queryable, offerId: string, seen: ChainState): Promise<void> {
  await sql`update sponsorships set seen = ${seen} where offer_id = ${offerId} and state = 'open'`;
}

/**
 * Deletes at most 1,000 network addresses that are older than two days. The budgets need the
 * addresses of the last 24 hours only.
 */
export async function forgetAddresses(sql: Queryable): Promise<void> {
  await sql`
    update sponsorships set address = '' where offer_id in (
      select offer_id from sponsorships
        where address <> '' and created_at < now() - interval '2 days'
        order by created_at limit 1000
    )`;
}

/**
 * Locks an open sponsorship until the database transaction ends. Returns false if the sponsorship
 * is no longer open.
 */
export async function lockOpenSponsorship(tx: Transaction, offerId: string): Promise<boolean> {
  const rows = await tx`
    select 1 from sponsorships where offer_id = ${offerId} and state = 'open' for update`;
  return rows.length === 1;
}

/**
 * Ends an open sponsorship, and closes its invoice if no payment has. If the transaction failed,
 * the rent becomes 0. If the transaction expired, the rent and the fee become 0. The caller must
 * hold the sponsorship's lock.
 */
export async function endSponsorship(
  tx: Transaction,
  { offerId, purpose }: Pick<SponsorshipTerms, 'offerId' | 'purpose'>,
  end: {
    state: 'landed' | 'failed' | 'expired';
    reason: string | null;
    subscriptionId?: string | undefined;
  },
): Promise<void> {
  const { state, reason, subscriptionId = null } = end;
  if (state === 'landed') await returnEarlier(tx, offerId);
  await voidOfferInvoice(tx, offerId);
  const [ended] = await tx<{ transactionId: string }[]>`
    update sponsorships set state = ${state}, reason = ${reason}, seen = null,
      subscription_id = ${subscriptionId}, ended_at = now(), claim_id = null, lease_until = null,
      fee = case when ${state} = 'expired' then 0 else fee end,
      authority_rent = case when ${state} = 'landed' then authority_rent else 0 end,
      subscription_rent = case when ${state} = 'landed' then subscription_rent else 0 end
    where offer_id = ${offerId} and state = 'open'
    returning transaction_id`;
  // The transaction of a sign-up belongs to a payment attempt, and resolveAttempts
  // (payment-attempts.ts) ends that transaction.
  if (ended !== undefined && purpose !== 'subscribe')
    await tx`
      update transactions set bytes = null, state = ${state} where id = ${ended.transactionId}
        and state = 'open'`;
}

/**
 * Marks the rent of the wallet's earlier sponsorships as returned. If this sponsorship closed an
 * account, the rent of that account came back. If this sponsorship opened an account, an earlier
 * account at the same address must have been closed, so the rent of the earlier account came back.
 */
async function returnEarlier(tx: Transaction, offerId: string): Promise<void> {
  await tx`
    update sponsorships e set
      subscription_returned_at = case when (s.subscription_rent > 0 or s.purpose = 'close')
        and e.subscription_pda = s.subscription_pda and e.subscription_rent > 0
        then coalesce(e.subscription_returned_at, now()) else e.subscription_returned_at end,
      authority_returned_at = case when s.authority_rent > 0 and e.authority_rent > 0
        then coalesce(e.authority_returned_at, now()) else e.authority_returned_at end
    from sponsorships s
    where s.offer_id = ${offerId} and e.wallet = s.wallet and e.offer_id <> s.offer_id
      and e.state = 'landed' and e.created_at < s.created_at`;
}

/**
 * Returns whether a sponsored sign-up at this address is open. If so, the caller must not register
 * the subscription: a keeper registers it with its payment when the sign-up lands.
 */
export async function isSignupOpen(sql: Queryable, subscriptionPda: string): Promise<boolean> {
  const rows = await sql`
    select 1 from payment_attempts
    where subscription_pda = ${subscriptionPda} and state = 'open' and offer_id is not null`;
  return rows.length > 0;
}

/** The stored progress of an offer: the keeper's decision, and how far the transaction has come. */
export interface SponsoredProgress {
  id: string;
  purpose: SponsoredPurpose;
  signedAt: Date | null;
  /**
   * True if no decision about the offer is stored and the time limit for a decision ended at least
   * a minute ago. The extra minute is needed because a keeper may commit a decision shortly after
   * the time limit.
   */
  isOverdue: boolean;
  state: 'refused' | 'open' | 'landed' | 'failed' | 'expired' | null;
  seen: ChainState | null;
  reason: string | null;
  subscriptionId: string | null;
  signature: string | null;
}

export async function readSponsoredProgress(
  sql: Queryable,
  offerIds: readonly string[],
): Promise<SponsoredProgress[]> {
  const rows = await sql<(Omit<SponsoredProgress, 'signature'> & { signature: Buffer | null })[]>`
    select o.id, o.purpose, o.signed_at, s.offer_id is null
        and coalesce(o.signed_at <= now() - ${DECISION_MINUTES + 1} * interval '1 minute', false)
        as is_overdue,
      s.state, s.seen, s.reason, s.subscription_id, t.signature
    from offers o left join sponsorships s on s.offer_id = o.id
      left join transactions t on t.id = s.transaction_id
    where o.id = any(${[...offerIds]}::uuid[]) and o.sponsor is not null`;
  return rows.map(({ signature, ...progress }) => ({
    ...progress,
    signature: signature === null ? null : bs58.encode(signature),
  }));
}
