-- Invoices (what is owed, written down once), payment attempts (signed by a keeper), payments (their
-- recorded results), refunds, receipts, and the fees that merchants brought.

-- Whether lines add up to the sums of their invoice. Amounts are strings of digits.
create function lines_add_up(lines jsonb, plan int8, usage int8, items int8, discount int8,
  adjustment int8, tax int8) returns boolean language sql immutable parallel safe
as $$
  select coalesce(bool_and(amount is not null and kind in ('plan', 'quantity', 'proration', 'usage',
      'item', 'discount', 'adjustment', 'tax')), false)
    and coalesce(sum(amount) filter (where kind in ('plan', 'quantity', 'proration')), 0) = plan
    and coalesce(sum(amount) filter (where kind = 'usage'), 0) = usage
    and coalesce(sum(amount) filter (where kind = 'item'), 0) = items
    and coalesce(sum(amount) filter (where kind = 'discount'), 0) = discount
    and coalesce(sum(amount) filter (where kind = 'adjustment'), 0) = adjustment
    and coalesce(sum(amount) filter (where kind = 'tax'), 0) = tax
  from (
    select kind, case when amount ~ '^-?[0-9]{1,19}$' then amount::numeric end as amount
    from jsonb_to_recordset(lines) as line (kind text, amount text)
  ) as line
$$;

