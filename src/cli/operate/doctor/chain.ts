// The checks of `billing doctor` on the chain: RPC endpoints and WebSockets, program, mint,
// treasuries, the keeper's key and its SOL. Nothing is signed or sent.
import { CLUSTERS, SUBSCRIPTIONS_PROGRAM } from '../../../chain/clusters.ts';
import { accountFilters } from '../../../chain/program/layouts.ts';
import { createRpc } from '../../../chain/rpc/client.ts';
import { followProgram, websocketUrl } from '../../../chain/streams/program.ts';
import type { Config } from '../../../config/config.ts';
import { keeperAddressOf } from '../../../domain/accounts/keeper-address.ts';
import { OperatorError } from '../../../errors.ts';
import { examineAccounts, readInstallation } from '../../../keeper/guard/preflight.ts';
import { askEndpoint } from '../status/chain.ts';
import { type Check, check, unchecked } from './check.ts';

/** Time limit of a request and of a silent stream. */
const TIMEOUT_MS = 5000;
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * Checks the chain. `offsetSeconds` is how far the chain's clock is ahead of this host's clock. It
 * is null on a local chain and when no endpoint is usable.
 */
export async function checkChain(
  config: Config,
  { minSol, signs }: { minSol: number; signs: boolean },
): Promise<{ checks: Check[]; offsetSeconds: number | null }> {
  const { rpcUrls, cluster } = config;
  if (rpcUrls === undefined)
    return { checks: [unchecked('RPC', 'SOLANA_RPC_URL is not set')], offsetSeconds: null };
  const keypair = config.keeperKeypairs === undefined ? [] : [await checkKeypair(config)];
  const address = await keeperAddressOf(config).catch(() => undefined);
  const states = await Promise.all(rpcUrls.map((url) => askEndpoint(url, cluster, address, quiet)));
  const endpoints = states.map(({ name, slot, answeredMs, fault }) =>
    check(`RPC ${name}`, () =>
      fault === null
        ? Promise.resolve(`${cluster}, slot ${slot}, answered in ${answeredMs} ms`)
        : Promise.reject(new OperatorError(`${fault}. Check SOLANA_RPC_URL and SOLANA_CLUSTER.`)),
    ),
  );
  const usable = rpcUrls.filter((_, index) => states[index]?.fault === null);
  const best = states.find(({ fault }) => fault === null);
  const checks = [
    ...(await Promise.all(endpoints)),
    ...(signs ? await checkStreams(config, rpcUrls) : []),
    ...(await checkAccounts(config, usable)),
    ...keypair,
    checkBalance(address, best?.sol ?? null, minSol),
  ];
  const offsetSeconds = cluster === 'localnet' ? null : (best?.offsetSeconds ?? null);
  return { checks, offsetSeconds };
}

function mintOf({ usdcMint, cluster }: Config): string | undefined {
  return usdcMint ?? CLUSTERS[cluster].usdcMint ?? undefined;
}

/** Checks that each WebSocket URL accepts the subscriptions that a keeper makes. */
function checkStreams(config: Config, rpcUrls: readonly string[]): Promise<Check[]> {
  const urls = config.wsUrls ?? rpcUrls.map(websocketUrl);
  const mint = mintOf(config);
  return Promise.all(
    urls.map(async (url) => {
      const name = `WebSocket ${new URL(url).origin}`;
      if (mint === undefined) return unchecked(name, 'USDC_MINT is not set');
      return check(name, async () => {
        const fault = await streamFault(url, config.programId ?? SUBSCRIPTIONS_PROGRAM, mint);
        if (fault === undefined) return 'takes the subscriptions of a keeper';
        throw new OperatorError(
          `${fault}. Check SOLANA_WS_URL: until then changes are found late.`,
        );
      });
    }),
  );
}

function streamFault(url: string, programId: string, mint: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const refused: string[] = [];
    const settle = (fault: string | undefined) => {
      follower.close();
      resolve(fault);
    };
    const follower = followProgram({
      urls: [url],
      programId,
      filters: accountFilters(mint),
      silenceMs: TIMEOUT_MS,
      onNotification: () => undefined,
      onTransaction: () => undefined,
      onRefused: (method) => refused.push(method),
      onGap: () => settle(refused.length === 0 ? undefined : `it refuses ${refused.join(', ')}`),
      log: { ...quiet, warn: (fields: object) => 'endpoint' in fields && settle(reasonIn(fields)) },
    });
  });
}

/** Returns why the stream lost its connection, from the fields of the stream's log line. */
const reasonIn = (fields: object) =>
  'reason' in fields && typeof fields.reason === 'string' ? fields.reason : 'no connection';

async function checkAccounts(config: Config, urls: readonly string[]): Promise<Check[]> {
  const names = ['Program', 'Mint', 'Treasury'];
  const skip = (why: string) => names.map((name) => unchecked(name, why));
  const mint = mintOf(config);
  if (urls.length === 0) return skip('no RPC endpoint can be used');
  if (mint === undefined) return skip('USDC_MINT is not set');
  const programId = config.programId ?? SUBSCRIPTIONS_PROGRAM;
  const rpc = createRpc({ urls, timeoutMs: TIMEOUT_MS, probeMs: Infinity, log: quiet });
  try {
    const wallets = config.treasuries ?? [];
    const found = await examineAccounts(rpc, config, { programId, mint, wallets });
    const line = (name: string, right: string, fault: string | undefined): Check =>
      fault === undefined
        ? { name, state: 'ok', detail: right }
        : { name, state: 'todo', detail: fault };
    return [
      line('Program', programId, found.program),
      line('Mint', mint, found.token),
      ...found.treasuries.map(({ wallet, fault }) =>
        line('Treasury', `${wallet} has an account for the mint`, fault),
      ),
      ...(wallets.length === 0 ? [unchecked('Treasury', 'PLATFORM_TREASURY is not set')] : []),
    ];
  } catch (error) {
    return [
      await check('Program', () => Promise.reject(error instanceof Error ? error : new Error())),
    ];
  } finally {
    await rpc.close();
  }
}

function checkKeypair(config: Config): Promise<Check> {
  if (config.treasury === undefined)
    return Promise.resolve(unchecked('Keypair', 'PLATFORM_TREASURY is not set'));
  return check('Keypair', async () => {
    const { keypairs } = await readInstallation(config);
    return keypairs.map(({ address }) => address).join(', ');
  });
}

function checkBalance(address: string | undefined, sol: number | null, minSol: number): Check {
  const name = 'Keeper';
  if (address === undefined) return unchecked(name, 'KEEPER_ADDRESS is not set');
  if (sol === null) return unchecked(name, `the SOL of ${address} is unknown`);
  const has = `${address} has ${sol} SOL`;
  return sol < minSol
    ? { name, state: 'todo', detail: `${has}, and needs at least ${minSol}: send it some` }
    : { name, state: 'ok', detail: has };
}
