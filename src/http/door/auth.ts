// Authenticates a request by a wallet's JWT or an API key (docs/contract.md, Authentication).
// Callers are read from Postgres without a cache, so a revoked key or a new tier takes effect with
// the next request. Requests of one event-loop turn share one statement.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKeyHolders, type KeyHolder, markKeyUsed } from '../../db/accounts/api-keys.ts';
import { findMerchants, type MerchantRow } from '../../db/accounts/merchants.ts';
import { hashKey, isKeyOf, looksLikeKey } from '../../domain/accounts/keys.ts';
import { isTrusted } from '../../domain/accounts/sign-in.ts';
import type { Tokens } from '../../domain/accounts/tokens.ts';
import { ServiceError } from '../../errors.ts';
import { createBatch } from './batch.ts';
import type { ApiDeps, Caller } from './context.ts';

export type Admission = 'merchant' | 'merchant wallet' | 'subscriber';

/**
 * Returns the caller of a request. Throws UNAUTHORIZED for missing, forged, expired, unknown or
 * revoked credentials. Before an API key that this process has not accepted lately is looked up,
 * `checkBudget` is called. It throws when the address has sent too many invalid credentials, so
 * that guessing keys does not load the database.
 */
export type Identify = (request: FastifyRequest, checkBudget: () => void) => Promise<Caller>;

/** An API key counts as accepted lately for this many milliseconds after its last valid use. */
const ACCEPTED_MS = 3_600_000;
const MAX_ACCEPTED = 10_000;

/**
 * Hashes of the keys that this process accepted lately. Such a key is looked up in Postgres even
 * if the client's address has sent too many invalid credentials.
 */
class AcceptedKeys {
  /**
   * Maps the hash of each key to the time (performance.now()) when the key was last used. The key
   * that was used longest ago comes first.
   */
  readonly #usedAt = new Map<string, number>();

  has(hash: string): boolean {
    const usedAt = this.#usedAt.get(hash);
    return usedAt !== undefined && performance.now() - usedAt < ACCEPTED_MS;
  }

  add(hash: string): void {
    this.#usedAt.delete(hash);
    this.#usedAt.set(hash, performance.now());
    if (this.#usedAt.size <= MAX_ACCEPTED) return;
    const [oldest] = this.#usedAt.keys();
    if (oldest !== undefined) this.#usedAt.delete(oldest);
  }

  delete(hash: string): void {
    this.#usedAt.delete(hash);
  }
}

export function createIdentify(deps: ApiDeps, tokens: Tokens): Identify {
  const { sql, environment } = deps;
  const findHolder = createBatch<{ hash: string }, KeyHolder>(
    (keys) =>
      findKeyHolders(
        sql,
        keys.map((key) => key.hash),
      ),
    (key) => key.hash,
  );
  const findMerchant = createBatch<{ wallet: string }, MerchantRow>(
    (owners) =>
      findMerchants(
        sql,
        owners.map((owner) => owner.wallet),
      ),
    (owner) => owner.wallet,
  );
  const accepted = new AcceptedKeys();

  return async (request, checkBudget) => {
    const [, bearer] =
      /^Bearer +([\w.~+/=-]{1,4096})$/i.exec(request.headers.authorization ?? '') ?? [];
    if (bearer === undefined)
      throw unauthorized('Send "Authorization: Bearer" with an access token or an API key.');
    if (looksLikeKey(bearer)) {
      if (!isKeyOf(environment, bearer)) throw unauthorized(foreignKey[environment]);
      const hash = hashKey(bearer).toString('hex');
      if (!accepted.has(hash)) checkBudget();
      const holder = await findHolder({ hash });
      if (holder === undefined) {
        accepted.delete(hash);
        throw unauthorized('The API key is unknown or has been revoked.');
      }
      accepted.add(hash);
      noteUse(deps, holder, request);
      const actor = holder.prefix;
      return { ...merchantIn(holder), role: 'merchant', via: 'key', actor, pageSignInAt: null };
    }
    const owner = await tokens.verify(bearer);
    if (owner === undefined) throw unauthorized('The access token is not valid or has expired.');
    const { page, issuedAt } = owner;
    if (owner.role === 'subscriber') {
      const boundTo = page === null || isTrusted(page, deps) ? null : page;
      return { role: 'subscriber', wallet: owner.wallet, boundTo };
    }
    const merchant = await findMerchant(owner);
    if (merchant === undefined)
      throw unauthorized('The merchant of the access token does not exist.');
    const pageSignInAt = page === null ? null : issuedAt;
    const actor = merchant.wallet;
    return { ...merchant, role: 'merchant', via: 'token', actor, pageSignInAt };
  };
}

function merchantIn(holder: KeyHolder): MerchantRow {
  const { id, wallet, name, email, emailConfirmed, mails, tier, createdAt } = holder;
  const { legalName, legalAddress, taxId, keepBuyerDetails } = holder;
  const receipts = { legalName, legalAddress, taxId, keepBuyerDetails };
  return { id, wallet, name, email, emailConfirmed, mails, tier, ...receipts, createdAt };
}

/** Throws FORBIDDEN unless the route admits callers of this kind. */
export function admit(caller: Caller, admission: Admission): void {
  if (admission === 'subscriber') {
    if (caller.role !== 'subscriber')
      throw new ServiceError(
        'FORBIDDEN',
        'This is for subscribers: sign in with the role "subscriber".',
      );
    return;
  }
  if (caller.role !== 'merchant')
    throw new ServiceError('FORBIDDEN', 'This is for merchants: sign in with the role "merchant".');
  if (admission === 'merchant wallet' && caller.via === 'key') {
    throw new ServiceError(
      'FORBIDDEN',
      'API keys are managed with a wallet sign-in, not with an API key.',
    );
  }
}

/** Maximum age (s) of the sign-in of a page that creates a key or a secret. */
const FRESH_SECONDS = 300;

/**
 * Throws UNAUTHORIZED if the caller is a page whose sign-in is older than five minutes. The
 * response states the limit as a step-up challenge (RFC 9470), which tells the page to sign in
 * again.
 */
export function assertFresh(caller: Caller, reply: FastifyReply): void {
  const signedInAt = caller.role === 'merchant' ? caller.pageSignInAt : null;
  if (signedInAt === null || Date.now() / 1000 - signedInAt <= FRESH_SECONDS) return;
  reply.header(
    'www-authenticate',
    `Bearer error="insufficient_user_authentication", max_age="${FRESH_SECONDS}"`,
  );
  throw unauthorized(
    'On a page, creating a key or a secret asks for a sign-in of the last five minutes: sign in again.',
  );
}

/**
 * Records the use of a key in the background, at most once a minute. If the write fails, a later
 * request records the use.
 */
function noteUse({ sql }: ApiDeps, { keyId, unmarked }: KeyHolder, request: FastifyRequest): void {
  if (!unmarked) return;
  markKeyUsed(sql, keyId).catch((error: unknown) => {
    request.log.warn({ keyId, err: error }, 'API key use not recorded');
  });
}

/** Error messages for a key that belongs to the other environment. */
const foreignKey = {
  development: 'This is a development service: its API keys start with sk_test_.',
  production: 'This is a production service: its API keys start with sk_live_.',
} as const;

function unauthorized(message: string): ServiceError {
  return new ServiceError('UNAUTHORIZED', message);
}
