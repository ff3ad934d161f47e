// A stranger sends transactions with subscriptions, the keeper and the program among their
// accounts; the keepers' endpoints return some of these malformed or not at all. The second
// endpoint also lists transactions of the keepers that it cannot return.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { signatureOf } from '../../src/chain/keypair.ts';
import { subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { initAuthority } from '../../src/chain/program/instructions.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { timeOf } from '../../src/chain/time.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { findUncommitted } from '../../src/db/operating/history.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import { walletFromSeed } from '../../src/local/sandbox/wallet.ts';
import { createLog } from '../../src/log.ts';
import { type Ailment, startBadEndpoint } from '../fixtures/bad-endpoint.ts';
import { naming } from '../fixtures/junk.ts';
import type { Player } from './cast.ts';
import type { Ground } from './ground.ts';
import { send } from './send.ts';

/** The forms in which the stranger's transactions are returned; the first two are readable. */
const KINDS = ['as it is', 'version 1', 'version', 'null', 'shape', 'refused'] as const;
const LAMPORTS = 1_000_000_000_000;
/** The second endpoint cannot return one in this number of transactions. */
const LACKS_ONE_OF = 5;
const FAR = new Date('2200-01-01');
const PAGE = 1000;

/**
 * Endpoints in front of the chain's two nodes, the transactions that they do not return, and hooks
 * on a keeper's reads.
 */
export interface BadNodes {
  readonly urls: readonly [string, string];
  readonly ails: Map<string, Ailment>;
  /** Actions to run once between a keeper's read of an account and the response, by address. */
  readonly onRead: Map<string, () => Promise<unknown>>;
  /** When each transaction came to be sent for the last time, in Unix ms, by signature. */
  readonly lastSends: ReadonlyMap<string, number>;
  close(): void;
}

/** Starts both. */
export async function startBadNodes(rpcUrl: string, lagUrl: string): Promise<BadNodes> {
  const ails = new Map<string, Ailment>();
  const onRead: BadNodes['onRead'] = new Map();
  const lastSends = new Map<string, number>();
  const takeDown = (transaction: Buffer) => {
    lastSends.set(signatureOf(transaction), Date.now());
  };
  const act = async (addresses: readonly string[]) => {
    const acts = addresses.flatMap((address) => onRead.get(address) ?? []);
    for (const address of addresses) onRead.delete(address);
    for (const one of acts) await one();
  };
  const lacks = (signature: string) =>
    createHash('sha256').update(signature).digest().readUInt8(0) % LACKS_ONE_OF === 0;
  const [first, second] = await Promise.all([
    startBadEndpoint(rpcUrl, (signature) => ails.get(signature), act, takeDown),
    startBadEndpoint(
      lagUrl,
      (signature) => ails.get(signature) ?? (lacks(signature) ? 'null' : undefined),
      act,
      takeDown,
    ),
  ]);
  return {
    urls: [first.url, second.url],
    ails,
    onRead,
    lastSends,
    close() {
      first.close();
      second.close();
    },
  };
}

export interface Stranger {
  /** Perhaps sends a transaction, unless one is under way. */
  act(random: Random): void;
  /** Whether a transaction of each form has landed. */
  allTried(): boolean;
  /** Resolves when none is under way. */
  over(): Promise<void>;
  /** Landed transactions by kind. */
  counts: Record<string, number>;
}

/** Creates the stranger; no transaction is sent yet. */
export async function createStranger(
  ground: Ground,
  players: readonly Player[],
  seed: Random,
): Promise<Stranger> {
  const { rpc, mint, keeper, badNodes } = ground;
  const wallet = walletFromSeed(seed.seed32());
  await ground.cheat('requestAirdrop', wallet.address, LAMPORTS);
  await ground.cheat('localnet_faucet', wallet.address, 1);
  const counts: Record<string, number> = {};
  let underWay: Promise<void> | undefined;
  let sent = 0n;
  const untried = () => KINDS.filter((kind) => counts[kind] === undefined);

  async function junk(random: Random): Promise<void> {
    const [missing] = untried();
    const kind = missing ?? random.pick(KINDS);
    sent += 1n;
    const named = [random.pick(players), random.pick(players)].map(
      (player) =>
        subscriptionAddress(SUBSCRIPTIONS_PROGRAM, player.plan.pda, player.wallet.address).address,
    );
    const accounts = [...new Set([...named, keeper.address, SUBSCRIPTIONS_PROGRAM])];
    // A second init of the authority has no effect and no event, so the keepers look the
    // transaction up.
    const silent = initAuthority(SUBSCRIPTIONS_PROGRAM, { user: wallet.address, mint });
    const end = await send(
      rpc,
      [wallet],
      [naming(wallet.address, accounts, sent), ...(random.below(2) === 0 ? [silent] : [])],
      (signature) => {
        if (kind !== 'as it is') badNodes.ails.set(signature, kind);
      },
    );
    if (end === 'landed') counts[kind] = (counts[kind] ?? 0) + 1;
  }

  return {
    counts,
    allTried: () => untried().length === 0,
    act(random) {
      if (underWay !== undefined || (untried().length === 0 && random.below(4) > 0)) return;
      underWay = junk(random).finally(() => (underWay = undefined));
    },
    async over() {
      await underWay;
    },
  };
}

/**
 * Compares `billing reconcile` on the good node, where every transaction is readable, and through
 * the keepers' endpoints; false is a breach.
 */
export async function reconcileBreaches({ sql, rpc, keeper, badNodes }: Ground): Promise<string[]> {
  // The local chain forgets old transactions: the newest page of the keeper's is compared.
  const page = await rpc.getSignaturesForAddress(keeper.address, {
    limit: PAGE,
    commitment: 'finalized',
  });
  const oldest = page.length < PAGE ? null : (page.at(-1)?.blockTime ?? null);
  const range = { since: timeOf((oldest ?? -1n) + 1n), until: FAR, repair: false };
  const log = createLog('soak', { level: 'silent', pretty: false, stream: 'stderr' });
  const throughBad = createRpc({ urls: badNodes.urls, log });
  try {
    const reconciler = { sql, programId: SUBSCRIPTIONS_PROGRAM, keepers: [keeper.address] };
    const well = await reconcile({ ...reconciler, rpc }, range);
    const badly = await reconcile({ ...reconciler, rpc: throughBad }, range);
    const isTrue = ({ kind, signature }: { kind: string; signature: string }) =>
      kind === 'unreadable' && badNodes.ails.has(signature);
    return [...well.differences, ...badly.differences.filter((one) => !isTrue(one))].map(
      ({ kind, signature, detail }) => `${kind}: ${signature}: ${detail}`,
    );
  } finally {
    await throughBad.close();
  }
}

/**
 * Number of the stranger's unreadable transactions in the keepers' logs, and alerts by reason. An
 * alert about a payment whose attempt a failover lost, of a subscription that has ended since, is
 * left out: `billing reconcile` records it (docs/runbook.md).
 */
export async function readKeeperLogs({ sql, logDirectory, keepers, badNodes }: Ground): Promise<{
  named: number;
  alerts: Record<string, number>;
}> {
  const named = new Set<string>();
  const alerts: Record<string, number> = {};
  for (const index of keepers.keys()) {
    const text = await readFile(join(logDirectory, `keeper-${index + 1}.log`), 'utf8');
    for (const line of text.split('\n')) {
      const signature = /"signature":"(\w+)".*"msg":"transaction unreadable"/.exec(line)?.[1];
      if (signature !== undefined && badNodes.ails.has(signature)) named.add(signature);
      const reason = /"reason":"(\w+)".*(?:reason that is not the subscriber|"charged twice")/.exec(
        line,
      )?.[1];
      const left = /"detail":"run \\"billing reconcile\\": ([\w, ]+)"/.exec(line)?.[1]?.split(', ');
      if (left !== undefined && (await findUncommitted(sql, left)).size === left.length) continue;
      // True of an endpoint that lags, or forked, while the other one is away.
      if (reason !== undefined && reason !== 'slot_not_reached')
        alerts[reason] = (alerts[reason] ?? 0) + 1;
      if (/cannot be (settled|processed)/.test(line))
        alerts['cannot be done'] = (alerts['cannot be done'] ?? 0) + 1;
    }
  }
  return { named: named.size, alerts };
}
