-- What subscribers read of a plan beside its name.
-- min_release: 0.1.0

alter table plans add column description text check (length(description) between 1 and 2000);
comment on column plans.description is 'shown on the plan''s page instead of the app''s description';
