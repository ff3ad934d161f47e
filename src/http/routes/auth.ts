import { type Static, Type } from '@sinclair/typebox';
import { judgeSent } from '../../chain/rpc/landing.ts';
import { ensureMerchant } from '../../db/accounts/merchants.ts';
import { insertNonce, takeNonce } from '../../db/accounts/nonces.ts';
import { readClock } from '../../db/postgres/clock.ts';
import {
  isMessageOf,
  isSignedBy,
  NONCE_LIFETIME_MS,
  refuseKeyless,
  rolesOf,
  signInMessage,
  signInMethods,
  signInPage,
  tokenPage,
} from '../../domain/accounts/sign-in.ts';
import { type Role as RoleName, roles, type Tokens } from '../../domain/accounts/tokens.ts';
import { readBlockhash, readWitnessed } from '../../domain/chain-reads.ts';
import { ServiceError } from '../../errors.ts';
import type { Api, ApiDeps } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { oneOf, Time, UnsignedTransaction, Wallet } from '../shapes/fields.ts';

const Role = oneOf(roles, 'The role of the session.');
const AskedRole = oneOf(
  roles,
  'The role of the session. The default is merchant, and subscriber on pages that sign in subscribers only.',
);

const AskedMethod = oneOf(
  ['message', 'transaction'],
  'transaction: answer with a transaction that carries the message, for a wallet that signs nothing else. It signs in subscribers only.',
);

/**
 * Registers the routes of wallet sign-in: the client asks for a nonce, signs the message and gets a
 * JWT.
 */
export function authRoutes(api: Api, deps: ApiDeps, tokens: Tokens): void {
  methodsRoute(api, deps);
  nonceRoute(api, deps);
  verifyRoute(api, deps, tokens);
}

function methodsRoute(api: Api, deps: ApiDeps): void {
  api.get(
    '/auth/methods',
    {
      schema: {
        summary: 'List the ways to sign in',
        description:
          'In the order in which a page tries them, with the roles that the request’s Origin may sign in for. transaction is the last resort, for wallets that sign transactions only.',
        tags: ['sign-in'],
        response: {
          200: success(
            Type.Array(
              Type.Object({
                method: oneOf(
                  signInMethods.map(({ method }) => method),
                  'How the wallet signs.',
                ),
                feature: Type.String({
                  description: 'The Wallet Standard feature that it needs.',
                  examples: ['solana:signMessage'],
                }),
                roles: Type.Array(Role, { description: 'The roles that it can sign in for.' }),
              }),
            ),
          ),
          ...failures(),
        },
      },
    },
    ({ headers: { origin } }) => {
      const allowed = rolesOf(origin, deps);
      return ok(
        signInMethods
          .map((way) => ({ ...way, roles: allowed.filter((role) => isIn(way.roles, role)) }))
          .filter((way) => way.roles.length > 0),
      );
    },
  );
}

const isIn = (names: readonly RoleName[], role: RoleName) => names.includes(role);

function nonceRoute(api: Api, deps: ApiDeps): void {
  const { sql, chain, cluster } = deps;
  api.post(
    '/auth/nonce',
    {
      schema: {
        summary: 'Get a message for the wallet to sign',
        description:
          'The message is a Sign-In With Solana text with a nonce, valid for five minutes and one sign-in. Its domain and URI are those of the request’s Origin if the operator allows that origin, else those of the service, because wallets only sign messages for the domain of the page. Merchants sign in on pages of the service and of DASHBOARD_ORIGINS: another Origin is FORBIDDEN.',
        tags: ['sign-in'],
        body: Type.Object(
          {
            wallet: Wallet,
            role: Type.Optional(AskedRole),
            method: Type.Optional({ ...AskedMethod, default: 'message' }),
          },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object({
              nonce: Type.String({ description: 'To be sent back with the signature.' }),
              message: Type.String({
                description: 'The text that the wallet signs, byte for byte.',
              }),
              expiresAt: Time,
              transaction: Type.Optional({
                ...UnsignedTransaction,
                description:
                  'For method transaction: an unsigned transaction in Base64, for the wallet to sign. It is never sent.',
              }),
            }),
          ),
          ...failures(400, 403),
        },
      },
    },
    async ({ headers: { origin }, body }) => {
      const { wallet, method } = body;
      refuseKeyless(wallet);
      const byTransaction = method === 'transaction';
      const usual = byTransaction ? 'subscriber' : rolesOf(origin, deps)[0];
      const { role = usual ?? 'subscriber' } = body;
      assertRole(role, origin, deps);
      if (byTransaction) assertMayUseTransaction(role);
      const { nonce, message, expiresAt } = signInMessage({
        wallet,
        role,
        page: signInPage(origin, deps),
        cluster,
        now: new Date(await readClock(sql)),
      });
      await insertNonce(sql, { nonce, wallet, role, message, expiresAt });
      if (!byTransaction) return ok({ nonce, message, expiresAt });
      const { blockhash } = await readBlockhash(chain);
      // web3.js loads slowly and only sign-in by transaction needs it, so it is imported on demand.
      const { signInTransaction } = await import('../../chain/transactions/sign-in.ts');
      const transaction = signInTransaction(wallet, message, blockhash);
      return ok({ nonce, message, expiresAt, transaction });
    },
  );
}

