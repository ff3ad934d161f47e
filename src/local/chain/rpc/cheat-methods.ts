// RPC methods that a validator does not have. Methods with the prefix surfnet_ are Surfpool's, with
// the same parameters. Methods with the prefix localnet_ exist only in this chain.
import { generateKeyPairSync } from 'node:crypto';
import bs58 from 'bs58';
import { TOKEN_PROGRAM, tokenAccountAddress } from '../../../chain/program/addresses.ts';
import { current, head, overwrite } from '../accounts.ts';
import { RENT_EXEMPT_FOREVER, setRent, setV1Feature } from '../cluster-settings.ts';
import { isMint, isTokenAccount, TOKEN_ACCOUNT_LENGTH } from '../execute.ts';
import { airdrop, mintUsdc } from '../faucet.ts';
import { ChainRefusal, forgetBlocks, timeTravel } from '../fork.ts';
import { faucet, LOCALNET_MINT, MINT_DECIMALS } from '../genesis.ts';
import { addressKey, base58, bytesOf, type Key } from '../keys.ts';
import { advance } from '../submit.ts';
import { errorText } from '../transaction-error.ts';
import type { AccountState } from '../vm.ts';
import { epochInfo } from './block-methods.ts';
import {
  choice,
  flag,
  integer,
  type LocalEndpoint,
  publicKey,
  required,
  settings,
  type Settings,
  u64,
  viewAt,
} from './params.ts';
import { internalError, invalidParams } from './rpc-error.ts';

const SYSTEM: Key = '\0'.repeat(32);
const TOKEN = addressKey(TOKEN_PROGRAM);
const LATEST_TIME = 253_402_300_799_999;
const MAX_RENT = 1_000_000;
const MAX_MINED = 10_000;
const MAX_BLOCK_MS = 60_000;
const MAX_WALLETS = 1_000;
const WALLET_LAMPORTS = 10_000_000_000n;
const WALLET_USDC = 1_000_000_000n;

/**
 * Runs a function. If the function throws a ChainRefusal, throws a JSON-RPC error with the same
 * message.
 */
function refusable<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof ChainRefusal ? invalidParams(error.message) : error;
  }
}

/**
 * surfnet_timeTravel [{absoluteTimestamp: ms since 1970} | {absoluteSlot} | {absoluteEpoch}]: moves
 * the chain forward in time, as in Surfpool. Returns the result of getEpochInfo for the new block.
 * A read at `confirmed` shows the new time once that block is sealed. Throws -32602 for a time in
 * the past.
 */
function surfnetTimeTravel(params: readonly unknown[], { chain }: LocalEndpoint) {
  const options = settings(params, 0);
  const wanted = (['absoluteTimestamp', 'absoluteSlot', 'absoluteEpoch'] as const).filter(
    (name) => options[name] !== undefined,
  );
  const [name] = wanted;
  if (name === undefined || wanted.length > 1) {
    throw invalidParams(
      'Invalid params: give one of absoluteTimestamp (ms since 1970), absoluteSlot, absoluteEpoch',
    );
  }
  const target = integer(
    options[name],
    name,
    0,
    name === 'absoluteTimestamp' ? LATEST_TIME : Number.MAX_SAFE_INTEGER,
  );
  refusable(() => timeTravel(chain, { [name]: target }));
  return epochInfo(chain, head(chain));
}

// Reads rentEpoch from a JSON number. JSON.parse rounds 2^64 - 1 up to 2^64, so every number from
// 2^64 on means that the account is exempt from rent.
const rentEpochOf = (value: unknown) =>
  typeof value === 'number' && value >= Number(RENT_EXEMPT_FOREVER)
    ? RENT_EXEMPT_FOREVER
    : u64(value, 'rentEpoch');

function hexBytes(value: unknown): Buffer {
  if (typeof value !== 'string' || !/^([0-9a-fA-F]{2})*$/.test(value))
    throw invalidParams('Invalid params: data should be hex');
  return Buffer.from(value, 'hex');
}

/**
 * surfnet_setAccount [address, {lamports, data: hex, owner, executable, rentEpoch}]: changes an
 * account. A field that the request leaves out stays unchanged.
 */
