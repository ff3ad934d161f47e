-- Deliveries by the answer of their last attempt.
-- min_release: 0.1.0

create or replace view all_deliveries as
  select id, endpoint_id, event_id, event_type, 'pending' as status, attempts, due_at as next_attempt_at, replay_of, replayed,
    made_at(id) as created_at, null::timestamptz as finished_at,
    (select http_status from earlier_attempts where delivery_id = delivery_queue.id order by number desc limit 1) as last_http_status,
    (select error from earlier_attempts where delivery_id = delivery_queue.id order by number desc limit 1) as last_error
  from delivery_queue
  union all
  select id, endpoint_id, event_id, event_type, status, attempts, null, replay_of, replayed, made_at(id), finished_at,
    last_http_status, last_error
  from deliveries;
