// Decides about signed offers and follows the committed transactions (track/follower.ts). When a
// keeper stops, other keepers take over its transactions.
//
// Several loops decide, each about one offer at a time, so that the next offer waits for at most
// one decision. One loop follows the committed transactions.
//
//   signed offer --decide--> refused, or put off (its look_at)
//   signed offer, undecided for ten minutes --> refused as lapsed
//   signed offer --decide, commit--> open --send, poll--> final: landed | failed
//   open, never seen or not final --blockhash expired--> expired
//   open --lease expired--> followed by another keeper
//
// The tracker follows payments of subscription rows. A sign-up has no row before it is settled.
import { randomUUID } from 'node:crypto';
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
  type ChainState,
} from '../../db/offers/sponsorships.ts';
import { PaymentUnderWay } from '../../domain/registration/plan-credit.ts';
import { each } from '../../each.ts';
import type { Loop } from '../../loop.ts';
import type { Context } from '../base/context.ts';
import { isFaulty } from '../base/split-batch.ts';
import type { KeeperTimes } from '../base/times.ts';
import { soughtOf } from '../read/dead.ts';
import { Follower, track, type Tracked } from '../track/follower.ts';
import { sendOnce } from '../track/send.ts';
import { decideOffer, type Decision } from './decide.ts';
import { settleExpired, settleFailed, settleLanded } from './settle.ts';

/** Number of loops that decide about offers, each about one at a time. */
const DECIDERS = 8;
/** Maximum number of concurrent sends. */
const AT_ONCE = 8;
/** Maximum number of open transactions that one keeper follows. */
const MAX_FOLLOWED = 200;

/** An open transaction. */
interface Sponsored extends Tracked {
  readonly signed: OpenSponsorship;
  /** The state that the database has recorded; null before the first send. */
  seen: ChainState | null;
}

export class Sponsor {
  readonly #context: Context;
  readonly #times: KeeperTimes['sponsor'];
  readonly #onLanded: () => void;
  readonly #claimId = randomUUID();
  /** The open transactions by signature. */
  readonly #followed = new Map<string, Sponsored>();
  readonly #follower: Follower<Sponsored>;
  #putOffAt = -Infinity;
  #orphansAt = -Infinity;
  #lapseAt = -Infinity;
  #deciding: readonly Loop[] = [];

  /** Sets the newest root slot that the stream reported (track/follower.ts). */
  readonly rooted = (slot: bigint) => this.#follower.rooted(slot);