function surfnetSetAccount(params: readonly unknown[], endpoint: LocalEndpoint) {
  const key = publicKey(required(params, 0));
  const update = settings([required(params, 1)], 0);
  const { chain } = endpoint;
  const was: AccountState = current(chain, key) ?? {
    lamports: 0n,
    owner: SYSTEM,
    data: Buffer.alloc(0),
    executable: false,
    rentEpoch: RENT_EXEMPT_FOREVER,
  };
  const isGiven = (name: string) => update[name] !== undefined && update[name] !== null;
  overwrite(chain, key, {
    lamports: isGiven('lamports') ? u64(update['lamports'], 'lamports') : was.lamports,
    owner: isGiven('owner') ? publicKey(update['owner']) : was.owner,
    data: isGiven('data') ? hexBytes(update['data']) : was.data,
    executable: flag(update['executable'], 'executable', was.executable),
    rentEpoch: isGiven('rentEpoch') ? rentEpochOf(update['rentEpoch']) : was.rentEpoch,
  });
  return { context: viewAt(endpoint, 'processed').context, value: null };
}

function emptyTokenAccount(owner: Key, mint: Key): Buffer {
  const data = Buffer.alloc(TOKEN_ACCOUNT_LENGTH);
  data.set(bytesOf(mint), 0);
  data.set(bytesOf(owner), 32);
  data.writeUInt8(1, 108);
  return data;
}

/**
 * Reads a parameter that sets an optional key of a token account. A missing parameter returns
 * undefined and leaves the key unchanged. The values null and "null" (Surfpool's word) return null
 * and remove the key.
 */
function someKey(value: unknown): Key | null | undefined {
  if (value === undefined) return undefined;
  return value === null || value === 'null' ? null : publicKey(value);
}

function writeOptionalKey(data: Buffer, offset: number, key: Key | null | undefined): void {
  if (key === undefined) return;
  data.writeUInt32LE(key === null ? 0 : 1, offset);
  data.set(key === null ? Buffer.alloc(32) : bytesOf(key), offset + 4);
}

/**
 * surfnet_setTokenAccount [owner, mint, {amount, delegate, delegatedAmount, state, closeAuthority},
 * tokenProgram?]: creates or changes the owner's associated token account for the mint. Only SPL
 * Token is supported as `tokenProgram`. The supply of the mint does not change.
 */
function surfnetSetTokenAccount(params: readonly unknown[], endpoint: LocalEndpoint) {
  const owner = publicKey(required(params, 0));
  const mint = publicKey(required(params, 1));
  const update: Settings = settings([required(params, 2)], 0);
  if (params[3] !== undefined && params[3] !== null && publicKey(params[3]) !== TOKEN) {
    throw invalidParams('Invalid params: only the SPL Token program is supported');
  }
  const { chain } = endpoint;
  const mintState = current(chain, mint);
  if (!isMint(mintState) || mintState.owner !== TOKEN)
    throw invalidParams('Invalid param: could not find mint');
  const key = addressKey(tokenAccountAddress(base58(owner), base58(mint)).address);
  const was = current(chain, key);
  const data = isTokenAccount(was) ? Buffer.from(was.data) : emptyTokenAccount(owner, mint);
  if (update['amount'] !== undefined) data.writeBigUInt64LE(u64(update['amount'], 'amount'), 64);
  writeOptionalKey(data, 72, someKey(update['delegate']));
  if (update['state'] !== undefined) {
    const states = ['uninitialized', 'initialized', 'frozen'] as const;
    data.writeUInt8(states.indexOf(choice(update['state'], 'state', states, 'initialized')), 108);
  }
  if (update['delegatedAmount'] !== undefined)
    data.writeBigUInt64LE(u64(update['delegatedAmount'], 'delegatedAmount'), 121);
  writeOptionalKey(data, 129, someKey(update['closeAuthority']));
  const exempt = chain.vm.rentExempt(data.length);
  const lamports = was !== null && was.lamports > exempt ? was.lamports : exempt;
  overwrite(chain, key, {
    lamports,
    owner: TOKEN,
    data,
    executable: false,
    rentEpoch: RENT_EXEMPT_FOREVER,
  });
  return { context: viewAt(endpoint, 'processed').context, value: null };
}

/**
 * localnet_mineBlocks [count = 1]: seals `count` blocks now. Returns the slot of the block that is
 * then being built.
 */
function localnetMineBlocks(params: readonly unknown[], { chain }: LocalEndpoint) {
  const count = params[0] === undefined ? 1 : integer(params[0], 'count', 1, MAX_MINED);
  for (let mined = 0; mined < count; mined += 1) advance(chain);
  return head(chain).slot;
}

