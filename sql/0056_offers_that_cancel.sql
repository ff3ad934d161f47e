-- A change of plan is told from another transaction with its blockhash by what it cancels.
-- min_release: 0.1.0

alter table offers add column cancels boolean;
comment on column offers.cancels is 'the transaction cancels the subscription that it replaces; false where that was cancelled before, and without one; null where no account is opened or resumed, and for offers of an older release';