const SignedMessage = Type.Object(
  {
    wallet: Wallet,
    nonce: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[1-9A-HJ-NP-Za-km-z]*$',
      description: 'From POST /auth/nonce.',
    }),
    signature: Type.String({
      format: 'signature',
      description: 'Ed25519 signature of the message, in Base58.',
    }),
    signedMessage: Type.Optional(
      Type.String({
        contentEncoding: 'base64',
        minLength: 1,
        maxLength: 4000,
        pattern: '^[A-Za-z0-9+/]+={0,2}$',
        description:
          'The bytes that the wallet signed, in Base64, where they differ from the issued message: a message that it built itself (solana:signIn), or the message in the envelope of an off-chain message (legacy, version 0 or version 1, with the wallet as its only signer), or the message of the signed transaction. Every field must equal that of the issued message; the statement too, because it names the role.',
      }),
    ),
  },
  { additionalProperties: false },
);

function verifyRoute(api: Api, deps: ApiDeps, tokens: Tokens): void {
  const { sql, merchants } = deps;
  api.post(
    '/auth/verify',
    {
      schema: {
        summary: 'Exchange the signed message for a JWT',
        description:
          'A nonce works once. The first sign-in of a wallet as a merchant creates the merchant, in the Free tier. Where the operator approves merchants, it can only read until then. The token that a page of CORS_ORIGINS gets as a subscriber reaches only the apps whose returnOrigins have the page’s origin; other subscriptions, plans and offers are FORBIDDEN.',
        tags: ['sign-in'],
        body: SignedMessage,
        response: {
          200: success(
            Type.Object({
              token: Type.String({ description: 'A JWT, to send as Authorization: Bearer.' }),
              tokenType: Type.Literal('Bearer', { description: 'The authorization scheme.' }),
              expiresAt: Time,
              role: Role,
              wallet: Wallet,
            }),
          ),
          ...failures(400, 401, 403),
        },
      },
    },
    async ({ headers: { origin }, body }) => {
      const { wallet, nonce } = body;
      refuseKeyless(wallet);
      const issued = await takeNonce(sql, nonce, wallet);
      if (issued === undefined)
        throw new ServiceError(
          'UNAUTHORIZED',
          'The nonce is unknown, used or expired: ask for another one.',
        );
      const { role } = issued;
      assertRole(role, origin, deps);
      await assertSigned(deps, issued, body);
      if (role === 'merchant')
        await ensureMerchant(sql, wallet, { approval: merchants === 'approval' });
      const page = tokenPage(issued.message, origin, deps.publicUrl);
      const { token, expiresAt } = await tokens.issue({ wallet, role, page });
      return ok({ token, tokenType: 'Bearer' as const, expiresAt, role, wallet });
    },
  );
}

/** Throws FORBIDDEN when pages of this origin must not sign in wallets for this role. */
function assertRole(role: RoleName, origin: string | undefined, deps: ApiDeps): void {
  if (!rolesOf(origin, deps).includes(role))
    throw new ServiceError(
      'FORBIDDEN',
      `Pages of this origin sign in subscribers only. Merchants sign in at ${new URL(deps.publicUrl).origin}; the operator allows further origins in DASHBOARD_ORIGINS.`,
    );
}

function assertMayUseTransaction(role: RoleName): void {
  if (role !== 'subscriber')
    throw new ServiceError(
      'FORBIDDEN',
      'A transaction signs in subscribers only. Merchants sign a message.',
    );
}

const UNSEEN =
  'It cannot be seen just now whether the transaction was sent: too few Solana nodes answer. Try again in a moment: ask for another nonce.';

/**
 * Throws UNAUTHORIZED unless the wallet signed the issued message. A wallet signs the message as
 * plain text or in the envelope of an off-chain message. A subscriber may also sign a transaction
 * that contains the message. Throws FORBIDDEN if a merchant signed such a transaction.
 */
async function assertSigned(
  { chain }: ApiDeps,
  { message: issued, role }: { message: string; role: RoleName },
  { wallet, signature, signedMessage }: Static<typeof SignedMessage>,
): Promise<void> {
  const signed = Buffer.from(signedMessage ?? issued, signedMessage ? 'base64' : 'utf8');
  if (!isSignedBy(wallet, signed, signature))
    throw new ServiceError(
      'UNAUTHORIZED',
      'The signature is not one of this wallet over the message: ask for another nonce and sign its message.',
    );
  if (signedMessage === undefined || isMessageOf(issued, signed, wallet)) return;
  const { isSignInMessage } = await import('../../chain/transactions/sign-in.ts');
  if (!isSignInMessage(wallet, issued, signed))
    throw new ServiceError(
      'UNAUTHORIZED',
      'The signed message differs from the issued one: ask for another nonce and sign its message.',
    );
  assertMayUseTransaction(role);
  // Anyone can read the signature of a transaction that is on chain, so such a signature proves
  // nothing. One endpoint may be behind or keep no history, so two endpoints have to show that the
  // transaction is not on chain.
  const sent = await readWitnessed(UNSEEN, async () => {
    const verdict = await judgeSent(chain, signature, NONCE_LIFETIME_MS / 1000);
    return verdict === 'unknown' ? undefined : verdict;
  });
  if (sent === 'sent')
    throw new ServiceError(
      'UNAUTHORIZED',
      'The transaction was sent, so its signature is public: ask for another nonce, and only sign.',
    );
}