create table invoices (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  -- That of the subscription. Without a foreign key, so that a renewal locks no customer.
  customer_id uuid,
  subscription_id uuid references subscriptions,
  offer_id uuid references sponsorships,
  subscription_pda text not null,
  reason text not null default 'period'
    check (reason in ('period', 'items', 'threshold', 'final', 'foreign')),
  period_start timestamptz,
  period_end timestamptz,
  covers_from timestamptz,
  covers_to timestamptz,
  -- What is owed.
  lines jsonb not null,
  plan_amount int8 not null default 0,
  usage_amount int8 not null default 0,
  items_amount int8 not null default 0,
  discount_amount int8 not null default 0 check (discount_amount <= 0),
  adjustment_amount int8 not null default 0,
  tax_amount int8 not null default 0,
  discount_id uuid,
  total int8 not null check (total >= 0),
  credit_applied int8 not null default 0 check (credit_applied >= 0),
  amount_due int8 not null check (amount_due >= 0),
  -- What became of it.
  state text not null default 'open' check (state in ('open', 'paid', 'void', 'uncollectible')),
  void_reason text check (void_reason in ('forgiven', 'replaced', 'ended', 'offer')),
  due_at timestamptz not null,
  failed_tries int not null default 0 check (failed_tries >= 0),
  next_try_at timestamptz,
  drawn_up_at timestamptz not null,
  closed_at timestamptz,
  troubled_at timestamptz,
  unpaid_at timestamptz,
  created_at timestamptz not null default now(),
  constraint invoice_of_subscription_or_offer
    check (subscription_id is not null or offer_id is not null),
  constraint subscription_has_customer check (subscription_id is null or customer_id is not null),
  constraint sums_add_up check (total = plan_amount + usage_amount + items_amount + discount_amount
    + adjustment_amount + tax_amount),
  constraint credit_and_pull_pay_it check (amount_due = total - credit_applied),
  constraint period_is_whole check (num_nulls(period_start, period_end) in (0, 2)
    and period_end > period_start),
  constraint cover_is_whole check (num_nulls(covers_from, covers_to) in (0, 2)
    and covers_to > covers_from),
  constraint period_invoice_has_cover check (reason <> 'period' or subscription_id is null
    or num_nulls(period_start, covers_from) = 0),
  constraint foreign_invoice_has_no_cover check (reason <> 'foreign' or covers_from is null),
  constraint void_has_reason check ((state = 'void') = (void_reason is not null)),
  constraint closed_has_time check ((state = 'open') = (closed_at is null)),
  constraint unpaid_has_time check ((unpaid_at is null) or troubled_at is not null),
  constraint without_payment_has_time
    check (state not in ('void', 'uncollectible') or unpaid_at is not null)
-- Each invoice is updated once, when it is closed. Half of a page is kept for that.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
comment on table invoices is 'what is owed, drawn up once: lines and sums never change; payments pay invoices';
comment on column invoices.offer_id is 'the sponsored sign-up whose transaction pays it; it has a customer and a subscription once that is settled';
comment on column invoices.reason is 'period: of a period; items, threshold: in between; final: what was used, after the last period; foreign: a pull by another puller in a paid period';
comment on column invoices.period_start is 'the period on chain out of which it is collected';
comment on column invoices.covers_from is 'the time that it pays for; null without cover';
comment on column invoices.lines is 'array of {kind, description, quantity, unitAmount, amount, from, to, source}; amounts are strings of base units';
comment on column invoices.amount_due is 'what is pulled, always: total less the credit';
comment on column invoices.void_reason is 'forgiven by the merchant; replaced by another invoice; ended with the subscription; its offer never landed';
comment on column invoices.due_at is 'chain time: the start of its cover, or of the item, threshold or end';
comment on column invoices.drawn_up_at is 'chain time';
comment on column invoices.closed_at is 'chain time at which it was paid, voided or given up';
comment on column invoices.troubled_at is 'database time of its first failure, or of its closing as void or uncollectible if that was first; a paid renewal has none';
comment on column invoices.unpaid_at is 'database time of its closing as void or uncollectible';
-- A renewal changes the state alone, which is in no index.
create unique index one_invoice_per_cover
  on invoices (subscription_pda, period_start, covers_from)
  where reason = 'period' and (void_reason is null or void_reason in ('forgiven', 'ended'));
create unique index one_invoice_per_offer on invoices (offer_id) where offer_id is not null;
-- The invoices that one_invoice_per_cover leaves out: both together list those of a subscription.
create index invoices_beside_periods on invoices (subscription_pda, period_start)
  where reason <> 'period' or void_reason in ('replaced', 'offer');
create index invoices_by_app on invoices (app_id, drawn_up_at, id);
create index invoices_troubled on invoices (app_id, troubled_at, id) where troubled_at is not null;
create index invoices_by_discount on invoices (discount_id) where discount_id is not null;
create index invoices_unpaid on invoices (app_id, unpaid_at, id) where unpaid_at is not null;

-- Checked at the insert alone, because lines never change: a constraint is checked at each update.
create function invoice_adds_up() returns trigger language plpgsql as $$
begin
  if not lines_add_up(new.lines, new.plan_amount, new.usage_amount, new.items_amount,
    new.discount_amount, new.adjustment_amount, new.tax_amount)
  then
    raise exception 'the lines of an invoice do not add up to its sums'
      using errcode = 'check_violation', constraint = 'lines_add_up';
  end if;
  return null;
end
$$;
create trigger invoice_adds_up after insert on invoices
  for each row execute function invoice_adds_up();

-- Lines, sums and keys never change. An offer's invoice gets its customer, subscription, period and
-- cover once. What an attempt may still pay stays open. Only who may insert payments closes an
-- invoice as paid or uncollectible.
create function invoice_stands() returns trigger language plpgsql as $$
begin
  if (new.id, new.app_id, new.offer_id, new.subscription_pda, new.reason,
      new.plan_amount, new.usage_amount, new.items_amount, new.discount_amount,
      new.adjustment_amount, new.tax_amount, new.discount_id, new.total, new.credit_applied,
      new.amount_due, new.due_at, new.drawn_up_at, new.created_at)
    is distinct from
    (old.id, old.app_id, old.offer_id, old.subscription_pda, old.reason,
      old.plan_amount, old.usage_amount, old.items_amount, old.discount_amount,
      old.adjustment_amount, old.tax_amount, old.discount_id, old.total, old.credit_applied,
      old.amount_due, old.due_at, old.drawn_up_at, old.created_at)
    or new.lines <> old.lines
    or (new.subscription_id, new.customer_id, new.unpaid_at) is distinct from (
      coalesce(old.subscription_id, new.subscription_id),
      coalesce(old.customer_id, new.customer_id), coalesce(old.unpaid_at, new.unpaid_at))
  then
    raise exception 'an invoice stands: its lines, sums and keys do not change'
      using errcode = 'check_violation', constraint = 'invoice_stands';
  end if;
  if new.state <> old.state
    and not (old.state = 'open' or (old.state = 'uncollectible' and new.state = 'paid'))
  then
    raise exception 'a closed invoice stays closed'
      using errcode = 'check_violation', constraint = 'closed_invoice_stays';
  end if;
  if new.state = old.state and old.state <> 'open' and
    (new.period_start, new.period_end, new.covers_from, new.covers_to, new.closed_at)
    is distinct from
    (old.period_start, old.period_end, old.covers_from, old.covers_to, old.closed_at)
  then
    raise exception 'the time of a closed invoice does not change'
      using errcode = 'check_violation', constraint = 'closed_invoice_stays';
  end if;
  if old.state = 'open' and new.state <> 'open' and exists (
    select from payment_attempts a
    where a.subscription_pda = new.subscription_pda and a.state = 'open' and a.invoice_id = new.id)
  then
    raise exception 'an invoice stays open until its attempt has ended'
      using errcode = 'check_violation', constraint = 'attempt_ends_first';
  end if;
  if new.state in ('paid', 'uncollectible') and new.state <> old.state
    and not has_table_privilege('payments', 'insert')
  then
    raise exception 'only a keeper closes an invoice as paid or uncollectible'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;
create trigger invoice_stands before update on invoices
  for each row execute function invoice_stands();

-- The time of a forgiven invoice counts as paid. With the owner's rights, because serve writes no
-- paid_through. A pull that is found in that time later is then a further one.
create function cover_forgiven() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update subscription_work set paid_through = new.covers_to, setbacks = 0, failed_packs = 0
  where subscription_id = new.subscription_id
    and (paid_through is null or paid_through < new.covers_to);
  if found then
    update subscriptions set period_pulled = 0
    where id = new.subscription_id and (pulled_through is null or pulled_through < new.covers_to);
  end if;
  return null;
end
$$;
create trigger forgiven_time_is_covered after update on invoices
  for each row when (old.state = 'open' and new.void_reason = 'forgiven'
    and new.covers_to is not null and new.subscription_id is not null)
  execute function cover_forgiven();

create table payment_attempts (
  id uuid primary key default uuid_v7(),
  subscription_id uuid references subscriptions,
  offer_id uuid references sponsorships,
  invoice_id uuid not null references invoices,
  subscription_pda text not null,
  transaction_id uuid not null references transactions,
  position int not null default 0 check (position >= 0),
  claim_id uuid not null,
  period_start timestamptz not null,
  amount_gross int8 not null check (amount_gross > 0),
  platform_fee int8 not null check (platform_fee >= 0),
  amount_net int8 not null check (amount_net >= 0),
  fee_owed int8 not null default 0 check (fee_owed >= 0),
  state text not null default 'open'
    check (state in ('open', 'landed', 'failed', 'expired', 'unexplained')),
  error text,
  created_at timestamptz not null default now(),
  resolved_at timestamptz,
  constraint one_attempt_per_position unique (transaction_id, position),
  constraint of_subscription_or_offer check (subscription_id is not null or offer_id is not null),
  constraint attempt_adds_up check (amount_gross = platform_fee + amount_net),
  constraint resolved_has_time check ((state = 'open') = (resolved_at is null))
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table payment_attempts is 'every payment signed by a keeper, with its transaction';
comment on column payment_attempts.offer_id is 'the sponsored sign-up that makes the payment; it has a subscription once it is settled';
comment on column payment_attempts.subscription_pda is 'the address that it pulls from; registrations of one address share it';
comment on column payment_attempts.position is 'index of the payment in its transaction, from 0';
comment on column payment_attempts.fee_owed is 'the fee that the merchant receives and owes, because no treasury of the plan could receive it; part of amount_net';
comment on column payment_attempts.state is 'unexplained: no history explains how it ended, and its period is over';
-- Whichever registration signed it: a second one could pull twice in one period.
create unique index one_open_attempt_per_address on payment_attempts (subscription_pda)
  where state = 'open';
create index attempts_in_vain on payment_attempts (subscription_id, id)
  where state in ('failed', 'expired', 'unexplained');
create index attempts_unexplained on payment_attempts (resolved_at) where state = 'unexplained';
create index attempts_of_offers on payment_attempts (offer_id) where offer_id is not null;

-- An attempt pays an open invoice of its address, and pulls what is due. An invoice that was drawn
-- up in an earlier transaction is locked, so that it is not closed meanwhile.
create function attempt_pays_invoice() returns trigger language plpgsql as $$
begin
  perform from invoices
  where id = new.invoice_id and state = 'open' and subscription_pda = new.subscription_pda
    and amount_due = new.amount_gross and xmin = pg_current_xact_id()::xid;
  if found then return null; end if;
  perform from invoices
  where id = new.invoice_id and state = 'open' and subscription_pda = new.subscription_pda
    and amount_due = new.amount_gross
  for share;
  if found then return null; end if;
  raise exception 'an attempt pays what is due of an open invoice of its address'
    using errcode = 'check_violation', constraint = 'attempt_pays_invoice';
end
$$;
create trigger attempt_pays_invoice after insert on payment_attempts
  for each row when (new.state = 'open') execute function attempt_pays_invoice();

create table payments (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_id uuid not null references subscriptions,
  invoice_id uuid references invoices,
  subscription_pda text not null,
  subscriber_wallet text not null,
  status text not null check (status in ('succeeded', 'failed')),
  source text not null default 'keeper' check (source in ('keeper', 'foreign', 'credit')),
  attempt int not null default 1 check (attempt > 0),
  failure_reason text,
  tx_signature text,
  period_start timestamptz not null,
  period_end timestamptz not null,
  further boolean not null default false,
  amount_gross int8 not null,
  platform_fee int8 not null check (platform_fee >= 0),
  amount_net int8 not null check (amount_net >= 0),
  fee_owed int8 not null default 0 check (fee_owed >= 0),
  amount_refunded int8 not null default 0,
  occurred_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint failure_has_reason check ((status = 'failed') = (failure_reason is not null)),
  constraint success_has_signature
    check (status = 'failed' or (tx_signature is null) = (source = 'credit')),
  constraint period_runs_forward check (period_end > period_start),
  constraint further_is_success check (not further or status = 'succeeded'),
  constraint paid_by_cash_or_credit
    check ((source = 'credit') = (amount_gross = 0) and amount_gross >= 0),
  constraint credit_pays_an_invoice
    check (source <> 'credit' or (status = 'succeeded' and invoice_id is not null)),
  constraint payment_adds_up check (amount_gross = platform_fee + amount_net),
  constraint refunded_within_net check (amount_refunded between 0 and amount_net)
);
comment on table payments is 'the transactions of the API: one succeeded row per paid period, one failed row per failed attempt';
comment on column payments.invoice_id is 'null: a pull of a keeper beyond the one that paid the period';
comment on column payments.source is 'keeper or foreign: who pulled; credit: the credit of a change of plan paid the whole amount, and nothing was pulled';
comment on column payments.further is 'a pull beyond the one that paid the period: it moved USDC but pays for no other period, and has no event';
comment on column payments.fee_owed is 'the fee that was not collected, because no treasury of the plan could receive it or another puller pulled; part of amount_net';
comment on column payments.amount_refunded is 'the sum of its finalized refunds';
comment on column payments.occurred_at is 'block time of a success, chain time of the attempt for a failure';
create unique index one_payment_per_period on payments (subscription_id, period_start)
  where status = 'succeeded' and not further;
create unique index one_payment_per_invoice on payments (invoice_id) where status = 'succeeded';
-- Indexes hashes, because an index of the texts would be the largest of the table
-- (docs/postgres-notes.md, Writing).
create unique index one_payment_per_pull
  on payments ((md5(tx_signature)::uuid), (md5(subscription_pda)::uuid)) where status = 'succeeded';
-- Postgres keeps no statistics of the expression of a partial index. Without these it expects one
-- payment in 200 per signature, and scans the table.
create statistics payment_signatures on (md5(tx_signature)::uuid) from payments;
create index payments_by_app_time on payments (app_id, occurred_at, id);
create index payments_by_subscription on payments (subscription_id, occurred_at, id);
create index payments_failed_on_chain on payments (id)
  where status = 'failed' and tx_signature is not null;
-- The figures of an app read which subscriptions were past due at a time. Few payments tell: those
-- that failed, and those that succeeded after a failure.
create index payments_troubled on payments (app_id, occurred_at, subscription_id, status)
  where status = 'failed' or attempt > 1;

create table refunds (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  payment_id uuid not null references payments,
  subscription_id uuid not null references subscriptions,
  amount int8 not null check (amount > 0),
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'expired')),
  -- The transfer that the merchant's wallet is offered.
  offer_id uuid,
  reference text not null,
  blockhash text,
  blockhash_slot int8,
  last_valid_block_height int8,
  look_at timestamptz default now(),
  -- The transfer that landed.
  tx_signature text,
  occurred_at timestamptz,
  recorded_at timestamptz,
  excess int8 not null default 0,
  repeats uuid references refunds,
  created_at timestamptz not null default now(),
  constraint blockhash_is_whole
    check (num_nulls(blockhash, last_valid_block_height, blockhash_slot) in (0, 3)),
  constraint succeeded_is_whole check ((status = 'succeeded') = (tx_signature is not null)
    and (status = 'succeeded') = (occurred_at is not null)),
  constraint excess_is_of_transfer
    check (excess between 0 and amount and (excess = 0 or status = 'succeeded')),
  constraint repeat_is_recorded check (repeats is null or status = 'succeeded')
);
comment on table refunds is 'refunds of payments: transfers by the merchant''s wallet, found on chain by the reference among their accounts';
comment on column refunds.offer_id is 'the offer of its transfer, which tells whether the relay has taken it signed; the offer is deleted after ten minutes';
comment on column refunds.reference is 'a random address among the transfer''s accounts, by which the transaction is found; a refund that repeats another one has its reference';
comment on column refunds.blockhash is 'the blockhash of the offered transfer';
comment on column refunds.blockhash_slot is 'slot of the answer that gave the blockhash';
comment on column refunds.look_at is 'time of the next look-up of the transfer by a keeper; null once it is recorded and cannot land again, or a day after the request';
comment on column refunds.occurred_at is 'block time of the transfer';
comment on column refunds.recorded_at is 'when a keeper recorded the transfer; null for a repeat, which is recorded when it is created';
comment on column refunds.excess is 'the part of a landed transfer beyond what was left of the payment, which amount_refunded does not count';
comment on column refunds.repeats is 'the refund whose transfer landed again, as the transaction of this row';
create unique index refunds_by_reference on refunds (reference) where repeats is null;
create unique index refunds_by_repeated on refunds (repeats, tx_signature)
  where repeats is not null;
