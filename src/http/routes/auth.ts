import { Type } from '@sinclair/typebox';
import { ensureMerchant } from '../../db/merchants.ts';
import { insertNonce, takeNonce } from '../../db/nonces.ts';
import { isSignedBy, signInMessage } from '../../domain/sign-in.ts';
import type { Tokens } from '../../domain/tokens.ts';
import { ServiceError } from '../../errors.ts';
import type { Api, ApiDeps } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { oneOf, Time, Wallet } from '../fields.ts';

const RoleName = oneOf(['merchant', 'subscriber'], 'What the wallet signs in as.');

/** Wallet sign-in: ask for a nonce, sign the message, get a JWT. */
export function authRoutes(api: Api, { sql, publicUrl, cluster }: ApiDeps, tokens: Tokens): void {
  api.post(
    '/auth/nonce',
    {
      schema: {
        summary: 'Get a message for the wallet to sign',
        description: 'The message is a Sign-In With Solana text that holds a nonce. It is good for five minutes and one sign-in.',
        tags: ['sign-in'],
        body: Type.Object({ wallet: Wallet, role: Type.Optional({ ...RoleName, default: 'merchant' }) }, { additionalProperties: false }),
        response: { 200: success(Type.Object({ nonce: Type.String(), message: Type.String(), expiresAt: Time })), ...failures(400) },
      },
    },
    async ({ body: { wallet, role = 'merchant' } }) => {
      const { nonce, message, expiresAt } = signInMessage({ wallet, role, publicUrl, cluster, now: new Date() });
      await insertNonce(sql, { nonce, wallet, role, message, expiresAt });
      return ok({ nonce, message, expiresAt });
    },
  );

  api.post(
    '/auth/verify',
    {
      schema: {
        summary: 'Exchange the signed message for a JWT',
        description: 'A nonce works once. The first sign-in of a wallet as a merchant creates the merchant, in the Free tier.',
        tags: ['sign-in'],
        body: Type.Object(
          {
            wallet: Wallet,
            nonce: Type.String({ minLength: 1, maxLength: 100, pattern: '^[1-9A-HJ-NP-Za-km-z]*$' }),
            signature: Type.String({ format: 'signature', description: 'Ed25519 signature of the message, in Base58.' }),
          },
          { additionalProperties: false },
        ),
        response: {
          200: success(
            Type.Object({ token: Type.String(), tokenType: Type.Literal('Bearer'), expiresAt: Time, role: RoleName, wallet: Wallet }),
          ),
          ...failures(400, 401),
        },
      },
    },
    async ({ body: { wallet, nonce, signature } }) => {
      const taken = await takeNonce(sql, nonce, wallet);
      if (taken === undefined || taken.expiresAt.getTime() <= Date.now()) {
        throw new ServiceError('UNAUTHORIZED', 'The nonce is unknown, used or expired: ask for another one.');
      }
      if (!isSignedBy(wallet, taken.message, signature)) {
        throw new ServiceError(
          'UNAUTHORIZED',
          'The signature is not this wallet’s of the message: ask for another nonce and sign its message.',
        );
      }
      const { role } = taken;
      if (role === 'merchant') await ensureMerchant(sql, wallet);
      const { token, expiresAt } = await tokens.issue({ wallet, role });
      return ok({ token, tokenType: 'Bearer' as const, expiresAt, role, wallet });
    },
  );
}
