// Sign-In With Solana (github.com/phantom/sign-in-with-solana): builds the message that a wallet
// shows and signs, and verifies the signed message.
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import { isSigned } from '../../chain/keypair.ts';
import { isOnCurve } from '../../chain/program/addresses.ts';
import { invalidField } from '../../errors.ts';
import { textsOf } from './off-chain-message.ts';
import { type Role, roles } from './tokens.ts';

/** Milliseconds for which a nonce can be used. */
export const NONCE_LIFETIME_MS = 5 * 60_000;

export interface SignInRequest {
  wallet: string;
  role: Role;
  /**
   * URL of the requesting page. A wallet only signs for the host (with port) of the page that it is
   * connected to.
   */
  page: string;
  /** SOLANA_CLUSTER. */
  cluster: string;
  now: Date;
}

/** PUBLIC_URL, CORS_ORIGINS and DASHBOARD_ORIGINS. */
export interface Origins {
  readonly publicUrl: string;
  readonly corsOrigins: readonly string[];
  readonly dashboardOrigins: readonly string[];
}

/** Throws VALIDATION_ERROR for an address off the curve, for which no key can sign. */
export function refuseKeyless(wallet: string): void {
  if (!isOnCurve(wallet))
    throw invalidField(
      'wallet',
      'is an address without a key of its own, such as the vault of a multisig, and cannot sign in. Use a wallet with a key, for example a member’s. The merchant can register what this address subscribed to on chain (registerUnclaimed, reinstate); cancel it on chain.',
    );
}

const includes = (urls: readonly string[], origin: string) =>
  urls.some((url) => new URL(url).origin === origin);

/** Names of this machine. A PUBLIC_URL with one of these names is used in development. */
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Returns the origins of the service's own pages. If the host of PUBLIC_URL is a name in LOOPBACK,
 * returns one origin per name in LOOPBACK, each with the scheme and port of PUBLIC_URL. A developer
 * may open a page under any of these names.
 */
export function ownOrigins(publicUrl: string): string[] {
  const serviceUrl = new URL(publicUrl);
  if (!LOOPBACK.includes(serviceUrl.hostname)) return [serviceUrl.origin];
  return LOOPBACK.map((name) => Object.assign(new URL(serviceUrl), { hostname: name }).origin);
}

/**
 * Returns the page for the sign-in message: the request's Origin if that origin is allowed, else
 * PUBLIC_URL.
 */
export function signInPage(
  origin: string | undefined,
  { publicUrl, corsOrigins, dashboardOrigins }: Origins,
): string {
  const allowed = [...ownOrigins(publicUrl), ...corsOrigins, ...dashboardOrigins];
  if (origin === undefined || origin === new URL(publicUrl).origin) return publicUrl;
  return includes(allowed, origin) ? origin : publicUrl;
}

/**
 * The roles that a page of this origin may sign in for, the default role first. A shop's page must
 * not get a merchant's token, because the token can create API keys. A request without an Origin
 * does not come from a web page and may use any role.
 */
export function rolesOf(origin: string | undefined, origins: TrustedOrigins): readonly Role[] {
  return origin === undefined || isTrusted(origin, origins) ? roles : ['subscriber'];
}

type TrustedOrigins = Pick<Origins, 'publicUrl' | 'dashboardOrigins'>;

/** Whether an origin is the service's own or one of DASHBOARD_ORIGINS. */
export function isTrusted(
  origin: string,
  { publicUrl, dashboardOrigins }: TrustedOrigins,
): boolean {
  return includes([...ownOrigins(publicUrl), ...dashboardOrigins], origin);
}

/**
 * Returns the origin of the page that gets a token, or null for a program. The page is the page
 * named in the signed message, because the wallet's owner saw it; a shop's server may send the
 * request with any Origin. A message for PUBLIC_URL may come from a page or a program. The
 * request's Origin tells which.
 */
export function tokenPage(
  message: string,
  origin: string | undefined,
  publicUrl: string,
): string | null {
  const uri = fieldsOf(message)?.get('URI') ?? publicUrl;
  const { origin: signedFor } = new URL(uri);
  return signedFor === new URL(publicUrl).origin ? (origin ?? null) : signedFor;
}

/**
 * The methods of signing in, in the order in which a page tries them. Each method needs a feature
 * of the Wallet Standard. Merchants cannot sign in with a transaction.
 */
