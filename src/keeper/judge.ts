// What is to be done with each of some subscriptions, and what has to be looked up before that can be said. Step 2 of collecting (chain.md).
import { findPaidAccounts } from '../db/paid-accounts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import { decide, sameInstance } from '../domain/decide.ts';
import type { Decision, Findings } from '../domain/decision.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { setbackUntil } from '../domain/setbacks.ts';
import { draftOf, isLive } from '../domain/transitions.ts';
import type { Closed } from './close.ts';
import type { Context } from './context.ts';
import { findPulls, partiesOf, pullsInBooks } from './pulls.ts';
import { type Reading, readViews } from './read.ts';

/** A merchant's token account is paid for once in so many days: its rent goes to whoever closes it (0.002 SOL, more than any fee of a small plan). */
const ACCOUNT_DAYS = 30;

/** What was read and found out, and what follows from that for each row. */
export interface Looked<Row> {
  reading: Reading;
  findings: Map<string, Findings>;
  decisions: Map<Row, Decision>;
}

/** What is decided about one row; accounts that cannot be understood are a failure of ours. */
export function judge({ rules }: Context, row: HeldSubscription, reading: Reading, findings: Findings | undefined): Decision {
  const view = reading.of(row);
  if (!(view instanceof Error)) return decide(row, view, rules, findings);
  const draft = draftOf(row);
  if (!isLive(row)) {
    draft.state.dueAt = null;
    return { draft };
  }
  draft.state.setbacks += 1;
  draft.state.dueAt = setbackUntil(reading.now, draft.state.setbacks);
  return { draft, alert: { reason: 'malformed', detail: view.message } };
}

/** These findings, with what the books have of the pulls. */
export function withRecorded(findings: Findings | undefined, isRecorded: (signature: string) => boolean): Findings | undefined {
  if (findings?.pulls === undefined) return findings;
  return { ...findings, pulls: findings.pulls.map((pull) => ({ ...pull, recorded: isRecorded(pull.signature) })) };
}

/** The account that was registered, null when it is gone; undefined when what is there cannot be understood. */
function accountOf(row: HeldSubscription, reading: Reading) {
  const view = reading.of(row);
  return view instanceof Error ? undefined : sameInstance(row, view.subscription);
}

/**
 * Reads the accounts, and finds the pulls that some decisions need: in the books, and where those do not tell and `history` says so, in the chain's
 * history, which takes long; otherwise the decision still needs them. `closed` tells which accounts are closed; the others could not be.
 */
export async function lookInto<Row extends HeldSubscription>(
  context: Context,
  rows: readonly Row[],
  { closed, history }: { closed?: Closed | undefined; history: boolean },
): Promise<Looked<Row>> {
  const slots = [...rows.map(({ observedSlot }) => observedSlot), ...(closed?.values() ?? [])];
  const minSlot = slots.reduce((highest, slot) => (slot > highest ? slot : highest), 0n);
  const reading = await readViews(context, rows, { commitment: 'confirmed', ...(minSlot > 0n && { minSlot }) });
  const findings = new Map<string, Findings>();
  if (closed !== undefined) for (const { id } of rows) if (!closed.has(id)) findings.set(id, { closingFailed: true });

  const decisions = new Map(rows.map((row) => [row, judge(context, row, reading, findings.get(row.id))]));
  const asking = rows.filter((row) => decisions.get(row)?.needs === 'pulls');
  if (asking.length > 0) await findInBooks(context, asking, reading, findings);
  if (history)
    await findInHistory(
      context,
      asking.filter(({ id }) => findings.get(id)?.pulls === undefined),
      reading,
      findings,
    );
  for (const row of asking) decisions.set(row, judge(context, row, reading, findings.get(row.id)));
  for (const row of await findPaidFor(context, decisions)) {
    findings.set(row.id, { ...findings.get(row.id), accountPaidFor: true });
    decisions.set(row, judge(context, row, reading, findings.get(row.id)));
  }
  return { reading, findings, decisions };
}

/** Those whose payment would create an account for the merchant that we paid for not long ago. The treasury's is our own. */
async function findPaidFor<Row extends HeldSubscription>({ sql }: Context, decisions: ReadonlyMap<Row, Decision>): Promise<Row[]> {
  const creating = [...decisions].flatMap(([row, { collect }]) =>
    collect?.createAccountsFor.includes(row.merchantWallet) === true && row.merchantWallet !== row.treasury ? [row] : [],
  );
  if (creating.length === 0) return [];
  const wallets = new Set(creating.map(({ merchantWallet }) => merchantWallet));
  const paid = new Set(await findPaidAccounts(sql, [...wallets], ACCOUNT_DAYS));
  return creating.filter(({ merchantWallet }) => paid.has(merchantWallet));
}

async function findInBooks(
  context: Context,
  asking: readonly HeldSubscription[],
  reading: Reading,
  findings: Map<string, Findings>,
): Promise<void> {
  const booked = await pullsInBooks(context.sql, asking, (row) => accountOf(row, reading) ?? null);
  for (const [id, pulls] of booked) findings.set(id, { ...findings.get(id), pulls, pulledFinally: true });
}

async function findInHistory(
  context: Context,
  asking: readonly HeldSubscription[],
  reading: Reading,
  findings: Map<string, Findings>,
): Promise<void> {
  if (asking.length === 0) return;
  const final = await readViews(context, asking, { commitment: 'finalized', periodsOnly: true });
  for (const row of asking) {
    const account = accountOf(row, reading);
    if (account === undefined) continue;
    const settled = accountOf(row, final);
    if (account === null && settled !== null) {
      findings.set(row.id, { ...findings.get(row.id), closingNotFinal: true });
      continue;
    }
    // A registration's first period is the one that runs; what was pulled before it is not this registration's.
    const first = account?.periodStart ?? (row.periodAnchor === null ? reading.now : unixSeconds(row.periodAnchor));
    const isPaid = account !== null && row.paidThrough !== null && row.paidThrough > timeOf(account.periodStart);
    const since = row.paidThrough === null || isPaid ? first : unixSeconds(row.paidThrough);
    const found = await findPulls(context.rpc, partiesOf(context, row), since);
    const pulls = found?.map((pull) => ({ ...pull, recorded: false }));
    const isFinal = account !== null && settled?.periodStart === account.periodStart && settled.amountPulled === account.amountPulled;
    findings.set(row.id, {
      ...findings.get(row.id),
      ...(pulls === undefined ? { tooMany: true } : { pulls, ...(isFinal && { pulledFinally: true }) }),
    });
  }
}