  /**
   * `onLanded` is called after a landed transaction was settled. Subscriptions may then be due: the
   * new subscription, or the subscription that a change of plan has replaced.
   */
  constructor(context: Context, onLanded: () => void) {
    const { send, poll, settle, sponsor } = context.times;
    [this.#context, this.#times, this.#onLanded] = [context, sponsor, onLanded];
    const times = {
      send,
      poll: { ...poll, ...sponsor.poll },
      settle: { ...settle, ...sponsor.settle },
    };
    this.#follower = new Follower(context.rpc, times, {
      transactions: this.#followed,
      renew: (old) => this.#renew(old),
      seen: (one) => this.#recordPolled(one),
      settle: (final) => this.#settle(final),
      expire: (expired) => this.#expire(expired),
    });
  }

  /** Starts the loops with `start`. They decide about offers only while `maySign` returns true. */
  start(
    maySign: () => boolean,
    start: (name: string, idleMs: () => number, turn: () => Promise<boolean>) => Loop,
  ): readonly Loop[] {
    const { followingMs, idleMs, putOffMs, putOffForMs } = this.#times;
    const followMs = () => (this.#followed.size > 0 ? followingMs : idleMs);
    const following = start('sponsoring', followMs, () => this.turn());
    const decide = async () => {
      const decided = maySign() && (await this.decide());
      if (decided) following.wake();
      return decided;
    };
    // For `putOffForMs` after this keeper postponed an offer, an idle loop looks again sooner.
    const decideMs = () => (performance.now() - this.#putOffAt < putOffForMs ? putOffMs : idleMs);
    this.#deciding = Array.from({ length: DECIDERS }, () =>
      start('deciding on sponsorships', decideMs, decide),
    );
    return [following, ...this.#deciding];
  }

  /** Makes the loops look for signed offers now. */
  wake(): void {
    for (const loop of this.#deciding) loop.wake();
  }

  /**
   * Follows the committed transactions for one turn. Throws if the chain or the database is
   * unreachable.
   */
  async turn(): Promise<boolean> {
    await this.#takeOver();
    await this.#lapse();
    if (this.#followed.size === 0) return false;
    await this.#follower.poll();
    await this.#send();
    await this.#follower.settle();
    await this.#follower.expire();
    return false;
  }

  /**
   * Decides about the next offer. Resolves with false if no offer is due. If the chain or the
   * database is unreachable, postpones the offer and throws.
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
      if (decision === 'later') {
        this.#putOffAt = performance.now();
        await putOffOffer(sql, offer.id);
      }
    }
    if (decision !== 'committed') return true;
    this.#follow(await readOpenSponsorships(sql, [offer.id]), true);
    await this.#send();
    return true;
  }

  /**
   * Ends the leases, so that other keepers follow the transactions. Call this after the last turn.
   */
  async stop(): Promise<void> {
    if (this.#followed.size > 0) await releaseSponsorships(this.#context.sql, this.#claimId);
    this.#followed.clear();
  }

  #follow(some: readonly OpenSponsorship[], isOwn = false): void {
    const initial = { isOwn, size: 1, renewedAt: performance.now() };
    for (const signed of some) {
      const { signature, seen } = signed;
      if (!this.#followed.has(signature))
        this.#followed.set(signature, { ...track(signed, initial), signed, seen });
    }
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

  async #renew(old: readonly Sponsored[]): Promise<void> {
    const ids = old.map(({ signed }) => signed.offerId);
    const renewed = await renewSponsorships(this.#context.sql, this.#claimId, ids);
    for (const { signed, signature } of old)
      if (!renewed.has(signed.offerId)) this.#followed.delete(signature);
  }

  async #send(): Promise<void> {
    await each(this.#follower.due(), AT_ONCE, async (one) => {
      const error = await sendOnce(this.#context, one);
      if (error === undefined && one.seen === null) await this.#record(one, 'sent');
    });
  }

  /** Records how far a polled transaction has come. A fork may have dropped its block. */
  async #recordPolled(sponsored: Sponsored): Promise<void> {
    const { status, seen } = sponsored;
    if (status !== null)
      await this.#record(sponsored, status.commitment === 'processed' ? 'processed' : 'confirmed');
    else if (seen !== null) await this.#record(sponsored, 'sent');
  }

  /** Records the transaction's state. The subscriber pages show this state. */
  async #record(sponsored: Sponsored, seen: ChainState): Promise<void> {
    if (sponsored.seen === seen) return;
    await markSeen(this.#context.sql, sponsored.signed.offerId, seen);
    sponsored.seen = seen;
  }

  async #settle(final: readonly Sponsored[]): Promise<void> {
    for (const one of final) {
      const { status, signed } = one;
      if (status === null) continue;
      await this.#end(one, async () => {
        if (status.err === null) {
          await settleLanded(this.#context, signed, status);
          this.#onLanded();
        } else await settleFailed(this.#context, signed, status.err);
      });
    }
  }

  async #expire(expired: readonly Sponsored[]): Promise<ReadonlyMap<string, SignatureStatus>> {
    const seen = new Map<string, SignatureStatus>();
    const sought = expired.map((one) => ({ one, ...soughtOf(one.signed, true) }));
    for (const [{ one }, landing] of await judgeLandings(this.#context.rpc, sought)) {
      const { verdict, status, expiredAt } = landing;
      if (verdict === 'landed' && status !== null) seen.set(one.signature, status);
      if (verdict !== 'dead' || expiredAt === null) continue;
      await this.#end(one, async () => {
        if (await settleExpired(this.#context, one.signed, expiredAt)) this.#onLanded();
      });
    }
    return seen;
  }

  /**
   * Settles a transaction and stops following it. A transaction that cannot be settled now is tried
   * again later, so that it does not delay the others.
   */
  async #end(sponsored: Sponsored, settle: () => Promise<void>): Promise<void> {
    try {
      await settle();
      this.#followed.delete(sponsored.signature);
    } catch (error) {
      // A payment of the replaced subscription is open and must be settled first.
      if (error instanceof PaymentUnderWay) this.#follower.postpone(sponsored);
      else if (isFaulty(error)) this.#fault(sponsored, error);
      else throw error;
    }
  }

  #fault(sponsored: Sponsored, error: unknown): void {
    const { log, metrics } = this.#context;
    this.#follower.fault(sponsored);
    metrics.alerts.inc({ reason: 'cannot_be_settled' });
    const { offerId: offer, signature } = sponsored.signed;
    log.error({ err: error, offer, signature }, 'sponsored transaction cannot be settled');
  }
}
