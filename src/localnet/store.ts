import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { OperatorError } from '../errors.ts';
import { current } from './accounts.ts';
import { makeDataDir } from './dataDir.ts';
import type { Key } from './keys.ts';
import { appendRecord, readRecords, replaceFile } from './logFile.ts';
import { type Block, type Chain, type Landed, STATUS_BLOCKS, TRANSACTIONS_KEPT } from './state.ts';
import { type AccountState, detailsOf } from './vm.ts';

// --data-dir. `state-N` is LiteSVM's own snapshot after some block, `log-N` every block and fork since then: the accounts that it
// changed, as they then were, and its transactions. A block is in the log the moment it is sealed, so kill -9 loses the one being built.

/** Bytes of a log after which a new snapshot is taken. */
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

/** What a data directory remembers of a chain. */
export interface Restored extends Pick<Chain, 'seed' | 'genesisHash' | 'offset' | 'epochStart' | 'transactionCount'> {
  readonly snapshot: Uint8Array;
  /** Changes since the snapshot. */
  readonly accounts: ReadonlyMap<Key, AccountState | null>;
  /** Ascending; the last one is sealed. */
  readonly blocks: readonly Block[];
  readonly landed: readonly Landed[];
}

interface StateRecord extends Pick<Chain, 'seed' | 'genesisHash' | 'offset' | 'epochStart' | 'transactionCount'> {
  readonly format: number;
  readonly snapshot: Uint8Array;
  readonly block: BlockRecord['block'];
}

/** The open data directory. */
export interface Store {
  /** Records a block that has just been sealed, before anything else changes. */
  append(chain: Chain, block: Block): void;
  /** Records that the blocks above `height` are gone and what accounts went back to. */
  appendFork(height: number, accounts: ReadonlyMap<Key, AccountState | null>): void;
  close(): void;
}

const numbered = (dir: string, kind: 'state' | 'log') =>
  readdirSync(dir)
    .map((name) => new RegExp(`^${kind}-(\\d+)$`).exec(name)?.[1])
    .filter((number) => number !== undefined)
    .map(Number)
    .sort((a, b) => a - b);

const fileOf = (dir: string, kind: 'state' | 'log', index: number) => join(dir, `${kind}-${index}`);

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

// A container's process often has the number that its predecessor had: our own number in a lock is a stale lock, unless we hold it.
const held = new Set<string>();

function lock(dir: string): () => void {
  const path = resolve(dir, 'lock');
  const take = () => writeFileSync(path, String(process.pid), { flag: 'wx' });
  try {
    take();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const pid = Number(readFileSync(path, 'utf8'));
    if (pid === process.pid ? held.has(path) : Number.isInteger(pid) && pid > 0 && isRunning(pid)) {
      throw new OperatorError(`the data directory ${dir} is in use by process ${pid}: stop it, or name another --data-dir`);
    }
    rmSync(path);
    take();
  }
  held.add(path);
  return () => {
    held.delete(path);
    rmSync(path, { force: true });
  };
}

function readState(dir: string): { index: number; state: StateRecord } | null {
  const indexes = numbered(dir, 'state').reverse();
  for (const index of indexes) {
    const found: StateRecord[] = [];
    readRecords(fileOf(dir, 'state', index), false, (value) => found.push(value as StateRecord));
    const [state] = found;
    if (state === undefined) continue;
    if (state.format !== FORMAT) throw new OperatorError(`${dir} was written by another release: delete it, or name another --data-dir`);
    return { index, state };
  }
  if (indexes.length > 0) throw new OperatorError(`${dir} has no readable state: delete it, or name another --data-dir`);
  return null;
}