create index refunds_by_signature on refunds (tx_signature) where tx_signature is not null;
create index refunds_to_look_for on refunds (look_at, id) where look_at is not null;
create index refunds_by_payment on refunds (payment_id, id);
create index refunds_by_subscription on refunds (subscription_id, id);
create index refunds_by_app on refunds (app_id, id);
create index refunds_by_app_time on refunds (app_id, occurred_at) where status = 'succeeded';

-- What takes back a part of a paid invoice. Together they take back at most what was paid.
create table credit_notes (
  id uuid primary key default uuid_v7(),
  invoice_id uuid not null references invoices,
  payment_id uuid not null references payments,
  refund_id uuid unique references refunds,
  subscription_pda text not null,
  reason text not null check (reason in ('refund', 'change_of_plan', 'resumed')),
  amount int8 not null check (amount >= 0),
  takes_time_from timestamptz,
  created_at timestamptz not null default now(),
  constraint refund_is_named check ((reason = 'refund') = (refund_id is not null)),
  constraint others_take_time check ((reason = 'refund') = (takes_time_from is null)),
  constraint resumed_takes_time_alone check (reason <> 'resumed' or amount = 0)
);
comment on table credit_notes is 'what takes back a part of a paid invoice; no row ever changes';
comment on column credit_notes.payment_id is 'the succeeded payment of the invoice';
comment on column credit_notes.reason is 'refund: on chain; change_of_plan: the unused part became credit; resumed: the wallet resumed an account whose running period had been refunded in full';
comment on column credit_notes.amount is 'base units; 0: nothing was left to take back';
comment on column credit_notes.takes_time_from is 'from here on the covered time of the invoice gives no access; null: it stays';
create index credit_notes_by_payment on credit_notes (payment_id);
create index credit_notes_taking_time on credit_notes (subscription_pda)
  where takes_time_from is not null;
