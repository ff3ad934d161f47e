// `billing reconcile`: compares every recorded payment with the chain, and every payment that a
// keeper pulled on chain with the recorded payments.
import { oneChain, SUBSCRIPTIONS_PROGRAM } from '../../../chain/clusters.ts';
import { createRpc } from '../../../chain/rpc/client.ts';
import { RpcError, RpcUnreachable } from '../../../chain/rpc/errors.ts';
import { required } from '../../../config/config.ts';
import { startRateShare } from '../../../daemon/rate-share.ts';
import { type CommandResources, runCommand } from '../../../daemon/run.ts';
import { storeReconciliation } from '../../../db/operating/reconciliation.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../../db/postgres/notify.ts';
import { keeperAddressOf } from '../../../domain/accounts/keeper-address.ts';
import { OperatorError } from '../../../errors.ts';
import { parseTime } from '../../arguments.ts';
import { print, printJson, painter } from '../../terminal/print.ts';
import { withProgress } from '../../terminal/progress.ts';
import { table } from '../../terminal/table.ts';
import { type ReasonFlag, record } from '../recorded.ts';
import { reconcile, type Reconciliation } from './compare.ts';
import type { RecordRepair } from './credits.ts';

export interface ReconcileFlags extends ReasonFlag {
  since?: string;
  until?: string;
  repair?: boolean;
}

const DAY_MS = 86_400_000;

/**
 * Compares the recorded payments with the chain and prints each difference. Returns 1 if unrepaired
 * differences are left. Unreadable transactions are printed but not counted as differences.
 * Otherwise anyone could make the command fail, because anyone can send a transaction that names
 * the keeper. Without --since and --until, the command compares the last 30 days and stores the
 * result for the metrics.
 */
export function reconcileBooks(flags: ReconcileFlags): Promise<number> {
  const until = parseTime('--until', flags.until) ?? new Date();
  const since = parseTime('--since', flags.since) ?? new Date(until.getTime() - 30 * DAY_MS);
  const isDefault = flags.since === undefined && flags.until === undefined;
  if (since >= until) throw new OperatorError('--since must be before --until.', 2);
  const command = async ({ config, log, sql }: CommandResources) => {
    const { rpcUrls } = required(config, 'rpcUrls');
    const keeper = await keeperAddressOf(config);
    // The requests of this command and of the keepers share SOLANA_RPC_RATE.
    const rate = await startRateShare('rpc', config.rpcRate, { sql, log });
    const rpc = createRpc({
      urls: rpcUrls,
      refuses: oneChain(config.cluster),
      requestsPerSecond: rate.now,
      log,
    });
    try {
      if (flags.repair === true) {
        const range = `payments from ${since.toISOString()} to ${until.toISOString()}`;
        await record(sql, 'reconcile --repair', range, flags);
      }
      const reconciler = {
        sql,
        rpc,
        programId: config.programId ?? SUBSCRIPTIONS_PROGRAM,
        keepers: config.keeperAddresses ?? (keeper === undefined ? [] : [keeper]),
        publicUrl: config.publicUrl,
        recordRepair: recorderOf(flags),
      };
      const result = await withProgress('comparing with the chain', ({ update }) =>
        reconcile(reconciler, {
          since,
          until,
          repair: flags.repair === true,
          onProgress: ({ onChain, recorded }) =>
            update(`${onChain} pulls read, ${recorded} recorded payments compared`),
        }),
      );
      for (const { kind, repaired, signature, subscriptionPda } of result.differences)
        if (kind === 'charged_twice' && repaired)
          log.error({ signature, subscriptionPda, reason: kind }, 'charged twice');
      const hasRegistered = result.unregistered.some(({ registered }) => registered);
      if (hasRegistered || result.differences.some(({ repaired }) => repaired)) {
        const notifier = createNotifier(sql, DELIVERIES_QUEUED);
        notifier.notify();
        await notifier.flush();
      }
      const left = leftOf(result);
      if (isDefault) {
        const { recorded, onChain } = result;
        const unreadable = unreadableOf(result);
        await storeReconciliation(sql, { recorded, onChain, differences: left, unreadable });
      }
      if (flags.json === true) printJson({ since, until, ...result });
      else {
        print(describe(result, flags.repair === true));
        if (result.unregistered.length > 0) print(describeUnregistered(result));
      }
      return left === 0 ? 0 : 1;
    } catch (error) {
      if (error instanceof RpcUnreachable || error instanceof RpcError)
        throw new OperatorError(`${error.message}.`, 1, { cause: error });
      throw error;
    } finally {
      await rpc.close();
      await rate.stop();
    }
  };
  return runCommand(flags.envFile, command, { role: 'reconcile' });
}

const recorderOf =
  (flags: ReconcileFlags): RecordRepair =>
  (tx, what) =>
    record(tx, 'reconcile --repair', what, flags);

/** The differences that --repair can mend. */
const MENDABLE = ['not_recorded', 'charged_twice', 'after_end', 'unexplained', 'credits_differ'];

/** Counts the unrepaired differences. Unreadable transactions do not count (see reconcileBooks). */
const leftOf = ({ differences }: Reconciliation) =>
  differences.filter(({ kind, repaired }) => !repaired && kind !== 'unreadable').length;

const unreadableOf = ({ differences }: Reconciliation) =>
  differences.filter(({ kind }) => kind === 'unreadable').length;

/**
 * Lists the accounts that had no registration, with their merchants, so that the operator can write
 * to these merchants.
 */
function describeUnregistered({ unregistered }: Reconciliation): string {
  const rows = unregistered.map((one) => [
    one.registered,
    one.merchantWallet,
    one.planName,
    one.subscriberWallet,
    one.subscriptionPda,
    one.reason ?? '',
  ]);
  const head = ['REGISTERED NOW', 'MERCHANT', 'PLAN', 'WALLET', 'SUBSCRIPTION', 'WHY NOT'];
  const count = unregistered.filter(({ registered }) => registered).length;
  return `${table(head, rows, painter(process.stdout))}${unregistered.length} subscriptions on chain had no registration: ${count} are registered now.`;
}

function describe(result: Reconciliation, repair: boolean): string {
  const { recorded, onChain, differences } = result;
  const compared = `${recorded} recorded payments and ${onChain} pulls on chain were compared`;
  const { pulls, plans } = result.elsewhere;
  const others =
    pulls === 0
      ? ''
      : `\n${pulls} pulls of ${plans} plans that are not in this database were not compared: those of other cells.`;
  if (differences.length === 0) return `${compared}: no difference.${others}`;
  const rows = differences.map(({ kind, signature, subscriptionPda, detail, repaired }) => [
    kind,
    signature,
    subscriptionPda,
    ...(repair ? [repaired] : []),
    detail,
  ]);
  const head = [
    'DIFFERENCE',
    'TRANSACTION',
    'SUBSCRIPTION',
    ...(repair ? ['REPAIRED NOW'] : []),
    'DETAIL',
  ];
  const unreadable = unreadableOf(result);
  const unread =
    unreadable === 0 ? '' : ` ${unreadable} transactions are unreadable and were not compared.`;
  const hint =
    !repair && differences.some(({ kind }) => MENDABLE.includes(kind))
      ? ' --repair records missing payments, and mends credit where the right value is certain.'
      : '';
  return `${table(head, rows, painter(process.stdout))}${compared}: ${differences.length - unreadable} differences, ${leftOf(result)} left.${unread}${hint}${others}`;
}