/** Blocks and transactions of a log, counted for retention. */
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
  const facts = { offset: state.offset, epochStart: state.epochStart, transactionCount: state.transactionCount };
  const logs: LogSize[] = [];
  for (const number of numbered(dir, 'log')) {
    const size: LogSize = { index: number, blocks: 0, transactions: 0, bytes: 0 };
    // The snapshot stands for everything before its log, whatever is left of the older ones.
    if (number === index && blocks.at(-1)?.height !== first.height) [blocks, landed] = [[first], []];
    size.bytes = readRecords(fileOf(dir, 'log', number), number >= index, (value) => {
      const record = value as BlockRecord | ForkRecord;
      if (number >= index) for (const [key, account] of record.accounts) accounts.set(key, account);
      if (record.kind === 'fork') {
        blocks = blocks.filter(({ height }) => height <= record.height);
        landed = landed.filter(({ height }) => height <= record.height);
        return;
      }
      if (blocks.length > 0 && blocks.at(-1)?.height !== record.block.height - 1) [blocks, landed] = [[], []];
      blocks.push({ ...record.block, undo: new Map(), transactions: [] });
      landed.push(...record.transactions);
      size.blocks += 1;
      size.transactions += record.transactions.length;
      facts.transactionCount = record.transactionCount;
      if (number >= index) Object.assign(facts, { offset: record.offset, epochStart: record.epochStart });
    });
    logs.push(size);
  }
  if ((blocks.at(-1)?.height ?? -1) < first.height) [blocks, landed] = [[first], []];
  const { seed, genesisHash, snapshot } = state;
  return { restored: { seed, genesisHash, snapshot, accounts, blocks, landed, ...facts }, index, logs };
}

function plain(landed: Landed): Landed {
  const { payload } = landed;
  if (payload !== null && !('units' in payload.details)) payload.details = detailsOf(payload.details);
  return landed;
}

const bare = ({ slot, parentSlot, height, time, hash }: Block) => ({ slot, parentSlot, height, time, hash });

/** Opens (and makes) a data directory for one process. Throws an OperatorError when another one has it, or it cannot be read. */
export function openStore(dir: string): { restored: Restored | null; store: Store } {
  makeDataDir(dir);
  const unlock = lock(dir);
  const found = restore(dir);
  const logs = found?.logs ?? [];
  let index = found === null ? -1 : Math.max(found.index, logs.at(-1)?.index ?? 0);
  let fd = -1;

  function openLog(): void {
    if (fd !== -1) closeSync(fd);
    fd = openSync(fileOf(dir, 'log', index), 'a');
    if (logs.at(-1)?.index !== index) logs.push({ index, blocks: 0, transactions: 0, bytes: 0 });
  }

  function snapshot(chain: Chain, block: Block): void {
    const { seed, genesisHash, offset, epochStart, transactionCount } = chain;
    const state: StateRecord = {
      format: FORMAT,
      seed,
      genesisHash,
      offset,
      epochStart,
      transactionCount,
      snapshot: chain.vm.snapshot(),
      block: bare(block),
    };
    index += 1;
    replaceFile(fileOf(dir, 'state', index), state);
    openLog();
    for (const old of numbered(dir, 'state')) if (old < index - 1) rmSync(fileOf(dir, 'state', old));
    dropOldLogs();
  }

  function dropOldLogs(): void {
    let blocks = 0;
    let transactions = 0;
    for (const log of [...logs].reverse()) {
      if (log.index < index - 1 && blocks >= STATUS_BLOCKS && transactions >= TRANSACTIONS_KEPT) {
        rmSync(fileOf(dir, 'log', log.index), { force: true });
        logs.splice(logs.indexOf(log), 1);
      }
      blocks += log.blocks;
      transactions += log.transactions;
    }
  }

  if (found !== null) openLog();
  return {
    restored: found?.restored ?? null,
    store: {
      append(chain, block) {
        const log = logs.at(-1);
        // The first block is the snapshot that everything else stands on.
        if (log === undefined) {
          snapshot(chain, block);
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
        log.bytes += appendRecord(fd, record);
        log.blocks += 1;
        log.transactions += block.transactions.length;
        if (log.bytes >= LOG_BYTES) snapshot(chain, block);
      },
      appendFork(height, accounts) {
        const record: ForkRecord = { kind: 'fork', height, accounts: [...accounts] };
        appendRecord(fd, record);
      },
      close() {
        if (fd !== -1) {
          fsyncSync(fd);
          closeSync(fd);
        }
        unlock();
      },
    },
  };
}