/**
 * localnet_forgetBlocks [count, {replay: false}]: drops the block being built and the last `count`
 * sealed blocks, and starts another fork. With `replay` the dropped transactions run again on the
 * new fork. Returns {forgotten: number of dropped transactions, slot}.
 */
function localnetForgetBlocks(params: readonly unknown[], { chain }: LocalEndpoint) {
  const count = integer(required(params, 0), 'count', 0, MAX_MINED);
  const replay = flag(settings(params, 1)['replay'], 'replay', false);
  const forgotten = refusable(() => forgetBlocks(chain, count, replay));
  return { forgotten, slot: head(chain).slot };
}

/**
 * localnet_faucet [owner, amount]: mints `amount` base units of the local USDC to the owner's
 * associated token account. Returns the signature of the transaction.
 */
function localnetFaucet(params: readonly unknown[], { chain }: LocalEndpoint) {
  const owner = base58(publicKey(required(params, 0)));
  const outcome = mintUsdc(chain, owner, u64(required(params, 1), 'amount'));
  if ('refused' in outcome)
    throw internalError(`the faucet could not mint: ${errorText(outcome.refused)}`);
  return base58(outcome.id);
}

/**
 * localnet_wallets [count, {lamports, amount}]: creates `count` keypairs and funds each keypair.
 * The defaults are 10 SOL and 1,000 USDC; `amount` is in base units of USDC. Returns [{address,
 * secretKey}], where the secret key is Base58 of 64 bytes.
 */
function localnetWallets(params: readonly unknown[], { chain }: LocalEndpoint) {
  const count = integer(required(params, 0), 'count', 1, MAX_WALLETS);
  const from = settings(params, 1);
  const lamports =
    from['lamports'] === undefined ? WALLET_LAMPORTS : u64(from['lamports'], 'lamports');
  const amount = from['amount'] === undefined ? WALLET_USDC : u64(from['amount'], 'amount');
  return Array.from({ length: count }, () => {
    const { privateKey, publicKey: open } = generateKeyPairSync('ed25519');
    const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32);
    const bytes = open.export({ format: 'der', type: 'spki' }).subarray(-32);
    const address = bs58.encode(bytes);
    for (const gift of [
      lamports > 0n && airdrop(chain, address, lamports),
      amount > 0n && mintUsdc(chain, address, amount),
    ]) {
      if (gift !== false && 'refused' in gift)
        throw internalError(`the faucet could not send: ${errorText(gift.refused)}`);
    }
    return { address, secretKey: bs58.encode(Buffer.concat([seed, bytes])) };
  });
}

/**
 * localnet_setRent [lamportsPerByte]: sets the rent. The new rent applies from the block being
 * built. Every account pays for its data and for 128 bytes more. A token account has 165 bytes of
 * data and therefore pays for 293 bytes.
 */
function localnetSetRent(params: readonly unknown[], { chain }: LocalEndpoint) {
  setRent(chain, integer(required(params, 0), 'lamportsPerByte', 1, MAX_RENT));
  return null;
}

/**
 * localnet_setBlockTime [ms]: sets the time between blocks, beginning with the next block. Throws
 * for a chain that makes blocks on demand.
 */
function localnetSetBlockTime(params: readonly unknown[], { chain }: LocalEndpoint) {
  const blockMs = integer(required(params, 0), 'ms', 1, MAX_BLOCK_MS);
  if (chain.blockMs === 0) throw invalidParams('this chain makes blocks on demand (--block-ms 0)');
  chain.blockMs = blockMs;
  return null;
}

/** localnet_setTransactionV1 [active]: enables or disables version 1 transactions. */
function localnetSetTransactionV1(params: readonly unknown[], { chain }: LocalEndpoint) {
  setV1Feature(chain, flag(required(params, 0), 'active', true), head(chain).slot);
  return null;
}

const localnetInfo = () => ({
  faucet: faucet.address,
  mint: LOCALNET_MINT,
  decimals: MINT_DECIMALS,
});

export const cheatMethods = {
  surfnet_timeTravel: surfnetTimeTravel,
  surfnet_setAccount: surfnetSetAccount,
  surfnet_setTokenAccount: surfnetSetTokenAccount,
  localnet_mineBlocks: localnetMineBlocks,
  localnet_forgetBlocks: localnetForgetBlocks,
  localnet_faucet: localnetFaucet,
  localnet_wallets: localnetWallets,
  localnet_setBlockTime: localnetSetBlockTime,
  localnet_setRent: localnetSetRent,
  localnet_setTransactionV1: localnetSetTransactionV1,
  localnet_info: localnetInfo,
};