create unique index one_note_takes_time on credit_notes (invoice_id, reason)
  where takes_time_from is not null;

create function notes_fit() returns trigger language plpgsql as $$
declare
  paid int8 := (select total from invoices where id = new.invoice_id and state = 'paid'
    for no key update);
begin
  if paid is null
    or paid < (select sum(amount) from credit_notes where invoice_id = new.invoice_id)
    or not exists (select from payments where id = new.payment_id and status = 'succeeded'
      and invoice_id = new.invoice_id and subscription_pda = new.subscription_pda)
  then
    raise exception 'credit notes take back at most what a payment paid of its invoice'
      using errcode = 'check_violation', constraint = 'notes_fit';
  end if;
  return null;
end
$$;
create trigger notes_fit after insert on credit_notes
  for each row execute function notes_fit();

-- A refund that has landed takes back that part of the payment's invoice, without its excess.
create function note_refund() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into credit_notes (invoice_id, payment_id, subscription_pda, refund_id, reason, amount)
  select invoice_id, id, subscription_pda, new.id, 'refund', new.amount - new.excess from payments
  where id = new.payment_id and invoice_id is not null and new.amount > new.excess
  on conflict (refund_id) do nothing;
  return null;
end
$$;
create trigger refund_has_note after insert or update of status on refunds
  for each row when (new.status = 'succeeded') execute function note_refund();

