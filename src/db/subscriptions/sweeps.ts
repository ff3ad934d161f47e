// The keepers' sweep over all subscriptions. One lap visits every subscription once: first those
// with a due time, in order of due time, then ended ones without a due time from whose accounts can
// still be pulled (at the position ENDED). All keepers together run one sweep and share its
// position.
import type { Queryable } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';
import type { DuePlace } from './leases.ts';

/** Timing of the sweep, in seconds. */
export interface SweepPace {
  /** Minimum time between the starts of two laps. */
  everySeconds: number;
  /** Target duration of a lap, if the lap has as many subscriptions as the previous lap. */
  withinSeconds: number;
}

export interface SweepStep {
  /** Ids of the subscriptions visited in this step. */
  ids: string[];
  /** The number of this step's lap, and the position after which this step started. */
  lap: bigint;
  after: DuePlace;
  /**
   * The lap and the position from which the next step starts. After the last step of a lap, this is
   * the start of the next lap.
   */
  nextLap: bigint;
  place: DuePlace;
  /**
   * Seconds until the next step; 0 or less when the lap is late. Null when the lap has visited as
   * many subscriptions as the previous lap and is not over, because the number of subscriptions
   * left is then unknown.
   */
  waitSeconds: number | null;
}

/** The due time that stands for "no due time" in the order of the sweep. */
const ENDED = new Date('9999-01-01T00:00:00Z');

/** SQL condition: an ended subscription without a due time that the sweep reads. */
const isPullable = (sql: Queryable) => sql`
  s.pullable and s.status in ('cancelled', 'expired')
    and (select due_at is null from subscription_work where subscription_id = s.id)`;

/**
 * Returns the position of the last subscription in the order of the sweep. If the sweep later finds
 * a subscription beyond this position, that subscription was registered or rescheduled in the
 * meantime.
 */
export async function lastPlace(sql: Queryable): Promise<DuePlace> {
  const [last] = await sql<DuePlace[]>`
    (select ${ENDED}::timestamptz as due_at, s.id from subscriptions s where ${isPullable(sql)}
      order by s.id desc limit 1)
    union all
    (select due_at, subscription_id from subscription_work where due_at is not null
      order by due_at desc, subscription_id desc limit 1)
    order by due_at desc limit 1`;
  return last ?? { dueAt: new Date(0), id: FIRST_ID };
}

/**
 * Advances the sweep by up to `limit` subscriptions. Returns undefined before the start time of the
 * lap, and while another keeper takes a step. `hurry` ignores the start time.
 */
export async function stepSweep(
  sql: Queryable,
  { pace, hurry, limit }: { pace: SweepPace; hurry: boolean; limit: number },
): Promise<SweepStep | undefined> {
  const [step] = await sql<
    (Omit<SweepStep, 'after' | 'place'> & {
      afterDueAt: Date;
      afterId: string;
      dueAt: Date;
      id: string;
    })[]
  >`
    with walk as (
      select name, lap, due_at, id from sweeps
      where starts_at <= now() or ${hurry} for update skip locked
    ),
    batch as (
      select next.due_at, next.id from walk cross join lateral (
        (select due_at, subscription_id as id from subscription_work where due_at is not null
          and (due_at, subscription_id) > (walk.due_at, walk.id)
        order by due_at, subscription_id limit ${limit})
        union all
        (select ${ENDED}::timestamptz, s.id from subscriptions s where ${isPullable(sql)}
          and s.id > case when walk.due_at < ${ENDED} then ${FIRST_ID}::uuid else walk.id end
        order by s.id limit ${limit})
        order by 1, 2 limit ${limit}
      ) next
    ),
    taken as (
      select w.name, w.lap, w.due_at as after_due_at, w.id as after_id, count(b.id)::int as count,
        count(b.id) < ${limit} as is_over,
        array_agg(b.id) filter (where b.id is not null) as ids,
        (array_agg(b.due_at order by b.due_at desc, b.id desc))[1] as due_at,
          (array_agg(b.id order by b.due_at desc, b.id desc))[1] as id
      from walk w left join batch b on true
      group by w.name, w.lap, w.due_at, w.id
    ),
    moved as (
      update sweeps s set
        lap = s.lap + case when t.is_over then 1 else 0 end,
        starts_at = case when t.is_over then greatest(now(), s.starts_at + ${pace.everySeconds} *
          interval '1 second')
          else least(s.starts_at, now()) end,
        due_at = case when t.is_over then 'epoch' else t.due_at end,
        id = case when t.is_over then '00000000-0000-0000-0000-000000000000' else t.id end,
        taken = case when t.is_over then 0 else s.taken + t.count end,
        length = case when t.is_over then s.taken + t.count else s.length end
      from taken t
      where s.name = t.name
      returning s.lap, s.due_at, s.id, s.taken, s.length,
        extract(epoch from s.starts_at - now()) as begins_in
    )
    select coalesce(t.ids, '{}') as ids, t.lap, t.after_due_at, t.after_id, m.lap as next_lap,
      m.due_at, m.id,
      case when t.is_over then m.begins_in
        when m.taken < m.length then m.begins_in + ${pace.withinSeconds}::float8 * m.taken /
          m.length
        when m.begins_in < -${pace.withinSeconds}::float8 then 0 end::float8 as wait_seconds
    from taken t join moved m on true`;
  if (step === undefined) return undefined;
  const { afterDueAt, afterId, dueAt, id, ...rest } = step;
  return { ...rest, after: { dueAt: afterDueAt, id: afterId }, place: { dueAt, id } };
}
