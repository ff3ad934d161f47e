import { type Static, Type } from '@sinclair/typebox';
import { ensureMerchant } from '../../db/merchants.ts';
import { insertNonce, takeNonce } from '../../db/nonces.ts';
import { readClock } from '../../db/postgres/clock.ts';
import {
  isSignedBy,
  saysTheSame,
  signInMessage,
  signInPage,
} from '../../domain/accounts/sign-in.ts';
import { roles, type Tokens } from '../../domain/accounts/tokens.ts';
import { ServiceError } from '../../errors.ts';
import type { Api, ApiDeps } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { oneOf, Time, Wallet } from '../fields.ts';

const Role = oneOf(roles, 'The role of the session.');

/** Registers wallet sign-in: the client asks for a nonce, signs the message and gets a JWT. */
export function authRoutes(api: Api, deps: ApiDeps, tokens: Tokens): void {
  nonceRoute(api, deps);
  verifyRoute(api, deps, tokens);
}

function nonceRoute(api: Api, deps: ApiDeps): void {
  const { sql, cluster } = deps;
  api.post(
    '/auth/nonce',
    {
      schema: {
        summary: 'Get a message for the wallet to sign',
        description:
          'The message is a Sign-In With Solana text with a nonce, valid for five minutes and one sign-in. Its domain and URI are those of the request’s Origin if the operator allows that origin, else those of the service, because wallets only sign messages for the domain of the page.',
        tags: ['sign-in'],
        body: Type.Object(
          { wallet: Wallet, role: Type.Optional({ ...Role, default: 'merchant' }) },
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
            }),
          ),
          ...failures(400),
        },
      },
    },
    async ({ headers: { origin }, body: { wallet, role = 'merchant' } }) => {
      const { nonce, message, expiresAt } = signInMessage({
        wallet,
        role,
        page: signInPage(origin, deps),
        cluster,
        now: new Date(await readClock(sql)),
      });
      await insertNonce(sql, { nonce, wallet, role, message, expiresAt });
      return ok({ nonce, message, expiresAt });
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
          'The message that the wallet built itself (solana:signIn), in Base64. Every field must equal that of the issued message; the statement may be absent.',
      }),
    ),
  },
  { additionalProperties: false },
);

function verifyRoute(api: Api, { sql, merchants }: ApiDeps, tokens: Tokens): void {
  api.post(
    '/auth/verify',
    {
      schema: {
        summary: 'Exchange the signed message for a JWT',
        description:
          'A nonce works once. The first sign-in of a wallet as a merchant creates the merchant, in the Free tier. Where the operator approves merchants, it can only read until then.',
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
          ...failures(400, 401),
        },
      },
    },
    async ({ body }) => {
      const { wallet, nonce } = body;
      const taken = await takeNonce(sql, nonce, wallet);
      if (taken === undefined)
        throw new ServiceError(
          'UNAUTHORIZED',
          'The nonce is unknown, used or expired: ask for another one.',
        );
      assertSigned(taken.message, body);
      const { role } = taken;
      if (role === 'merchant')
        await ensureMerchant(sql, wallet, { approval: merchants === 'approval' });
      const { token, expiresAt } = await tokens.issue({ wallet, role });
      return ok({ token, tokenType: 'Bearer' as const, expiresAt, role, wallet });
    },
  );
}

/**
 * Throws UNAUTHORIZED unless the wallet signed the issued message. A message that the wallet
 * composed is also valid if its fields are the same.
 */
function assertSigned(
  issued: string,
  { wallet, signature, signedMessage }: Static<typeof SignedMessage>,
): void {
  const signed = Buffer.from(signedMessage ?? issued, signedMessage ? 'base64' : 'utf8');
  if (signedMessage !== undefined && !saysTheSame(issued, signed.toString('utf8')))
    throw new ServiceError(
      'UNAUTHORIZED',
      'The signed message differs from the issued one: ask for another nonce and sign its message.',
    );
  if (!isSignedBy(wallet, signed, signature))
    throw new ServiceError(
      'UNAUTHORIZED',
      'The signature is not one of this wallet over the message: ask for another nonce and sign its message.',
    );
}
