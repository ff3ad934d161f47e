-- Open sessions are counted per merchant, and ended ones are deleted after 30 days.
create index checkout_sessions_open on checkout_sessions (app_id, expires_at) where subscription_id is null;
create index checkout_sessions_by_expiry on checkout_sessions (expires_at);
-- For the cascade: offers of a deleted session.
create index offered_transactions_by_session on offered_transactions (checkout_session_id) where checkout_session_id is not null;