-- The balance of a customer is the sum of his movements. Only the trigger on them writes it.
create table credit_balances (
  customer_id uuid primary key references customers,
  balance int8 not null constraint credit_is_there check (balance >= 0)
);
comment on table credit_balances is 'what each customer has of credit (base units); no row: none was ever made';

create table credits (
  id uuid primary key default uuid_v7(),
  customer_id uuid not null references customers,
  amount int8 not null check (amount <> 0),
  reason text not null check (reason in ('change_of_plan', 'granted', 'taken_back',
    'refund_to_balance', 'negative_item', 'unmatched_pull', 'spent', 'reversed')),
  invoice_id uuid references invoices,
  payment_id uuid references payments,
  refund_id uuid references refunds,
  subscription_id uuid references subscriptions,
  note text check (length(note) between 1 and 500),
  noted_by text,
  created_at timestamptz not null default now(),
  constraint note_is_whole check ((note is null) = (noted_by is null)
    and (note is null or reason in ('granted', 'taken_back'))),
  constraint spent_lowers_it check ((amount < 0) = (reason in ('spent', 'taken_back'))
    or reason = 'unmatched_pull'),
  constraint change_takes_a_payment check (reason <> 'change_of_plan' or payment_id is not null),
  constraint pull_makes_it check (reason <> 'unmatched_pull' or payment_id is not null),
  constraint refund_takes_it check (refund_id is null or reason = 'unmatched_pull'),
  constraint invoice_spends_it check ((reason in ('spent', 'reversed')) = (invoice_id is not null))
);
comment on table credits is 'movements of the balances of customers; no row ever changes';
comment on column credits.amount is 'base units; negative: it lowers the balance';
comment on column credits.reason is 'spent: by the invoice when it was drawn up; reversed: the invoice was closed without a payment; change_of_plan: the unused part of the payment';
comment on column credits.refund_id is 'the refund of an unmatched pull, which takes its credit back or gives it again';
comment on column credits.subscription_id is 'the subscription to which the movement belongs, if it has one';
comment on column credits.note is 'why the merchant granted it or took it back; null: a change of plan moved it to another customer';
comment on column credits.noted_by is 'who did: the merchant''s wallet, or the prefix of the API key';
create index credits_by_customer on credits (customer_id, id);
create unique index one_credit_per_payment on credits (payment_id)
  where reason = 'change_of_plan';
