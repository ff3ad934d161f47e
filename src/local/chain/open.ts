import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { head } from './accounts.ts';
import { chainTime, openBlock, produceBlock } from './blocks.ts';
import { RENT_LAMPORTS_PER_BYTE, setRent } from './cluster-settings.ts';
import { openStore, type Restored } from './disk/store.ts';
import { GENESIS_HASH, writeGenesis } from './genesis.ts';
import type { Block, Chain, ChainEvents, Store } from './state.ts';
import { openVm } from './vm.ts';

const HOUR_MS = 3_600_000;

/** Returns the content of a new chain, whose clock starts `hoursAgo` hours in the past. */
function fresh(hoursAgo: number): Restored {
  const offset = -hoursAgo * HOUR_MS;
  const time = Date.now() + offset;
  const genesis: Block = {
    slot: 0,
    parentSlot: 0,
    height: 0,
    time,
    hash: '',
    undo: new Map(),
    transactions: [],
  };
  return {
    seed: randomBytes(32),
    genesisHash: GENESIS_HASH,
    offset,
    epochStart: { epoch: 0, time: Math.floor(time / 1000) },
    transactionCount: 0,
    snapshot: new Uint8Array(),
    accounts: new Map(),
    blocks: [genesis],
    landed: [],
  };
}

function assemble(blockMs: number, restored: Restored, store: Store | null): Chain {
  const { snapshot, accounts, seed, genesisHash, offset, epochStart, transactionCount } = restored;
  const vm = openVm(snapshot.length === 0 ? undefined : snapshot);
  for (const [key, state] of accounts) vm.write(key, state);
  const blocks = [...restored.blocks];
  const landed = [...restored.landed];
  return {
    vm,
    blockMs,
    seed,
    genesisHash,
    blocks,
    floor: blocks.at(-1)?.height ?? 0,
    offset,
    epochStart,
    hot: new Map(),
    landed,
    byId: new Map(landed.map((one) => [one.id, one])),
    firstPayload: 0,
    transactionCount,
    held: [],
    faults: { drop: 0, hold: null, lag: 0, height: null, rate: null, responses: [] },
    events: new EventEmitter<ChainEvents>().setMaxListeners(0),
    store,
  };
}

/**
 * Opens a new chain, or the chain stored in `dataDir`. If `blockMs` is 0, blocks are made only on
 * demand, with times SLOT_MS apart. A stored chain keeps its clock, and its stored blocks count as
 * finalized. `rentLamportsPerByte` also changes the rent of a stored chain. Throws an OperatorError
 * for a missing program binary or an unusable directory.
 */
export function openChain(
  blockMs: number,
  dataDir: string | undefined,
  rentLamportsPerByte?: number,
  hoursAgo = 0,
): Chain {
  const { restored, store } =
    dataDir === undefined ? { restored: null, store: null } : openStore(dataDir);
  try {
    const chain = assemble(blockMs, restored ?? fresh(hoursAgo), store);
    if (restored === null) {
      chain.vm.setRent(rentLamportsPerByte ?? RENT_LAMPORTS_PER_BYTE);
      writeGenesis(chain.vm);
      // The clock of a new LiteSVM does not start at slot 0, so the clock is set to slot 0 here.
      chain.vm.setClock({
        slot: 0,
        epoch: 0,
        epochStart: chain.epochStart.time,
        time: chain.epochStart.time,
      });
      // This call seals the first block. The store then takes its first snapshot.
      produceBlock(chain, 1);
    } else {
      const last = head(chain);
      openBlock(chain, last, last.slot + 1, chainTime(chain));
      if (rentLamportsPerByte !== undefined) setRent(chain, rentLamportsPerByte);
    }
    return chain;
  } catch (error) {
    store?.close();
    throw error;
  }
}
