import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { SUBSCRIPTIONS_PROGRAM } from '../../chain/clusters.ts';
import { OperatorError } from '../../errors.ts';
import { head } from './accounts.ts';
import { airdrop, mintUsdc } from './faucet.ts';
import { type Destination, timeTravel } from './fork.ts';
import { faucet, LOCALNET_MINT } from './genesis.ts';
import { openChain } from './open.ts';
import { clearFaults } from './rpc/faults.ts';
import { buildHttp } from './rpc/http-server.ts';
import { buildWs } from './rpc/ws-server.ts';
import { type Chain, SLOT_MS } from './state.ts';
import { advance } from './submit.ts';
import { errorText } from './transaction-error.ts';

export interface LocalnetOptions {
  /**
   * Port of JSON-RPC over HTTP. With 0 (default), the chain takes any free port. With 0 and no
   * `wsPort`, the chain takes two adjacent free ports.
   */
  readonly port?: number;
  /**
   * Port of the WebSocket server. The default is the HTTP port + 1, because web3.js expects the
   * WebSocket server there.
   */
  readonly wsPort?: number | undefined;
  /**
   * Port of a second HTTP endpoint. The fault localnet_setFault {kind: 'lag'} puts this endpoint
   * behind the main endpoint. Without `lagPort` there is no second endpoint.
   */
  readonly lagPort?: number | undefined;
  /**
   * Directory that stores the chain, so that the chain survives a restart. Without `dataDir` the
   * chain is only in memory.
   */
  readonly dataDir?: string | undefined;
  /**
   * Milliseconds between blocks. The default is SLOT_MS. With 0, only mineBlocks() and timeTravel()
   * make blocks, and each block moves the clock by SLOT_MS.
   */
  readonly blockMs?: number;
  /**
   * Rent in lamports per byte. Without this option a new chain uses RENT_LAMPORTS_PER_BYTE, and a
   * stored chain keeps its rent.
   */
  readonly rentLamportsPerByte?: number | undefined;
  /**
   * Number of hours by which a new chain's clock starts behind the current time. The default is 0.
   */
  readonly hoursAgo?: number | undefined;
}

/**
 * A running local chain. A function that is named like an RPC method has the same effect as that
 * method.
 */
export interface Localnet {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** URL of the second HTTP endpoint. Null when `lagPort` was not given. */
  readonly lagUrl: string | null;
  readonly mint: string;
  readonly faucet: string;
  readonly programId: string;
  /** The time of the block being built, in milliseconds since 1970. */
  now(): number;
  slot(): number;
  mineBlocks(count?: number): void;
  /** Moves the chain forward in time. Throws ChainRefusal for a destination in the past. */
  timeTravel(destination: Destination): void;
  /**
   * Gives the wallet `owner` lamports and base units of USDC. The transactions land in the block
   * being built.
   */
  fund(owner: string, gift: { lamports?: bigint; usdc?: bigint }): void;
  close(): Promise<void>;
}

const HOST = '127.0.0.1';
const PAIR_ATTEMPTS = 50;

const portOf = (app: FastifyInstance) => (app.server.address() as AddressInfo).port;

const isTaken = (error: unknown) => (error as NodeJS.ErrnoException).code === 'EADDRINUSE';

async function listen(app: FastifyInstance, port: number): Promise<void> {
  try {
    await app.listen({ host: HOST, port });
  } catch (error) {
    await app.close();
    throw isTaken(error)
      ? new OperatorError(
          `port ${port} is in use: stop what listens there, or name another port`,
          1,
          { cause: error },
        )
      : error;
  }
}

async function listenPair(
  chain: Chain,
  port: number,
  wsPort: number | undefined,
): Promise<[FastifyInstance, FastifyInstance]> {
  for (let attempt = 1; ; attempt += 1) {
    const http = buildHttp({ chain, lagging: false });
    await listen(http, port);
    const ws = await buildWs(chain);
    try {
      await listen(ws, wsPort ?? portOf(http) + 1);
      return [http, ws];
    } catch (error) {
      await http.close();
      // The WebSocket server cannot listen, for example because its port is taken. If the chain
      // chose both ports, the loop tries other ports, up to PAIR_ATTEMPTS times in all.
      if (port !== 0 || wsPort !== undefined || attempt === PAIR_ATTEMPTS) throw error;
    }
  }
}

/**
 * Makes blocks at fixed times, `blockMs` apart. If one block is late, the next block still comes on
 * time. If the process slept through the times of several blocks, those blocks are skipped.
 */
function keepTime(chain: Chain): () => void {
  let next = performance.now() + chain.blockMs;
  let timer: NodeJS.Timeout;
  const schedule = () => {
    timer = setTimeout(tick, Math.max(0, next - performance.now()));
  };
  const tick = () => {
    advance(chain);
    next = Math.max(next + chain.blockMs, performance.now());
    schedule();
  };
  schedule();
  return () => clearTimeout(timer);
}

function fund(
  chain: Chain,
  owner: string,
  { lamports = 0n, usdc = 0n }: { lamports?: bigint; usdc?: bigint },
): void {
  for (const gift of [
    lamports > 0n && airdrop(chain, owner, lamports),
    usdc > 0n && mintUsdc(chain, owner, usdc),
  ]) {
    if (gift !== false && 'refused' in gift)
      throw new Error(`the faucet could not send: ${errorText(gift.refused)}`);
  }
}

/**
 * Starts a local chain on 127.0.0.1. Throws an OperatorError when a port is taken, when the data
 * directory is in use or unreadable, or when the binary of the Subscriptions program is missing.
 */
export async function startLocalnet({
  port = 0,
  wsPort,
  lagPort,
  dataDir,
  blockMs = SLOT_MS,
  rentLamportsPerByte,
  hoursAgo,
}: LocalnetOptions = {}): Promise<Localnet> {
  const chain = openChain(blockMs, dataDir, rentLamportsPerByte, hoursAgo);
  const servers: FastifyInstance[] = [];
  const closeAll = async () => {
    clearFaults(chain);
    await Promise.all(servers.map((server) => server.close()));
    chain.store?.close();
  };
  try {
    const [http, ws] = await listenPair(chain, port, wsPort);
    servers.push(http, ws);
    const lagging = lagPort === undefined ? null : buildHttp({ chain, lagging: true });
    if (lagging !== null) {
      await listen(lagging, lagPort ?? 0);
      servers.push(lagging);
    }
    const stop = blockMs === 0 ? () => undefined : keepTime(chain);
    let closed: Promise<void> | undefined;
    return {
      rpcUrl: `http://${HOST}:${portOf(http)}`,
      wsUrl: `ws://${HOST}:${portOf(ws)}`,
      lagUrl: lagging === null ? null : `http://${HOST}:${portOf(lagging)}`,
      mint: LOCALNET_MINT,
      faucet: faucet.address,
      programId: SUBSCRIPTIONS_PROGRAM,
      now: () => head(chain).time,
      slot: () => head(chain).slot,
      mineBlocks: (count = 1) => {
        for (let mined = 0; mined < count; mined += 1) advance(chain);
      },
      timeTravel: (destination) => timeTravel(chain, destination),
      fund: (owner, gift) => fund(chain, owner, gift),
      close: () => {
        stop();
        return (closed ??= closeAll());
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}
