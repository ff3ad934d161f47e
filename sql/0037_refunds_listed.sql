-- Lists of refunds: of an app, and of a subscription or a customer.
-- min_release: 0.1.0

create index refunds_by_app on refunds (app_id, id);
create index refunds_by_subscription on refunds (subscription_id, id);
