// Chooses the transaction version. A version 1 transaction has room for ten payments, a legacy
// transaction for two or three. Some clusters do not support version 1 yet.
import type { Log } from '../../log.ts';
import type { RpcError } from '../rpc/errors.ts';
import type { Rpc } from '../rpc/rpc.ts';
import type { TransactionVersion } from './room.ts';

/**
 * Values of the setting SOLANA_TRANSACTION_VERSION. With `auto` the service uses version 1 where
 * the cluster supports it.
 */
export type VersionSetting = 'auto' | '1' | 'legacy';

/**
 * Address of the feature account for version 1 transactions (SIMD-0385). The account shows whether
 * the cluster supports version 1.
 */
const FEATURE = 'txv1aq4pp281K9um3tnPgkfX8UqtFT6wcVW3hNezGLL';
const FEATURE_PROGRAM = 'Feature111111111111111111111111111111111111';
const ACTIVATED = 1;
/**
 * Time (ms) for which a chosen transaction version is used. A version is chosen when the feature
 * account is read, and when an endpoint refuses a version 1 transaction.
 */
const KNOWN_MS = 600_000;
const INVALID_PARAMS = -32602;

/** Chooses the version of each transaction that the keeper signs. */
export class TransactionVersions {
  readonly #rpc: Pick<Rpc, 'getMultipleAccounts'>;
  readonly #setting: VersionSetting;
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #monotonicMs: () => number;
  #version: TransactionVersion | undefined;
  #knownUntil = -Infinity;

  constructor(
    rpc: Pick<Rpc, 'getMultipleAccounts'>,
    setting: VersionSetting,
    log: Pick<Log, 'info' | 'warn'>,
    monotonicMs: () => number = () => performance.now(),
  ) {
    this.#rpc = rpc;
    this.#setting = setting;
    this.#log = log;
    this.#monotonicMs = monotonicMs;
  }

  /** Returns the transaction version to sign with now. Throws RpcUnreachable or RpcError. */
  async current(): Promise<TransactionVersion> {
    if (this.#setting !== 'auto') return this.#setting === '1' ? 1 : 'legacy';
    const now = this.#monotonicMs();
    if (this.#version !== undefined && now < this.#knownUntil) return this.#version;
    const { accounts } = await this.#rpc.getMultipleAccounts([FEATURE]);
    const [feature = null] = accounts;
    const isActive = feature?.owner === FEATURE_PROGRAM && feature.data[0] === ACTIVATED;
    this.#choose(isActive ? 1 : 'legacy');
    return isActive ? 1 : 'legacy';
  }

  /**
   * Handles an endpoint's refusal of a version 1 transaction. With the setting `auto`, switches to
   * legacy transactions for KNOWN_MS.
   */
  refused(error: RpcError): void {
    if (this.#setting !== 'auto') return;
    if (error.code !== INVALID_PARAMS && !/version|deserialize|sanitize/i.test(error.message))
      return;
    this.#choose('legacy');
  }

  #choose(version: TransactionVersion): void {
    if (version !== this.#version) this.#log.info({ version }, 'transaction version chosen');
    this.#version = version;
    this.#knownUntil = this.#monotonicMs() + KNOWN_MS;
  }
}
