// The files of --data-dir. The file `state-N` is a snapshot of LiteSVM after a certain block. The
// file `log-N` has the blocks and forks after that snapshot, with account changes and transactions.
// A block is logged when it is sealed, so kill -9 loses only the block being built.
import { closeSync, fsyncSync, openSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../../../errors.ts';
import { current } from '../accounts.ts';
import type { Key } from '../keys.ts';
import {
  type Block,
  type Chain,
  type Landed,
  STATUS_BLOCKS,
  type Store,
  TRANSACTIONS_KEPT,
} from '../state.ts';
import { type AccountState, detailsOf } from '../vm.ts';
import { lockDirectory, makeDataDir } from './data-dir.ts';
import { appendRecord, readRecords, replaceFile } from './log-file.ts';

/**
 * Size in bytes at which a log is complete. The store then takes a new snapshot and begins a new
 * log.
 */
const LOG_BYTES = 32 * 1024 * 1024;
const FORMAT = 1;

type Accounts = readonly (readonly [Key, AccountState | null])[];

interface BlockRecord {
  readonly kind: 'block';
  readonly block: Omit<Block, 'undo' | 'transactions'>;
  readonly accounts: Accounts;
  readonly transactions: readonly Landed[];
  readonly offset: number;
  readonly epochStart: Chain['epochStart'];
  readonly transactionCount: number;
}

interface ForkRecord {
  readonly kind: 'fork';
  readonly height: number;
  readonly accounts: Accounts;
}

/** A chain that was read from its data directory. */
export interface Restored extends Pick<
  Chain,
  'seed' | 'genesisHash' | 'offset' | 'epochStart' | 'transactionCount'
> {
  readonly snapshot: Uint8Array;
  /** Accounts that changed after the snapshot was taken. */
  readonly accounts: ReadonlyMap<Key, AccountState | null>;
  /** Sealed blocks in order of height. Without the block that was being built. */
  readonly blocks: readonly Block[];
  readonly landed: readonly Landed[];
}

interface StateRecord extends Pick<
  Chain,
  'seed' | 'genesisHash' | 'offset' | 'epochStart' | 'transactionCount'
> {
  readonly format: number;
  readonly snapshot: Uint8Array;
  readonly block: BlockRecord['block'];
}

const numbered = (dir: string, kind: 'state' | 'log') =>
  readdirSync(dir)
    .map((name) => new RegExp(`^${kind}-(\\d+)$`).exec(name)?.[1])
    .filter((number) => number !== undefined)
    .map(Number)
    .sort((a, b) => a - b);

const fileOf = (dir: string, kind: 'state' | 'log', index: number) => join(dir, `${kind}-${index}`);

function readState(dir: string): { index: number; state: StateRecord } | null {
  const indexes = numbered(dir, 'state').reverse();
  for (const index of indexes) {
    const found: StateRecord[] = [];
    readRecords(fileOf(dir, 'state', index), false, (value) => found.push(value as StateRecord));
    const [state] = found;
    if (state === undefined) continue;
    if (state.format !== FORMAT)
      throw new OperatorError(
        `${dir} was written by another release: delete it, or name another --data-dir`,
      );
    return { index, state };
  }
  if (indexes.length > 0)
    throw new OperatorError(`${dir} has no readable state: delete it, or name another --data-dir`);
  return null;
}

/**
 * The size of one log file. The numbers of blocks and transactions decide when the file can be
 * removed.
 */
interface LogSize {
  readonly index: number;
  blocks: number;
  transactions: number;
  bytes: number;
}

function restore(dir: string): { restored: Restored; index: number; logs: LogSize[] } | null {
  const found = readState(dir);
  if (found === null) return null;
  const { index, state } = found;
  const first: Block = { ...state.block, undo: new Map(), transactions: [] };
  let blocks: Block[] = [];
  let landed: Landed[] = [];
  const accounts = new Map<Key, AccountState | null>();
  const facts = {
    offset: state.offset,
    epochStart: state.epochStart,
    transactionCount: state.transactionCount,
  };
  const logs: LogSize[] = [];
  for (const number of numbered(dir, 'log')) {
    const size: LogSize = { index: number, blocks: 0, transactions: 0, bytes: 0 };
    // `index` is the number of the newest readable snapshot. The logs before this number must end
    // with the snapshot's block. If they end with another block, some blocks are missing, and the
    // earlier blocks are discarded.
    if (number === index && blocks.at(-1)?.height !== first.height)
      [blocks, landed] = [[first], []];
    size.bytes = readRecords(fileOf(dir, 'log', number), number >= index, (value) => {
      const record = value as BlockRecord | ForkRecord;
      if (number >= index) for (const [key, account] of record.accounts) accounts.set(key, account);
      if (record.kind === 'fork') {
        blocks = blocks.filter(({ height }) => height <= record.height);
        landed = landed.filter(({ height }) => height <= record.height);
        return;
      }
      if (blocks.length > 0 && blocks.at(-1)?.height !== record.block.height - 1)
        [blocks, landed] = [[], []];
      blocks.push({ ...record.block, undo: new Map(), transactions: [] });
      landed.push(...record.transactions);
      size.blocks += 1;
      size.transactions += record.transactions.length;
      facts.transactionCount = record.transactionCount;
      if (number >= index)
        Object.assign(facts, { offset: record.offset, epochStart: record.epochStart });
    });
    logs.push(size);
  }
  if ((blocks.at(-1)?.height ?? -1) < first.height) [blocks, landed] = [[first], []];
  const { seed, genesisHash, snapshot } = state;
  return {
    restored: { seed, genesisHash, snapshot, accounts, blocks, landed, ...facts },
    index,
    logs,
  };
}

function plain(landed: Landed): Landed {
  const { payload } = landed;
  if (payload !== null && !('units' in payload.details))
    payload.details = detailsOf(payload.details);
  return landed;
}

const bare = ({ slot, parentSlot, height, time, hash }: Block) => ({
  slot,
  parentSlot,
  height,
  time,
  hash,
});

/** A data directory that this process has locked. */
class DataDirectory implements Store {
  readonly #dir: string;
  readonly #unlock: () => void;
  readonly #logs: LogSize[];
  #index: number;
  #fd = -1;

  constructor(dir: string, unlock: () => void, found: ReturnType<typeof restore>) {
    this.#dir = dir;
    this.#unlock = unlock;
    this.#logs = found?.logs ?? [];
    this.#index = found === null ? -1 : Math.max(found.index, this.#logs.at(-1)?.index ?? 0);
    if (found !== null) this.#openLog();
  }

  append(chain: Chain, block: Block): void {
    const log = this.#logs.at(-1);
    // A new chain has no log yet. Its first block is stored in the first snapshot instead of a log
    // record.
    if (log === undefined) {
      this.#snapshot(chain, block);
      return;
    }
    const record: BlockRecord = {
      kind: 'block',
      block: bare(block),
      accounts: Array.from(block.undo.keys(), (key) => [key, current(chain, key)] as const),
      transactions: block.transactions.map(plain),
      offset: chain.offset,
      epochStart: chain.epochStart,
      transactionCount: chain.transactionCount,
    };
    log.bytes += appendRecord(this.#fd, record);
    log.blocks += 1;
    log.transactions += block.transactions.length;
    if (log.bytes >= LOG_BYTES) this.#snapshot(chain, block);
  }

  appendFork(height: number, accounts: ReadonlyMap<Key, AccountState | null>): void {
    const record: ForkRecord = { kind: 'fork', height, accounts: [...accounts] };
    appendRecord(this.#fd, record);
  }

  close(): void {
    if (this.#fd !== -1) {
      fsyncSync(this.#fd);
      closeSync(this.#fd);
    }
    this.#unlock();
  }

  #openLog(): void {
    if (this.#fd !== -1) closeSync(this.#fd);
    this.#fd = openSync(fileOf(this.#dir, 'log', this.#index), 'a');
    if (this.#logs.at(-1)?.index !== this.#index)
      this.#logs.push({ index: this.#index, blocks: 0, transactions: 0, bytes: 0 });
  }

  #snapshot(chain: Chain, block: Block): void {
    const { seed, genesisHash, offset, epochStart, transactionCount } = chain;
    const state: StateRecord = {
      format: FORMAT,
      ...{ seed, genesisHash, offset, epochStart, transactionCount },
      snapshot: chain.vm.snapshot(),
      block: bare(block),
    };
    this.#index += 1;
    replaceFile(fileOf(this.#dir, 'state', this.#index), state);
    this.#openLog();
    for (const old of numbered(this.#dir, 'state'))
      if (old < this.#index - 1) rmSync(fileOf(this.#dir, 'state', old));
    this.#dropOldLogs();
  }

  #dropOldLogs(): void {
    let blocks = 0;
    let transactions = 0;
    for (const log of [...this.#logs].reverse()) {
      const enough = blocks >= STATUS_BLOCKS && transactions >= TRANSACTIONS_KEPT;
      if (log.index < this.#index - 1 && enough) {
        rmSync(fileOf(this.#dir, 'log', log.index), { force: true });
        this.#logs.splice(this.#logs.indexOf(log), 1);
      }
      blocks += log.blocks;
      transactions += log.transactions;
    }
  }
}

/**
 * Opens and locks a data directory. Creates the directory when it is missing. Throws an
 * OperatorError when another process holds the lock, or when the data cannot be read.
 */
export function openStore(dir: string): { restored: Restored | null; store: Store } {
  makeDataDir(dir);
  const unlock = lockDirectory(dir, '--data-dir');
  try {
    const found = restore(dir);
    return { restored: found?.restored ?? null, store: new DataDirectory(dir, unlock, found) };
  } catch (error) {
    unlock();
    throw error;
  }
}