create unique index one_credit_per_pull on credits (payment_id)
  where reason = 'unmatched_pull' and refund_id is null;
create index credits_by_invoice on credits (invoice_id) where invoice_id is not null;

create function keep_balance() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update credit_balances set balance = balance + new.amount where customer_id = new.customer_id;
  if not found then
    insert into credit_balances (customer_id, balance) values (new.customer_id, new.amount)
      on conflict (customer_id) do update set balance = credit_balances.balance + new.amount;
  end if;
  return null;
end
$$;
-- Only who may insert payments spends credit and makes it of pulls. What was spent comes back by the
-- trigger of invoices.
create function credit_is_spent() returns trigger language plpgsql as $$
begin
  if not has_table_privilege('payments', 'insert') then
    raise exception 'only a keeper spends credit' using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;
create trigger credit_is_spent before insert on credits
  for each row when (new.reason in ('spent', 'reversed', 'unmatched_pull'))
  execute function credit_is_spent();
create trigger balance_is_kept after insert on credits
  for each row execute function keep_balance();

-- Locks the balances of customers, in the order in which everybody locks them.
create function lock_balances(customers uuid[]) returns setof credit_balances
language sql security definer set search_path = public, pg_temp as $$
  select b.customer_id, b.balance from credit_balances b
  where b.customer_id = any(customers) order by b.customer_id for update
$$;

-- What an invoice spent comes back when it is closed without a payment, unless its pull may still
-- be found.
create function reverse_credit() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if not exists (select from payment_attempts
    where invoice_id = new.id and state = 'unexplained')
  then
    insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
    select customer_id, -sum(amount), 'reversed', new.id, new.subscription_id
    from credits where invoice_id = new.id
    group by customer_id having sum(amount) < 0 order by customer_id;
  end if;
  return null;
end
$$;
create trigger credit_is_reversed after update on invoices
  for each row when (old.state = 'open' and new.state in ('void', 'uncollectible')
    and new.credit_applied > 0)
  execute function reverse_credit();

