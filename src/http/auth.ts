// Who calls: a wallet's JWT or an API key (service.md, Authentication). Both are looked up in Postgres on every request, so that a revoked key
// stops with the very next one.
import type { FastifyRequest } from 'fastify';
import { findKeyHolder, markKeyUsed } from '../db/api-keys.ts';
import { findMerchant } from '../db/merchants.ts';
import { hashKey, isKeyOf, looksLikeKey } from '../domain/keys.ts';
import type { Tokens } from '../domain/tokens.ts';
import { messageOf, ServiceError } from '../errors.ts';
import type { ApiDeps, Caller, Credential } from './context.ts';

export type Admission = 'merchant' | 'merchant wallet' | 'subscriber';

/** What a request brings to prove who calls; not yet looked up. Throws UNAUTHORIZED for what cannot be right: missing, forged, expired. */
export async function credentialOf({ environment }: ApiDeps, tokens: Tokens, request: FastifyRequest): Promise<Credential> {
  const [, bearer] = /^Bearer +([\w.~+/=-]{1,4096})$/i.exec(request.headers.authorization ?? '') ?? [];
  if (bearer === undefined) throw unauthorized('Send "Authorization: Bearer" with an access token or an API key.');
  if (looksLikeKey(bearer)) {
    if (!isKeyOf(environment, bearer)) throw unknownKey();
    return { via: 'key', hash: hashKey(bearer) };
  }
  const owner = await tokens.verify(bearer);
  if (owner === undefined) throw unauthorized('The access token is not valid or has expired.');
  return { via: 'token', ...owner };
}

/** Who that is. Throws UNAUTHORIZED for a key that is unknown or revoked. */
export async function callerOf(deps: ApiDeps, credential: Credential, request: FastifyRequest): Promise<Caller> {
  if (credential.via === 'key') {
    const holder = await findKeyHolder(deps.sql, credential.hash);
    if (holder === undefined) throw unknownKey();
    noteUse(deps, holder, request);
    return { ...holder, role: 'merchant', via: 'key' };
  }
  if (credential.role === 'subscriber') return { role: 'subscriber', wallet: credential.wallet };
  const merchant = await findMerchant(deps.sql, credential.wallet);
  if (merchant === undefined) throw unauthorized('The access token is of a merchant that does not exist.');
  return { ...merchant, role: 'merchant', via: 'token' };
}

/** Refuses a caller of the wrong kind. Throws FORBIDDEN. */
export function admit(caller: Caller, admission: Admission): void {
  if (admission === 'subscriber') {
    if (caller.role !== 'subscriber') throw new ServiceError('FORBIDDEN', 'This is for subscribers: sign in with the role "subscriber".');
    return;
  }
  if (caller.role !== 'merchant') throw new ServiceError('FORBIDDEN', 'This is for merchants: sign in with the role "merchant".');
  if (admission === 'merchant wallet' && caller.via === 'key') {
    throw new ServiceError('FORBIDDEN', 'API keys are managed with a wallet sign-in, not with an API key.');
  }
}

/** Writes down that a key is in use, at most once a minute. Nobody waits for it; a lost note is made up for by the next request. */
export function noteUse({ sql }: ApiDeps, { keyId, unmarked }: { keyId: string | null; unmarked: boolean }, request: FastifyRequest): void {
  if (!unmarked || keyId === null) return;
  markKeyUsed(sql, keyId).catch((error: unknown) => {
    request.log.warn({ keyId, reason: messageOf(error) }, 'the use of an API key could not be noted');
  });
}

export function unknownKey(): ServiceError {
  return unauthorized('The API key is not valid here or has been revoked.');
}

function unauthorized(message: string): ServiceError {
  return new ServiceError('UNAUTHORIZED', message);
}
