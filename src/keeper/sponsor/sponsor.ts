// Decides about signed offers. Sends, polls and settles the committed transactions. When a keeper
// stops, other keepers take over its transactions.
//
// Several loops decide, each about one offer at a time, so that an offer whose turn it is waits for
// one decision at most. One loop follows the committed transactions.
//
//   signed offer --decide--> refused, or put off (its look_at)
//   signed offer, undecided for ten minutes --> refused as lapsed
//   signed offer --decide, commit--> open --send, poll--> final: landed | failed
//   open, never seen or not final --blockhash expired--> expired
//   open --lease expired--> followed by another keeper
//
// tracker.ts cannot follow these transactions, because it follows payments of subscription rows.
// A sign-up has no row before it is settled, and a cancellation or closing has no payment.
import { randomUUID } from 'node:crypto';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { judgeLandings } from '../../chain/rpc/landing.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import { lapseOffers, putOffOffer, takeSignedOffer } from '../../db/offers/signed-offers.ts';
import {
  claimSponsorships,
  markSeen,
  type OpenSponsorship,
  readOpenSponsorships,
  releaseSponsorships,
  renewSponsorships,
  type Seen,
} from '../../db/offers/sponsorships.ts';
import { PaymentUnderWay } from '../../domain/registration/plan-credit.ts';
import { each } from '../../each.ts';
import type { Context } from '../base/context.ts';
import { isFaulty } from '../base/split-batch.ts';
import type { KeeperTimes } from '../base/times.ts';
import { soughtOf } from '../read/dead.ts';
import { isOverdue } from '../track/poll-schedule.ts';
import { decideOffer, type Decision } from './decide.ts';
import { settleExpired, settleFailed, settleLanded } from './settle.ts';

/** Number of loops that decide about offers, each about one at a time. */
export const DECIDERS = 8;
/** Maximum number of concurrent sends. */
const AT_ONCE = 8;
/** Maximum number of open transactions that one keeper follows. */
const MAX_FOLLOWED = 200;

/** An open transaction. Times are milliseconds of performance.now(). */
interface Followed {
  readonly one: OpenSponsorship;
  readonly takenAt: number;
  sentAt: number;
  polledAt: number;
  settleAt: number;
  status: SignatureStatus | null;
  /** The state that the database has recorded; null before the first send. */
  seen: Seen | null;
}

export class Sponsor {
  readonly #context: Context;
  readonly #times: KeeperTimes['sponsor'];
  readonly #onLanded: () => void;
  readonly #claimId = randomUUID();
  readonly #followed = new Map<string, Followed>();
  #putOffAt = -Infinity;
  #renewedAt = -Infinity;
  #orphansAt = -Infinity;
  #expiryAt = -Infinity;
  #lapseAt = -Infinity;

  /**
   * `onLanded` is called after a landed transaction was settled, because subscriptions may then be
   * due: the new subscription, or one that a change of plan has replaced.
   */
  constructor(context: Context, onLanded: () => void) {
    this.#context = context;
    this.#times = context.times.sponsor;
    this.#onLanded = onLanded;
  }