-- A pull that pays no invoice is credit of the customer. A refund of it takes that credit back, and
-- one that expires gives it again. A transfer that lands later takes what is left.
create function refund_takes_credit() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  owner uuid := (select customer_id from credits
    where payment_id = new.payment_id and reason = 'unmatched_pull' and refund_id is null);
  part int8 := case when new.status = 'expired' then new.amount else -new.amount end;
begin
  if owner is null or (tg_op = 'UPDATE' and old.status = 'pending' and new.status = 'succeeded') then
    return null;
  end if;
  if new.status = 'succeeded' then
    part := -least(new.amount, (select balance from lock_balances(array[owner])));
  end if;
  if part <> 0 then
    insert into credits (customer_id, amount, reason, payment_id, refund_id, subscription_id)
    values (owner, part, 'unmatched_pull', new.payment_id, new.id, new.subscription_id);
  end if;
  return null;
end
$$;
create trigger refund_takes_credit after insert on refunds
  for each row execute function refund_takes_credit();
create trigger refund_gives_credit after update of status on refunds
  for each row when (new.status <> old.status) execute function refund_takes_credit();

-- Details hold for the payments of the subscription from `since` on, so that a new address changes
-- no earlier receipt.
create table receipt_details (
  subscription_id uuid not null references subscriptions,
  since timestamptz not null,
  name text check (length(name) <= 120),
  address text check (length(address) <= 500),
  tax_id text check (length(tax_id) <= 60),
  note text check (length(note) <= 500),
  typed_at timestamptz not null default now(),
  primary key (subscription_id, since)
);
comment on table receipt_details is 'what buyers typed on their receipts, where the merchant keeps it; all null: blank from then on';
comment on column receipt_details.since is 'occurred_at of the first payment whose receipt shows them';

-- A receipt's URL ends with an HMAC of the payment under this key, so no token is stored, a replay
-- and a restore keep the URL, and a payment that was lost and found on chain again gets the same
-- one. The key is in the database because the details that it guards are too.
create table receipt_links (
  single boolean primary key default true check (single),
  key bytea not null check (octet_length(key) = 32),
  public_url text
);
comment on table receipt_links is 'what the URLs of receipts are made of; one row';
comment on column receipt_links.key is '256 random bits, made once';
comment on column receipt_links.public_url is 'PUBLIC_URL of serve, which it records when it starts: the base of the URLs in events';
insert into receipt_links (key)
  select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    || uuid_send(gen_random_uuid()));

create table merchant_fees (
  merchant_id uuid primary key references merchants,
  fees int8 not null check (fees >= 0)
);
comment on table merchant_fees is 'platform fees (base units) of the payments to each merchant that were stored before fees_counted.until';

create table fees_counted (
  single boolean primary key default true check (single),
  until timestamptz not null
);
comment on table fees_counted is 'how far keepers have added the fees of payments to merchant_fees; one row';
insert into fees_counted (until) values (now());

create view fees_brought as
select merchant_id, sum(fees)::int8 as fees from (
  select merchant_id, fees from merchant_fees
  union all
  select a.merchant_id, p.platform_fee from (
    select app_id, platform_fee, status from payments
    where id >= first_id_at((select until from fees_counted)) order by id limit 100000
  ) as p join apps a on a.id = p.app_id where p.status = 'succeeded'
) as brought group by merchant_id;
comment on view fees_brought is 'merchant_fees with the newer payments (100,000 at most)';

-- Double entry over invoices, payments, credits and refunds (docs/architecture.md, The journal).
-- Each branch reads the rows of an app in the order of time, but credits, which have no app.
create view journal as
select i.app_id, i.customer_id, i.subscription_id, 'drawn_up' as kind,
  'drawn_up ' || i.id as entry_id, p.account, p.amount, i.drawn_up_at as date, i.created_at as recorded_at,
  null::text as tx_signature, i.id as invoice_id, null::uuid as payment_id, null::uuid as refund_id,
  null::uuid as credit_id
from invoices i cross join lateral (values
    ('receivable', i.total),
    ('revenue', -(i.plan_amount + i.usage_amount + i.items_amount + i.discount_amount)),
    ('adjustments', -i.adjustment_amount),
    ('tax', -i.tax_amount)
  ) as p (account, amount)
where i.subscription_id is not null and p.amount <> 0
union all
select i.app_id, i.customer_id, i.subscription_id, coalesce(i.void_reason, 'uncollectible'),
  coalesce(i.void_reason, 'uncollectible') || ' ' || i.id, p.account, p.amount, i.unpaid_at,
  i.unpaid_at, null, i.id, null, null, null
