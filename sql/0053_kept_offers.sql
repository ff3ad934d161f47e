-- Offers whose transactions may have landed are kept until their accounts are registered.
-- min_release: 0.1.0

comment on table offered_transactions is 'unsigned transactions offered to wallets for signing; deleted after ten minutes; offers to subscribe and relayed offers to resume after 24 hours, once they are registered or given up, at the latest after 30 days';
comment on column offered_transactions.look_at is 'time before which a keeper does not read the account at subscription_pda again for this offer; null: no keeper has read it; infinity: given up, because there is no account after 24 hours, or it has a live registration';
comment on table sponsored_offers is 'sponsored transactions offered to wallets, written by serve; a keeper rebuilds the message and never signs stored bytes; a signed one is kept for a day, and for a day after its transaction has ended';