  /**
   * Follows the committed transactions for one turn. Throws if the chain or the database is
   * unreachable.
   */
  async turn(): Promise<boolean> {
    await this.#takeOver();
    await this.#lapse();
    if (this.#followed.size === 0) return false;
    await this.#renew();
    await this.#poll();
    await this.#send();
    await this.#settle();
    await this.#expire();
    return false;
  }

  /**
   * Decides about the offer whose turn it is. Resolves with false if no offer is due. Throws if the
   * chain or the database is unreachable: the offer is then put off.
   */
  async decide(): Promise<boolean> {
    const { sql, sponsoring: limits, keypairs, metrics } = this.#context;
    if (limits === undefined || this.#followed.size >= MAX_FOLLOWED) return false;
    const sponsors = [...keypairs.keys()];
    const offer = await sql.begin((tx) => takeSignedOffer(tx, sponsors));
    if (offer === undefined) return false;
    let decision: Decision = 'later';
    try {
      decision = await decideOffer(this.#context, limits, offer, this.#claimId);
    } finally {
      metrics.sponsor.decisions.inc({ decision });
      if (decision === 'later') await this.#putOff(offer.id);
    }
    if (decision !== 'committed') return true;
    this.#follow(await readOpenSponsorships(sql, [offer.id]));
    await this.#send();
    return true;
  }

  async #putOff(offerId: string): Promise<void> {
    this.#putOffAt = performance.now();
    await putOffOffer(this.#context.sql, offerId);
  }

  waitMs(): number {
    const { followingMs, idleMs } = this.#times;
    return this.#followed.size > 0 ? followingMs : idleMs;
  }

  /** Milliseconds between two looks for an offer to decide about, while none is due. */
  decideWaitMs(): number {
    const { putOffMs, putOffForMs, idleMs } = this.#times;
    return performance.now() - this.#putOffAt < putOffForMs ? putOffMs : idleMs;
  }

  /**
   * Ends the leases, so that other keepers follow the transactions. Call this after the last turn.
   */
  async stop(): Promise<void> {
    if (this.#followed.size > 0) await releaseSponsorships(this.#context.sql, this.#claimId);
    this.#followed.clear();
  }

  #follow(some: readonly OpenSponsorship[]): void {
    for (const one of some)
      if (!this.#followed.has(one.offerId))
        this.#followed.set(one.offerId, {
          one,
          takenAt: performance.now(),
          sentAt: -Infinity,
          polledAt: -Infinity,
          settleAt: -Infinity,
          status: null,
          seen: one.seen,
        });
  }

  async #takeOver(): Promise<void> {
    const limit = MAX_FOLLOWED - this.#followed.size;
    if (limit <= 0 || performance.now() - this.#orphansAt < this.#times.orphansMs) return;
    this.#orphansAt = performance.now();
    this.#follow(await claimSponsorships(this.#context.sql, { claimId: this.#claimId, limit }));
  }

  async #lapse(): Promise<void> {
    if (performance.now() - this.#lapseAt < this.#times.lapseMs) return;
    this.#lapseAt = performance.now();
    const offers = await lapseOffers(this.#context.sql);
    if (offers > 0) this.#context.log.warn({ offers }, 'signed offers lapsed undecided');
  }

  async #renew(): Promise<void> {
    if (performance.now() - this.#renewedAt < this.#times.renewMs) return;
    this.#renewedAt = performance.now();
    const ids = [...this.#followed.keys()];
    const kept = await renewSponsorships(this.#context.sql, this.#claimId, ids);
    for (const id of ids) if (!kept.has(id)) this.#followed.delete(id);
  }

  async #send(): Promise<void> {
    const { rpc, metrics, log } = this.#context;
    const now = performance.now();
    const unseen = [...this.#followed.values()].filter(
      ({ status, sentAt }) => status === null && now - sentAt >= this.#context.times.send.resendMs,
    );
    await each(unseen, AT_ONCE, async (followed) => {
      const isFirst = followed.sentAt === -Infinity;
      followed.sentAt = performance.now();
      try {
        await rpc.sendTransaction(followed.one.transaction);
        if (followed.seen === null) await this.#see(followed, 'sent');
        metrics.sends.inc({ outcome: isFirst ? 'first' : 'again' });
      } catch (error) {
        // The transaction may have reached the network despite the error. A later turn polls its
        // status, and resends it if it has no status.
        if (!(error instanceof RpcError || error instanceof RpcUnreachable)) throw error;
        metrics.sends.inc({ outcome: 'failed' });
        const { signature } = followed.one;
        log.warn({ err: error, signature }, 'sponsored transaction not sent');
      }
    });
  }

  async #poll(): Promise<void> {
    const { rpc } = this.#context;
    const now = performance.now();
    const followed = [...this.#followed.values()].filter(
      ({ status, seen, polledAt }) =>
        status?.commitment !== 'finalized' &&
        (seen !== 'confirmed' || now - polledAt >= this.#times.confirmedMs),
    );
    if (followed.length === 0) return;
    const signatures = followed.map(({ one }) => one.signature);
    const { statuses, slot } = await rpc.getSignatureStatuses(signatures, { history: true });
    for (const [place, one] of followed.entries()) {
      const [before, found] = [one.status, statuses[place] ?? null];
      // With a doubted failure, the transaction counts as unseen.
      const status = found?.isDoubted === true ? null : found;
      one.polledAt = now;
      // This endpoint lags behind the endpoint that saw the transaction, so its answer is ignored.
      if (status === null && before !== null && slot < before.slot) continue;
      one.status = status;
      if (status !== null) await this.#see(one, seenOf(status, before, one.seen));
      else if (one.seen !== null) {
        // A fork has dropped the transaction's block, so the transaction is sent again at once.
        if (one.seen !== 'sent') one.sentAt = now - this.#context.times.send.resendMs;
        await this.#see(one, 'sent');
      }
    }
  }

  /** Records the transaction's state. The subscriber pages show this state. */
  async #see(followed: Followed, seen: Seen): Promise<void> {
    if (followed.seen === seen) return;
    await markSeen(this.#context.sql, followed.one.offerId, seen);
    followed.seen = seen;
  }

  async #settle(): Promise<void> {
    const now = performance.now();
    for (const followed of [...this.#followed.values()]) {
      const { one, status } = followed;
      if (status?.commitment !== 'finalized' || now < followed.settleAt) continue;
      await this.#end(followed, async () => {
        if (status.err === null) {
          await settleLanded(this.#context, one, status);
          this.#onLanded();
        } else await settleFailed(this.#context, one, status.err);
      });
    }
  }

  /**
   * Settles a transaction and follows it no longer. A transaction that cannot be settled now is
   * tried again later, so that it does not hold up the others.
   */
  async #end(followed: Followed, settle: () => Promise<void>): Promise<void> {
    try {
      await settle();
      this.#followed.delete(followed.one.offerId);
    } catch (error) {
      // A payment of the replaced subscription is open. That payment is settled first.
      if (error instanceof PaymentUnderWay)
        followed.settleAt = performance.now() + this.#times.confirmedMs;
      else if (isFaulty(error)) this.#fault(followed, error);
      else throw error;
    }
  }

  /** Waits before the next try to settle this transaction. */
  #fault(followed: Followed, error: unknown): void {
    const { log, metrics } = this.#context;
    followed.settleAt = performance.now() + this.#times.faultMs;
    // The endpoint that showed it as final may be wrong, so its status is polled again.
    followed.status = null;
    metrics.alerts.inc({ reason: 'cannot_be_settled' });
    const { offerId: offer, signature } = followed.one;
    log.error({ err: error, offer, signature }, 'sponsored transaction cannot be settled');
  }

  async #expire(): Promise<void> {
    if (performance.now() - this.#expiryAt < this.#times.expiryMs) return;
    this.#expiryAt = performance.now();
    const now = performance.now();
    const judged = [...this.#followed.values()].filter(
      (one) =>
        now >= one.settleAt &&
        (one.status === null || isOverdue(one, now, this.#context.times.poll.overdueMs)),
    );
    if (judged.length === 0) return;
    const sought = judged.map((followed) => ({ followed, ...soughtOf(followed.one, true) }));
    for (const [{ followed }, landing] of await judgeLandings(this.#context.rpc, sought)) {
      const { verdict, status, expiredAt } = landing;
      // A poll asks one endpoint, which may lack the transaction. Here every endpoint was asked.
      if (verdict === 'landed') followed.status = status;
      if (verdict !== 'dead' || expiredAt === null) continue;
      await this.#end(followed, async () => {
        if (await settleExpired(this.#context, followed.one, expiredAt)) this.#onLanded();
      });
    }
  }
}

/**
 * Returns the transaction's state for the subscriber pages. A confirmed transaction stays confirmed
 * while a lagging endpoint still shows its block as processed.
 */
function seenOf(status: SignatureStatus, before: SignatureStatus | null, seen: Seen | null): Seen {
  if (status.commitment !== 'processed') return 'confirmed';
  return seen === 'confirmed' && before?.slot === status.slot ? 'confirmed' : 'processed';
}