from invoices i cross join lateral (values
    ('receivable', -i.total),
    ('revenue', i.usage_amount + i.items_amount
      + case when i.void_reason is null then 0 else i.plan_amount + i.discount_amount end),
    ('adjustments', case when i.void_reason is null then 0 else i.adjustment_amount end),
    ('bad_debt', case when i.void_reason is null
      then i.plan_amount + i.discount_amount + i.adjustment_amount else 0 end),
    ('tax', i.tax_amount)
  ) as p (account, amount)
where i.subscription_id is not null and i.unpaid_at is not null and p.amount <> 0
union all
-- The pull of an uncollectible invoice was found. This takes back its entry above.
select i.app_id, i.customer_id, i.subscription_id, 'collectible', 'collectible ' || i.id, p.account,
  p.amount, paid.occurred_at, paid.created_at, null, i.id, null, null, null
from invoices i join payments paid on paid.invoice_id = i.id and paid.status = 'succeeded'
  cross join lateral (values
    ('receivable', i.total),
    ('revenue', -(i.usage_amount + i.items_amount)),
    ('bad_debt', -(i.plan_amount + i.discount_amount + i.adjustment_amount)),
    ('tax', -i.tax_amount)
  ) as p (account, amount)
where i.subscription_id is not null and i.unpaid_at is not null and i.state = 'paid'
  and p.amount <> 0
union all
select s.app_id, coalesce(i.customer_id, c.customer_id), s.subscription_id,
  case when s.invoice_id is null then 'unmatched_pull' else 'paid' end,
  case when s.invoice_id is null then 'unmatched_pull ' else 'paid ' end || s.id, p.account,
  p.amount, s.occurred_at, s.created_at, s.tx_signature, s.invoice_id, s.id, null, c.id
from payments s left join invoices i on i.id = s.invoice_id
  left join credits c on c.payment_id = s.id and c.reason = 'unmatched_pull'
    and c.refund_id is null
  cross join lateral (values
    ('usdc', s.amount_net),
    ('platform_fee', s.platform_fee + s.fee_owed),
    ('platform_fee_owed', -s.fee_owed),
    (case when s.invoice_id is null then 'customer_credit' else 'receivable' end, -s.amount_gross)
  ) as p (account, amount)
where s.status = 'succeeded' and p.amount <> 0
union all
select r.app_id, coalesce(i.customer_id, c.customer_id), r.subscription_id, 'refunded',
  'refunded ' || r.id, p.account, p.amount, r.occurred_at, coalesce(r.recorded_at, r.created_at),
  r.tx_signature, s.invoice_id, s.id, r.id, null
from refunds r join payments s on s.id = r.payment_id left join invoices i on i.id = s.invoice_id
  left join credits c on c.payment_id = s.id and c.reason = 'unmatched_pull'
    and c.refund_id is null
  cross join lateral (values ('refunds', r.amount), ('usdc', -r.amount)) as p (account, amount)
where r.status = 'succeeded'
union all
-- A movement that an unmatched pull made is part of that pull's entry.
select owner.app_id, c.customer_id, c.subscription_id,
  case when c.reason = 'unmatched_pull' then 'refund_of_unmatched' else c.reason end,
  case when c.reason = 'unmatched_pull' then 'refund_of_unmatched' else c.reason end || ' ' || c.id,
  p.account, p.amount, c.created_at, c.created_at, null, c.invoice_id, c.payment_id, c.refund_id,
  c.id
from credits c join customers owner on owner.id = c.customer_id
  cross join lateral (values
    ('customer_credit', -c.amount),
    (case
      when c.reason in ('spent', 'reversed') then 'receivable'
      when c.reason = 'change_of_plan' then 'revenue'
      when c.reason = 'negative_item' then 'adjustments'
      when c.reason in ('granted', 'taken_back') then 'credits_granted'
      else 'refunds'
    end, c.amount)
  ) as p (account, amount)
where c.reason <> 'unmatched_pull' or c.refund_id is not null;
comment on view journal is 'double entry: what each invoice, payment, movement of credit and refund means for the accounts of a merchant';
comment on column journal.entry_id is 'the kind and its row; the postings of an entry add up to 0';
comment on column journal.amount is 'base units; debits are positive';
comment on column journal.date is 'the time of the fact, which never changes: chain time, but the time of the closing of an invoice and of a movement of credit, which are the database''s';
comment on column journal.tx_signature is 'the transaction that moved the money';
