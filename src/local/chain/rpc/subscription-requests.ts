// Parses the subscribe requests that a client sends over WebSocket.
import type { Commitment } from '../accounts.ts';
import { bytesOf, type Key } from '../keys.ts';
import { type Filter, filtersOf } from './account-methods.ts';
import { type AccountEncoding, accountEncoding } from './encode-account.ts';
import { commitmentOf, flag, publicKey, required, settings, signature } from './params.ts';
import { invalidParams } from './rpc-error.ts';

interface Base {
  readonly id: number;
  readonly commitment: Commitment;
}

export interface AccountSubscription extends Base {
  readonly kind: 'account';
  readonly key: Key;
  readonly encoding: AccountEncoding;
}

export interface ProgramSubscription extends Base {
  readonly kind: 'program';
  readonly key: Key;
  readonly encoding: AccountEncoding;
  readonly filters: readonly Filter[];
}

export interface SignatureSubscription extends Base {
  readonly kind: 'signature';
  readonly key: Key;
  /** Whether the client also wants a notification as soon as the node receives the transaction. */
  readonly received: boolean;
}

export interface LogsSubscription extends Base {
  readonly kind: 'logs';
  /**
   * If not null, only the logs of transactions that name this address are sent. If null, the logs
   * of all transactions are sent.
   */
  readonly mentioned: { readonly key: Key; readonly bytes: Buffer } | null;
}

export interface ChainSubscription extends Base {
  readonly kind: 'slot' | 'root';
}

export type Subscription =
  | AccountSubscription
  | ProgramSubscription
  | SignatureSubscription
  | LogsSubscription
  | ChainSubscription;

/**
 * The kinds of subscription. For each kind, the RPC methods are `${kind}Subscribe` and
 * `${kind}Unsubscribe`.
 */
export const KINDS = ['account', 'program', 'signature', 'logs', 'slot', 'root'] as const;

// The id of the newest subscription. Ids are unique over all connections, as with a validator.
let lastId = 0;

function mentionedOf(filter: unknown): LogsSubscription['mentioned'] {
  if (filter === 'all' || filter === 'allWithVotes') return null;
  const addresses = settings([filter], 0)['mentions'];
  if (!Array.isArray(addresses))
    throw invalidParams(
      'Invalid Request: expected "all", "allWithVotes" or {"mentions": [address]}',
    );
  if (addresses.length !== 1) throw invalidParams('Invalid Request: Only 1 address supported');
  const key = publicKey(addresses[0]);
  return { key, bytes: bytesOf(key) };
}

/** Parses a subscribe request and assigns an id to the subscription. Throws RpcError. */
export function readSubscription(
  kind: Subscription['kind'],
  params: readonly unknown[],
): Subscription {
  const from = kind === 'slot' || kind === 'root' ? {} : settings(params, 1);
  const base = { id: (lastId += 1), commitment: commitmentOf(from) };
  const key = () => publicKey(required(params, 0));
  switch (kind) {
    case 'account':
      return { ...base, kind, key: key(), encoding: accountEncoding(from) };
    case 'program':
      return {
        ...base,
        ...{ kind, key: key(), encoding: accountEncoding(from), filters: filtersOf(from) },
      };
    case 'signature': {
      const name = 'enableReceivedNotification';
      const received = flag(from[name], name, false);
      return { ...base, kind, key: signature(required(params, 0)), received };
    }
    case 'logs':
      return { ...base, kind, mentioned: mentionedOf(required(params, 0)) };
    case 'slot':
    case 'root':
      return { ...base, kind };
  }
}
