import { type Rule, RuleTester } from 'eslint';
import t from 'tap';

const { href } = new URL('./named-columns.js', import.meta.url);
const { default: rule } = (await import(href)) as { default: Rule.RuleModule };

const star = [{ messageId: 'star' }];
const statement = (text: string) => ({ name: text, code: `sql\`${text}\`` });

void t.test(
  'the lint rule reports `select *` from a table, but not from a query with named columns',
  async (t) => {
    RuleTester.describe = (_: string, run: () => void) => run();
    RuleTester.it = (name: string, run: () => void) => {
      run();
      t.pass(name);
    };
    new RuleTester().run('named-columns', rule, {
      valid: [
        'select id, name from plans',
        'select count(*) from plans',
        'select count(*)::int as count, 2 * amount, amount * 2 from plans',
        'select sum(a) * 2, b * ${hours}::int from plans',
        'select coalesce(a, 0) * b, interval * 3 from plans where a * b > 3',
        'select * from json_to_recordset(${rows}::text::json) as given (id uuid)',
        'select * from (select id from plans) as found order by id',
        'select * from (${found}) as found',
        'insert into plans (id, name) select * from (${rows}) as given returning id, name',
        'with found as (select id from plans) select * from found order by id limit 1',
        'with recursive head (id) as (select id from plans) select * from head',
        'with found as materialized (${found}) select found.* from found',
        'select each.* from apps app cross join lateral (select id from plans) as each',
        'select given.*, e.id from json_to_recordset(${rows}) as given (id uuid) join events e on true',
        'with lives as (select id from plans), subs as (select l.*, 1 as n from lives l) select id from subs',
        'select * from unnest(${ids}::uuid[]) as wanted (id)',
        'update plans set amount = amount * 2 returning id',
        'A text that may select * from plans is none'.replace('select', 'choose'),
      ].map(statement),
      invalid: [
        'select * from plans',
        'select * from plans where id = ${id}',
        'select distinct * from plans',
        'select id, * from plans',
        'select p.* from plans p',
        'select p.*, a.name from plans as p join apps a on a.id = p.app_id',
        'select plans.* from plans',
        'select * from apps cross join lateral (select id from plans) as each',
        'select * from (select id from apps) as a join plans on true',
        'select * from (select id from apps) as a, plans',
        'select * from (select * from plans) as found',
        'select id from (select p.* from plans p) as found',
        'select * from ${table}',
        'insert into plans (id) values (${id}) returning *',
        'update plans p set name = 1 from stale where p.id = stale.id returning p.*',
        'delete from plans where id = ${id} returning *',
        'with gone as (delete from plans returning plans.*) select id from gone',
      ]
        .map(statement)
        .map((one) => ({ ...one, errors: star })),
    });
  },
);
