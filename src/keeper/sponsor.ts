// Decides about signed offers. Sends, polls and settles the committed transactions. When a keeper
// stops, other keepers take over its transactions.
//
//   signed offer --decide--> refused
//   signed offer --decide, commit--> open --send, poll--> final: landed | failed
//   open, never seen --blockhash expired at every endpoint--> expired
//   open --lease expired--> followed by another keeper
import { randomUUID } from 'node:crypto';
import { RpcError, RpcUnreachable } from '../chain/rpc/errors.ts';
import type { SignatureStatus } from '../chain/rpc/responses.ts';
import { readSignedOffers } from '../db/sponsored-offers.ts';
import {
  claimSponsorships,
  markSeen,
  type OpenSponsorship,
  readOpenSponsorships,
  releaseSponsorships,
  renewSponsorships,
} from '../db/sponsorships.ts';
import { each } from '../each.ts';
import { isFaulty } from './claim.ts';
import type { Context } from './context.ts';
import { findDead } from './dead.ts';
import { decideOffer } from './sponsor-decide.ts';
import { settleExpired, settleFailed, settleLanded } from './sponsor-settle.ts';

/** Maximum number of offers about which one turn decides. */
const OFFERS = 50;
/** Maximum number of concurrent decisions or sends. Decisions commit one after another anyway. */
const AT_ONCE = 8;
/** Maximum number of open transactions that one keeper follows. */
const MAX_FOLLOWED = 200;
const [FOLLOWING_MS, IDLE_MS] = [250, 5000];
const FAULT_PAUSE_MS = 60_000;
const [RESEND_MS, RENEW_MS, ORPHANS_MS, EXPIRY_MS] = [2000, 3000, 3000, 2000];

/** An open transaction. Times are milliseconds of performance.now(). */
interface Followed {
  readonly one: OpenSponsorship;
  sentAt: number;
  settleAt: number;
  status: SignatureStatus | null;
  seen: 'processed' | 'confirmed' | null;
}

export class Sponsor {
  readonly #context: Context;
  /** The id of this keeper's claims. */
  readonly #claimId = randomUUID();
  readonly #followed = new Map<string, Followed>();
  #renewedAt = -Infinity;
  #orphansAt = -Infinity;
  #expiryAt = -Infinity;

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * Runs one turn. Decides about new offers only if `maySign` is true. Follows committed
   * transactions in any case. Throws if the chain or the database is unreachable.
   */
  async turn(maySign: boolean): Promise<boolean> {
    await this.#takeOver();
    if (maySign) await this.#decide();
    if (this.#followed.size === 0) return false;
    await this.#renew();
    await this.#poll();
    await this.#send();
    await this.#settle();
    await this.#expire();
    return false;
  }

  waitMs(): number {
    return this.#followed.size > 0 ? FOLLOWING_MS : IDLE_MS;
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
          sentAt: -Infinity,
          settleAt: -Infinity,
          status: null,
          seen: one.seen,
        });
  }

  async #takeOver(): Promise<void> {
    const limit = MAX_FOLLOWED - this.#followed.size;
    if (limit <= 0 || performance.now() - this.#orphansAt < ORPHANS_MS) return;
    this.#orphansAt = performance.now();
    this.#follow(await claimSponsorships(this.#context.sql, { claimId: this.#claimId, limit }));
  }

  async #decide(): Promise<void> {
    const { sql, sponsoring: limits, keypairs } = this.#context;
    const limit = Math.min(OFFERS, MAX_FOLLOWED - this.#followed.size);
    if (limits === undefined || limit <= 0) return;
    const offers = await readSignedOffers(sql, { sponsors: [...keypairs.keys()], limit });
    await each(offers, AT_ONCE, async (offer) => {
      if (await decideOffer(this.#context, limits, offer, this.#claimId)) {
        this.#follow(await readOpenSponsorships(sql, [offer.id]));
        await this.#send();
      }
    });
  }

  async #renew(): Promise<void> {
    if (performance.now() - this.#renewedAt < RENEW_MS) return;
    this.#renewedAt = performance.now();
    const ids = [...this.#followed.keys()];
    const kept = await renewSponsorships(this.#context.sql, this.#claimId, ids);
    for (const id of ids) if (!kept.has(id)) this.#followed.delete(id);
  }

  async #send(): Promise<void> {
    const { rpc, metrics, log } = this.#context;
    const now = performance.now();
    const unseen = [...this.#followed.values()].filter(
      ({ status, sentAt }) => status === null && now - sentAt >= RESEND_MS,
    );
    await each(unseen, AT_ONCE, async (followed) => {
      const isFirst = followed.sentAt === -Infinity;
      followed.sentAt = performance.now();
      try {
        await rpc.sendTransaction(followed.one.transaction);
        metrics.sends.inc({ outcome: isFirst ? 'first' : 'again' });
      } catch (error) {
        // The network may have the transaction despite the error. A later turn polls its status,
        // and sends the transaction again if it has no status.
        if (!(error instanceof RpcError || error instanceof RpcUnreachable)) throw error;
        metrics.sends.inc({ outcome: 'failed' });
        const { signature } = followed.one;
        log.warn({ err: error, signature }, 'sponsored transaction not sent');
      }
    });
  }

  async #poll(): Promise<void> {
    const { rpc, sql } = this.#context;
    const followed = [...this.#followed.values()];
    const signatures = followed.map(({ one }) => one.signature);
    const { statuses } = await rpc.getSignatureStatuses(signatures, { history: true });
    for (const [place, one] of followed.entries()) {
      one.status = statuses[place] ?? null;
      const commitment = one.status?.commitment;
      const seen = commitment === 'finalized' ? 'confirmed' : (commitment ?? null);
      if (seen === null || seen === one.seen || one.seen === 'confirmed') continue;
      one.seen = seen;
      await markSeen(sql, one.one.offerId, seen);
    }
  }

  async #settle(): Promise<void> {
    const now = performance.now();
    for (const followed of [...this.#followed.values()]) {
      const { one, status } = followed;
      if (status?.commitment !== 'finalized' || now < followed.settleAt) continue;
      try {
        if (status.err === null) await settleLanded(this.#context, one, status);
        else await settleFailed(this.#context, one, status.err);
        this.#followed.delete(one.offerId);
      } catch (error) {
        if (!isFaulty(error)) throw error;
        this.#fault(followed, error);
      }
    }
  }

  /**
   * Delays the next attempt to settle the transaction, so that it does not block other
   * transactions.
   */
  #fault(followed: Followed, error: unknown): void {
    const { log, metrics } = this.#context;
    followed.settleAt = performance.now() + FAULT_PAUSE_MS;
    metrics.alerts.inc({ reason: 'cannot_be_settled' });
    const { offerId: offer, signature } = followed.one;
    log.error({ err: error, offer, signature }, 'sponsored transaction cannot be settled');
  }

  async #expire(): Promise<void> {
    if (performance.now() - this.#expiryAt < EXPIRY_MS) return;
    this.#expiryAt = performance.now();
    const unseen = [...this.#followed.values()].filter(({ status }) => status === null);
    if (unseen.length === 0) return;
    // With an amount of 0, findDead waits until two endpoints confirm the expiry, if two are
    // configured.
    const mortal = unseen.map(({ one }) => ({
      one,
      attempt: { ...one, amountGross: 0n },
      row: { amount: 0n },
    }));
    const { dead, slot } = await findDead(this.#context.rpc, mortal);
    for (const { one } of dead) {
      await settleExpired(this.#context, one, slot);
      this.#followed.delete(one.offerId);
    }
  }
}
