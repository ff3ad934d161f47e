-- The trace (W3C Trace Context) of the request that caused an event.
-- min_release: 0.1.0

alter table events add column traceparent text;
comment on column events.traceparent is 'the header of the request that caused the event; null: the trace id is the event''s id';
