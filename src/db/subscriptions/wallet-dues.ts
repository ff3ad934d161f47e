// The next payments of all live subscriptions of a wallet.
import { creditOf } from '../invoices/credits.ts';
import { type OpenColumns, openColumns, periodsLeft, withOpen } from '../invoices/standing.ts';
import type { DiscountTerms } from '../offers/terms.ts';
import type { Queryable } from '../postgres/connect.ts';

/** A subscription's next payment, with the fields that decide its amount. */
export interface WalletDue extends DiscountTerms, OpenColumns {
  id: string;
  subscriberWallet: string;
  mint: string;
  status: string;
  amount: bigint;
  periodHours: number;
  trialEndsAt: Date | null;
  billedFrom: Date | null;
  startsAt: Date | null;
  credit: bigint;
  periodAnchor: Date | null;
  planEndsAt: Date | null;
  nextPaymentDue: Date;
}

export function readWalletDues(sql: Queryable, wallets: readonly string[]): Promise<WalletDue[]> {
  return sql<WalletDue[]>`
    select s.id, s.subscriber_wallet, p.mint, s.status, s.amount, s.period_hours, s.trial_ends_at,
      s.billed_from, s.starts_at, ${creditOf(sql)} as credit,
      coalesce(s.period_anchor, s.chain_period_start) as period_anchor, s.discount_percent, s.discount_amount,
      ${periodsLeft(sql)} as discount_periods, p.ends_at as plan_ends_at,
      s.next_payment_due, ${openColumns(sql)}
    from subscriptions s join plans p on p.id = s.plan_id ${withOpen(sql)}
    where s.subscriber_wallet = any(${[...wallets]}::text[]) and s.status in ('active', 'past_due')
      and s.next_payment_due is not null`;
}
