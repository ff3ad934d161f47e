// `billing collection hold|resume`: `hold` stops the signing of new payments, `resume` ends the
// hold. A hold applies to all payments, or only to those of one merchant or one plan.
import type { Command } from 'commander';
import { operator } from '../../config/operator.ts';
import { runCommand } from '../../daemon/run.ts';
import {
  type Change,
  holdCollection,
  listHolds,
  resumeCollection,
  type Scope,
} from '../../db/operating/collection-holds.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { heldInWords } from '../../domain/collecting/brake.ts';
import { OperatorError } from '../../errors.ts';
import { type CommonFlags, type SetExitCode, parseId, parseReason, withEnv } from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { merchantOf } from './named-merchant.ts';

interface CollectionFlags extends CommonFlags {
  /** Wallet or id of the merchant. A command has --merchant or --plan, not both. */
  merchant?: string;
  plan?: string;
  reason: string;
}

export function addCollection(collection: Command, setExitCode: SetExitCode): void {
  const scoped = (name: string, description: string) =>
    withEnv(collection.command(name).description(description))
      .option('--merchant <wallet>', 'only of this merchant (wallet or id)')
      .option('--plan <id>', 'only of this plan')
      .requiredOption('--reason <text>', 'why, for the record and for billing status')
      .option('--json', 'print one JSON object');
  scoped(
    'hold',
    'signs no new payment from now on; what is signed already is settled, and everything else goes on',
  ).action(async (flags: CollectionFlags) => setExitCode(await hold(flags)));
  scoped('resume', 'ends a hold of the same scope').action(async (flags: CollectionFlags) =>
    setExitCode(await resume(flags)),
  );
}

/**
 * Places a hold on collection. A keeper stores each signed payment in Postgres before sending the
 * payment. After the hold, keepers store no new payment, but payments that are already stored are
 * still sent and settled. Returns the exit code.
 */
function hold(flags: CollectionFlags): Promise<number> {
  return changeHolds(flags, async (sql, change) => {
    const isNew = await holdCollection(sql, change);
    return {
      changed: isNew,
      message: isNew
        ? `Collection of ${scopeName(change)} is held: no new payment is signed. Payments that were signed before are sent and settled.`
        : `Collection of ${scopeName(change)} was held already; it has the new reason now.`,
    };
  });
}

function resume(flags: CollectionFlags): Promise<number> {
  return changeHolds(flags, async (sql, change) => {
    const hasEnded = await resumeCollection(sql, change);
    return {
      changed: hasEnded,
      message: hasEnded
        ? `Collection of ${scopeName(change)} continues: what is due is collected within a minute or two.`
        : `Collection of ${scopeName(change)} was not held.`,
    };
  });
}

async function changeHolds(
  { envFile, merchant, plan, reason, json = false }: CollectionFlags,
  act: (
    sql: Parameters<typeof holdCollection>[0],
    change: Change,
  ) => Promise<{ changed: boolean; message: string }>,
): Promise<number> {
  if (merchant !== undefined && plan !== undefined)
    throw new OperatorError('Name a merchant or a plan, not both.', 2);
  const text = parseReason(reason);
  return runCommand(envFile, async ({ sql }) => {
    const scope = await scopeOf(sql, { merchant, plan });
    const { changed, message } = await act(sql, { ...scope, reason: text, by: operator() });
    const holds = await listHolds(sql);
    if (json) printJson({ changed, holds });
    else {
      print(message);
      for (const each of holds) print(`${each.heldAt.toISOString()}: ${heldInWords(each)}`);
    }
    return 0;
  });
}

async function scopeOf(
  sql: Queryable,
  { merchant, plan }: { merchant: string | undefined; plan: string | undefined },
): Promise<Scope & Pick<Change, 'what'>> {
  if (merchant !== undefined) {
    const { id, wallet } = await merchantOf(sql, merchant);
    return { merchantId: id, planId: null, what: `merchant ${wallet}` };
  }
  if (plan === undefined) return { merchantId: null, planId: null, what: null };
  const planId = parseId(plan);
  if ((await findPlan(sql, planId)) === undefined)
    throw new OperatorError(`There is no plan ${planId}.`);
  return { merchantId: null, planId, what: `plan ${planId}` };
}

const scopeName = ({ what }: Change) => what ?? 'all plans';
