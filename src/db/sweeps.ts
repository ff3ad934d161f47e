// The keepers' walks through the subscriptions: where each is, and what comes next. All keepers share them.
import type { Queryable } from './connect.ts';
import type { DuePlace } from './subscription-leases.ts';

/** `near`: what falls due soon; `revoked`: what lacks its approval; `all`: whatever has a timer. */
export type SweepName = 'near' | 'revoked' | 'all';

/** How fast a walk goes, seconds. */
export interface SweepPace {
  name: SweepName;
  /** A lap begins no sooner than this after the one before. */
  everySeconds: number;
  /** A lap that is not through in this time is behind, and so is one that is not as far as its share of it. */
  withinSeconds: number;
}

/** One step of a walk. */
export interface SweepStep {
  name: SweepName;
  /** The subscriptions taken. */
  ids: string[];
  /** The lap they are of, and the last place before them. */
  lap: bigint;
  after: DuePlace;
  /** Where the walk is now: at the beginning of the next lap when this one is over. */
  nextLap: bigint;
  place: DuePlace;
  isBehind: boolean;
}

/** The last place at which anything stands now: what is found behind it later was moved or registered meanwhile. */
export async function lastPlace(sql: Queryable): Promise<DuePlace> {
  const [last] = await sql<DuePlace[]>`
    select due_at, id from subscriptions where due_at is not null order by due_at desc, id desc limit 1`;
  return last ?? { dueAt: new Date(0), id: '00000000-0000-0000-0000-000000000000' };
}

/**
 * Goes on by up to `limit` subscriptions in every walk whose lap has begun and that nobody else is moving at this moment. `near` goes from `from` to `to`
 * (chain time); `hurry` begins the lap of `all` though it is not time yet.
 */
export async function stepSweeps(
  sql: Queryable,
  { paces, from, to, hurry, limit }: { paces: readonly SweepPace[]; from: Date; to: Date; hurry: boolean; limit: number },
): Promise<SweepStep[]> {
  const rows = await sql<
    {
      name: SweepName;
      ids: string[];
      lap: bigint;
      afterDueAt: Date;
      afterId: string;
      nextLap: bigint;
      dueAt: Date;
      id: string;
      isBehind: boolean;
    }[]
  >`
    with walk as (
      select * from sweeps where starts_at <= now() or (${hurry} and name = 'all') for update skip locked
    ),
    batch as (
      select w.name, s.due_at, s.id from walk w cross join lateral (
        select due_at, id from subscriptions
        where due_at is not null and due_at > ${from} and due_at <= ${to} and (due_at, id) > (w.due_at, w.id)
        order by due_at, id limit ${limit}
      ) s where w.name = 'near'
      union all
      select w.name, s.due_at, s.id from walk w cross join lateral (
        select due_at, id from subscriptions
        where delegation_revoked_at is not null and due_at is not null and (due_at, id) > (w.due_at, w.id)
        order by due_at, id limit ${limit}
      ) s where w.name = 'revoked'
      union all
      select w.name, s.due_at, s.id from walk w cross join lateral (
        select due_at, id from subscriptions where due_at is not null and (due_at, id) > (w.due_at, w.id)
        order by due_at, id limit ${limit}
      ) s where w.name = 'all'
    ),
    taken as (
      select w.name, w.lap, w.due_at as after_due_at, w.id as after_id, count(b.id)::int as count, count(b.id) < ${limit} as is_over,
        array_agg(b.id) filter (where b.id is not null) as ids,
        (array_agg(b.due_at order by b.due_at desc, b.id desc))[1] as due_at, (array_agg(b.id order by b.due_at desc, b.id desc))[1] as id
      from walk w left join batch b on b.name = w.name
      group by w.name, w.lap, w.due_at, w.id
    ),
    moved as (
      update sweeps s set
        lap = s.lap + case when t.is_over then 1 else 0 end,
        starts_at = case when t.is_over then greatest(now(), s.starts_at + p.every_seconds * interval '1 second') else least(s.starts_at, now()) end,
        due_at = case when t.is_over then 'epoch' else t.due_at end,
        id = case when t.is_over then '00000000-0000-0000-0000-000000000000' else t.id end,
        taken = case when t.is_over then 0 else s.taken + t.count end,
        length = case when t.is_over then s.taken + t.count else s.length end
      from taken t
      join unnest(
        ${paces.map(({ name }) => name)}::text[], ${paces.map(({ everySeconds }) => everySeconds)}::int[],
        ${paces.map(({ withinSeconds }) => withinSeconds)}::int[]
      ) as p (name, every_seconds, within_seconds) on p.name = t.name
      where s.name = t.name
      returning s.name, s.lap, s.due_at, s.id,
        s.taken < s.length * least(1, extract(epoch from now() - s.starts_at) / p.within_seconds)
          or (not t.is_over and extract(epoch from now() - s.starts_at) > p.within_seconds) as is_behind
    )
    select t.name, coalesce(t.ids, '{}') as ids, t.lap, t.after_due_at, t.after_id, m.lap as next_lap, m.due_at, m.id, m.is_behind
    from taken t join moved m on m.name = t.name`;
  return rows.map(({ afterDueAt, afterId, dueAt, id, ...step }) => ({
    ...step,
    after: { dueAt: afterDueAt, id: afterId },
    place: { dueAt, id },
  }));
}
