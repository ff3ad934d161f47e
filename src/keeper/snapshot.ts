// One read of the accounts of many subscriptions, each account once, and the assessment of each subscription from it.
import {
  authorityIn,
  type ChainAccount,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../chain/accounts.ts';
import { readAccountGroups } from '../chain/account-groups.ts';
import { authorityAddress, CLOCK_SYSVAR } from '../chain/addresses.ts';
import { ChainDataError, decodeClock } from '../chain/layouts.ts';
import type { ReadOptions } from '../chain/rpc.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import { setbackUntil } from '../domain/backoff.ts';
import type { View } from '../domain/chain-view.ts';
import { decide, sameInstance } from '../domain/decide.ts';
import type { Decision, Findings } from '../domain/decision.ts';
import { draftOf, isLive } from '../domain/transitions.ts';
import type { Closed } from './close.ts';
import { type Addressed, addressesOf, backupsOf } from './account-addresses.ts';
import { findDoubted } from './doubted.ts';
import type { Context } from './preflight.ts';
import { findPulls, partiesOf, pullsInBooks } from './pull-history.ts';

export interface Snapshot {
  /** The oldest slot of any account. */
  slot: bigint;
  /** The chain's clock in Unix seconds, as of the oldest read. */
  now: bigint;
  of(row: HeldSubscription): View;
}

/**
 * Reads all accounts of these subscriptions, those of one subscription in one request; with `periodsOnly` subscription and plan alone, and the other
 * accounts look absent. Throws as the RPC client does.
 */
export async function readSnapshot(
  { rpc, programId, treasuries }: Pick<Context, 'rpc' | 'programId' | 'treasuries'>,
  rows: readonly Addressed[],
  { periodsOnly = false, ...options }: ReadOptions & { periodsOnly?: boolean } = {},
): Promise<Snapshot> {
  const wanted = rows.map((row) => {
    const { subscription, plan, ...others } = addressesOf(row, programId);
    const receivers = backupsOf(row, treasuries).map(({ address }) => address);
    const rest = [...Object.values(others), ...receivers];
    return [CLOCK_SYSVAR, subscription, plan, ...(periodsOnly ? [] : rest)];
  });
  // Without rows too, the chain's time is wanted.
  const groups = await readAccountGroups(
    rpc,
    wanted.length === 0 ? [[CLOCK_SYSVAR]] : wanted,
    options,
  );
  // Rows of one request share plans and receivers: each account is decoded once.
  const decoded = new Map<ChainAccount, unknown>();
  const once: Decoder = (account, decode) => {
    if (account === null) return decode(null);
    if (!decoded.has(account)) decoded.set(account, decode(account));
    return decoded.get(account) as ReturnType<typeof decode>;
  };
  const clockIn = (account: ChainAccount | null) => {
    if (account === null) throw new ChainDataError('the Clock sysvar has no account');
    return decodeClock(account.data).unixTimestamp;
  };
  const views = new Map<string, View>();
  const nows: bigint[] = [];
  for (const [place, { slot, accounts }] of groups.entries()) {
    const [clock = null, ...others] = accounts;
    const now = once(clock, clockIn);
    nows.push(now);
    const row = rows[place];
    if (row === undefined) continue;
    const address = authorityAddress(programId, row.subscriberWallet, row.mint).address;
    const backups = backupsOf(row, treasuries).map(({ wallet }) => wallet);
    const known = { slot, now, authority: address, backups, once };
    views.set(keyOf(row), viewOf(others, programId, known));
  }
  const least = (values: readonly bigint[]) =>
    values.reduce((low, one) => (one < low ? one : low), values[0] ?? 0n);
  return {
    slot: least(groups.map(({ slot }) => slot)),
    now: least(nows),
    of(row) {
      const view = views.get(keyOf(row));
      if (view === undefined) throw new Error(`${row.subscriptionPda} is not in the snapshot`);
      return view;
    },
  };
}

/** Rows of one subscription have the same accounts, but for the treasury of the plan's record. */
const keyOf = ({ subscriptionPda, treasury }: Addressed) => `${subscriptionPda} ${treasury}`;

/** Decodes an account once. */
type Decoder = <T>(account: ChainAccount | null, decode: (account: ChainAccount | null) => T) => T;

function viewOf(
  accounts: readonly (ChainAccount | null)[],
  programId: string,
  {
    slot,
    now,
    authority: authorityAddress,
    backups,
    once,
  }: {
    slot: bigint;
    now: bigint;
    authority: string;
    backups: readonly string[];
    once: Decoder;
  },
): View {
  const [subscription = null, plan = null, authority = null, ...tokens] = accounts;
  const [subscriberTokens = null, merchantTokens = null, treasuryTokens = null, ...others] = tokens;
  try {
    return {
      slot,
      now,
      subscription: once(subscription, (account) => subscriptionIn(account, programId)),
      plan: once(plan, (account) => planIn(account, programId)),
      authority: once(authority, (account) => authorityIn(account, programId)),
      authorityAddress,
      subscriberTokens: once(subscriberTokens, tokenAccountIn),
      merchantTokens: once(merchantTokens, tokenAccountIn),
      treasuryTokens: once(treasuryTokens, tokenAccountIn),
      backupTreasuries: backups.map((wallet, place) => ({
        wallet,
        tokens: once(others[place] ?? null, tokenAccountIn),
      })),
    };
  } catch (error) {
    if (error instanceof ChainDataError) return error;
    throw error;
  }
}

/** The snapshot, what was found besides, and the decision for each row. */
export interface Assessed<Row> {
  snapshot: Snapshot;
  findings: Map<string, Findings>;
  decisions: Map<Row, Decision>;
}

/** Decides about one row. Accounts that cannot be decoded are a setback of ours. */
export function assess(
  { rules }: Context,
  row: HeldSubscription,
  snapshot: Snapshot,
  findings: Findings | undefined,
): Decision {
  const view = snapshot.of(row);
  if (!(view instanceof Error)) return decide(row, view, rules, findings);
  const draft = draftOf(row);
  if (!isLive(row)) {
    draft.state.dueAt = null;
    return { draft };
  }
  draft.state.setbacks += 1;
  draft.state.dueAt = setbackUntil(snapshot.now, draft.state.setbacks);
  return { draft, alert: { reason: 'malformed', detail: view.message } };
}

/** The findings with the mark of which pulls are recorded already. */
export function withRecorded(
  findings: Findings | undefined,
  isRecorded: (signature: string) => boolean,
): Findings | undefined {
  if (findings?.pulls === undefined) return findings;
  return {
    ...findings,
    pulls: findings.pulls.map((pull) => ({
      ...pull,
      recorded: pull.recorded || isRecorded(pull.signature),
    })),
  };
}

/** The account that was registered, null when it is gone, undefined when the accounts cannot be decoded. */
function accountOf(row: HeldSubscription, snapshot: Snapshot) {
  const view = snapshot.of(row);
  return view instanceof Error ? undefined : sameInstance(row, view.subscription);
}

/**
 * Reads the accounts and decides about each row. Pulls that a decision needs are taken from our records, and with `history` from the chain's history,
 * which takes long; else the decision keeps its `needs`. `closed`: closing was tried, and these accounts are closed.
 */
export async function assessAll<Row extends HeldSubscription>(
  context: Context,
  rows: readonly Row[],
  { closed, history }: { closed?: Closed | undefined; history: boolean },
): Promise<Assessed<Row>> {
  const slots = [...rows.map(({ observedSlot }) => observedSlot), ...(closed?.values() ?? [])];
  const minSlot = slots.reduce((highest, slot) => (slot > highest ? slot : highest), 0n);
  const snapshot = await readSnapshot(context, rows, {
    commitment: 'confirmed',
    ...(minSlot > 0n && { minSlot }),
  });
  const findings = new Map<string, Findings>();
  if (closed !== undefined)
    for (const { id } of rows) if (!closed.has(id)) findings.set(id, { closingFailed: true });
  context.absence.read(rows.length);
  for (const [id, doubt] of await findDoubted(context, rows, snapshot, closed))
    findings.set(id, { ...findings.get(id), ...doubt });

  const decisions = new Map(
    rows.map((row) => [row, assess(context, row, snapshot, findings.get(row.id))]),
  );
  const asking = rows.filter((row) => decisions.get(row)?.needs === 'pulls');
  if (asking.length > 0) await findInBooks(context, asking, snapshot, findings);
  if (history)
    await findInHistory(
      context,
      asking.filter(({ id }) => findings.get(id)?.pulls === undefined),
      snapshot,
      findings,
    );
  for (const row of asking)
    decisions.set(row, assess(context, row, snapshot, findings.get(row.id)));
  return { snapshot, findings, decisions };
}

async function findInBooks(
  context: Context,
  asking: readonly HeldSubscription[],
  snapshot: Snapshot,
  findings: Map<string, Findings>,
): Promise<void> {
  const booked = await pullsInBooks(context.sql, asking, (row) => accountOf(row, snapshot) ?? null);
  for (const [id, pulls] of booked)
    findings.set(id, { ...findings.get(id), pulls, pulledFinally: true });
}

async function findInHistory(
  context: Context,
  asking: readonly HeldSubscription[],
  snapshot: Snapshot,
  findings: Map<string, Findings>,
): Promise<void> {
  if (asking.length === 0) return;
  const final = await readSnapshot(context, asking, { commitment: 'finalized', periodsOnly: true });
  for (const row of asking) {
    const account = accountOf(row, snapshot);
    if (account === undefined) continue;
    const finalAccount = accountOf(row, final);
    if (account === null && finalAccount !== null) {
      findings.set(row.id, { ...findings.get(row.id), closingNotFinal: true });
      continue;
    }
    // The first period of a registration is the one that runs: earlier pulls belong to no period of it.
    const first =
      account?.periodStart ??
      (row.periodAnchor === null ? snapshot.now : unixSeconds(row.periodAnchor));
    const isPaid =
      account !== null && row.paidThrough !== null && row.paidThrough > timeOf(account.periodStart);
    const since = row.paidThrough === null || isPaid ? first : unixSeconds(row.paidThrough);
    const history = await findPulls(context.rpc, partiesOf(context, row), since);
    context.reportUnreadable(history?.unreadable ?? []);
    const pulls = history?.pulls.map((pull) => ({ ...pull, recorded: false }));
    const isFinal =
      account !== null &&
      finalAccount?.periodStart === account.periodStart &&
      finalAccount.amountPulled === account.amountPulled;
    findings.set(row.id, {
      ...findings.get(row.id),
      ...(pulls === undefined
        ? { tooMany: true }
        : {
            pulls,
            ...(history !== undefined && history.unreadable.length > 0 && { unreadable: true }),
            ...(isFinal && { pulledFinally: true }),
          }),
    });
  }
}
