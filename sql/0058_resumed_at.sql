-- A refund that lands before a resume is often recorded after it. The time of the resume decides
-- whether the refunded period gives access.
-- min_release: 0.1.0

alter table subscriptions add column resumed_at timestamptz;
comment on column subscriptions.resumed_at is 'chain time at which a keeper last saw the wallet''s resume, else that of the registration; null: registered by an older release, and not resumed since';
comment on column subscriptions.refunded_through is 'end of a paid period whose payment was refunded in full before the wallet resumed, or became credit: that period gives no access';
comment on column subscriptions.stopped_at is 'when the registration ended or a change of plan replaced it, whichever was first, by the database''s clock; of one that was replaced after its end: when it was replaced; ended_at is chain time';