export const signInMethods = [
  { method: 'signIn', feature: 'solana:signIn', roles },
  { method: 'signMessage', feature: 'solana:signMessage', roles },
  { method: 'signOffchainMessage', feature: 'solana:signOffchainMessage', roles },
  { method: 'transaction', feature: 'solana:signTransaction', roles: ['subscriber'] },
] as const satisfies readonly { method: string; feature: string; roles: readonly Role[] }[];

/**
 * Creates a nonce of 192 random bits and the message that contains it. The message is valid for
 * five minutes.
 */
export function signInMessage({ wallet, role, page, cluster, now }: SignInRequest): {
  nonce: string;
  message: string;
  expiresAt: Date;
} {
  const nonce = bs58.encode(randomBytes(24));
  const expiresAt = new Date(now.getTime() + NONCE_LIFETIME_MS);
  const message = [
    `${new URL(page).host} wants you to sign in with your Solana account:`,
    wallet,
    '',
    `Sign in as a ${role}. This costs nothing and moves no money.`,
    '',
    `URI: ${page}`,
    'Version: 1',
    `Chain ID: ${cluster === 'mainnet-beta' ? 'mainnet' : cluster}`,
    `Nonce: ${nonce}`,
    `Issued At: ${now.toISOString()}`,
    `Expiration Time: ${expiresAt.toISOString()}`,
  ].join('\n');
  return { nonce, message, expiresAt };
}

/**
 * Whether bytes that a wallet signed have the content of the issued message, bare or in the
 * envelope of an off-chain message.
 */
export function isMessageOf(issued: string, signed: Buffer, wallet: string): boolean {
  return textsOf(signed, wallet).some((text) => saysTheSame(issued, text));
}

/**
 * Whether a message that a wallet built itself (solana:signIn) has exactly the fields of the issued
 * message. The chain may have the prefix `solana:` (solana:mainnet). The statement is compared too,
 * because it tells the wallet's owner for which role the wallet signs in.
 */
function saysTheSame(issued: string, signed: string): boolean {
  const [issuedFields, signedFields] = [fieldsOf(issued), fieldsOf(signed)];
  if (issuedFields === undefined || signedFields === undefined) return false;
  const chain = signedFields.get('Chain ID');
  if (chain !== undefined) signedFields.set('Chain ID', chain.replace(/^solana:/, ''));
  return (
    signedFields.size === issuedFields.size &&
    [...issuedFields].every(([name, value]) => signedFields.get(name) === value)
  );
}

/**
 * Parses the fields of a sign-in message by name. Undefined when the text has another form or
 * contains a field twice.
 */
function fieldsOf(text: string): Map<string, string> | undefined {
  const [, domain, address, statement, rest] =
    /^(\S+) wants you to sign in with your Solana account:\n(\S+)\n(?:\n([^\n]+)\n)?\n([^]+)$/.exec(
      text,
    ) ?? [];
  if (domain === undefined || address === undefined || rest === undefined) return undefined;
  const fields = new Map([
    ['domain', domain],
    ['address', address],
  ]);
  if (statement !== undefined) fields.set('statement', statement);
  for (const line of rest.split('\n')) {
    const [, name, value] = /^([A-Z][A-Za-z ]*): (\S+)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || fields.has(name)) return undefined;
    fields.set(name, value);
  }
  return fields;
}

// Public keys of small order (libsodium, ge25519_has_small_order), without the sign bit. With such
// a key, anyone can forge a signature that is valid for one in eight messages.
const smallOrder = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

function hasSmallOrder(publicKey: Uint8Array): boolean {
  const bytes = Buffer.from(publicKey);
  bytes.writeUInt8(bytes.readUInt8(31) & 0x7f, 31);
  return smallOrder.has(bytes.toString('hex'));
}

/** Whether `signature` (Base58 of 64 bytes) is the wallet's Ed25519 signature of these bytes. */
export function isSignedBy(wallet: string, message: Uint8Array, signature: string): boolean {
  const publicKey = bs58.decodeUnsafe(wallet);
  const bytes = bs58.decodeUnsafe(signature);
  if (publicKey?.length !== 32 || bytes?.length !== 64 || hasSmallOrder(publicKey)) return false;
  return isSigned(publicKey, message, bytes);
}
