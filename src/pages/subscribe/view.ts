// The views of the subscribe page, and the order for which they are shown.
import type { words } from '../shared/language.ts';
import type { Approval } from '../shared/other-approval.tsx';
import type { PublicPlan, Session, Standing, Subscription } from '../shared/session.ts';
import type { Departures } from './departures.ts';
import type { Problem } from './problems.ts';
import type { Stage } from './sponsored.ts';
import type { Terms } from './terms.ts';

export type Step =
  'connect' | 'signIn' | 'check' | 'sign' | 'send' | 'confirm' | 'look' | Exclude<Stage, 'final'>;

/**
 * The reason why a wallet cannot subscribe. The value is also the key of the text that explains the
 * reason.
 */
export type Closed =
  'endedByMerchant' | 'ownWallet' | 'frozen' | 'planBlocked' | 'planClosed' | 'second';

/** The reason why a payment failed. The value is also the key of the text that explains it. */
export type Unpaid = keyof typeof words.unpaid;

export type View =
  | { at: 'offer' }
  | { at: 'busy'; step: Step; wallet: string }
  | Problem
  | { at: 'wrongNetwork'; wallet: string }
  | { at: 'switched' }
  /**
   * `isLate` is true if the wallet signed a sponsored transaction and the service then did not pay.
   */
  | { at: 'short'; standing: Standing; needsSol: boolean; isLate: boolean }
  | { at: 'otherTerms'; standing: Standing }
  | { at: 'otherApproval'; approval: Approval }
  /** The wallet's account is live but not registered, and no transaction of this page opened it. */
  | { at: 'unregistered'; standing: Standing }
  | { at: 'closed'; why: Closed }
  /** `unpaid` is the reason why the last payment failed. Set only if that payment is still due. */
  | { at: 'subscribed'; standing: Standing; note?: 'approved' | 'resumed'; unpaid?: Unpaid }
  /** `subscription` is undefined when the page knows only that the first payment is final. */
  | { at: 'done'; session: Session | undefined; subscription: Subscription | undefined };

/** The plan to subscribe to, and the checkout session if there is one. */
export interface Order {
  plan: PublicPlan;
  checkoutSessionId: string | undefined;
}

/**
 * An order, and what the page has shown to the user: (1) the terms, (2) the approval that
 * subscribing replaces, (3) the account that would be registered.
 */
export interface Offered extends Order {
  terms: Terms;
  /**
   * Delegate of the approval that subscribing replaces, if the page has shown this approval.
   * Undefined if the page has shown no approval.
   */
  replacing: string | undefined;
  /** Address of the live account whose registration the page has asked about. */
  asked: string | undefined;
  departures: Departures;
}
