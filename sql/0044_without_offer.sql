-- Which registrations a keeper made without an offer: their wallet may still set the terms.
-- min_release: 0.1.0

alter table subscriptions add column without_offer boolean not null default false;
comment on column subscriptions.without_offer is 'a keeper registered it, and no offer of the service fitted: until an attempt is committed, the registration by its wallet sets the terms of its checkout session';
