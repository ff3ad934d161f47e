// Wallet JWTs: HS256, valid for an hour, with PUBLIC_URL as issuer and audience.
import { createSecretKey, randomUUID } from 'node:crypto';
import * as errors from 'jose/errors';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';

export const roles = ['merchant', 'subscriber'] as const;
export type Role = (typeof roles)[number];

export interface Bearer {
  wallet: string;
  role: Role;
}

export interface Tokens {
  /** A token for the wallet and its expiry. */
  issue(bearer: Bearer): Promise<{ token: string; expiresAt: Date }>;
  /**
   * The bearer of a token; undefined for an invalid token: wrong algorithm, issuer, audience or
   * signature, or expired.
   */
  verify(token: string): Promise<Bearer | undefined>;
}

const LIFETIME_SECONDS = 3600;

/**
 * `secrets`: those of JWT_SECRET; the first signs, all verify. `issuer`: PUBLIC_URL, which is also
 * the audience.
 */
export function createTokens(secrets: readonly string[], issuer: string): Tokens {
  const keys = secrets.map((secret) => createSecretKey(secret, 'utf8'));
  const [newest] = keys;
  if (newest === undefined) throw new Error('no JWT secret');
  return {
    async issue({ wallet, role }) {
      const issuedAt = Math.floor(Date.now() / 1000);
      const token = await new SignJWT({ role })
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setIssuer(issuer)
        .setAudience(issuer)
        .setSubject(wallet)
        .setIssuedAt(issuedAt)
        .setExpirationTime(issuedAt + LIFETIME_SECONDS)
        .setJti(randomUUID())
        .sign(newest);
      return { token, expiresAt: new Date((issuedAt + LIFETIME_SECONDS) * 1000) };
    },
    async verify(token) {
      for (const key of keys) {
        try {
          const { payload } = await jwtVerify(token, key, {
            algorithms: ['HS256'],
            issuer,
            audience: issuer,
            requiredClaims: ['sub', 'role', 'iat', 'exp', 'jti'],
          });
          const { sub, role } = payload;
          return sub !== undefined && (role === 'merchant' || role === 'subscriber')
            ? { wallet: sub, role }
            : undefined;
        } catch (error) {
          if (!(error instanceof errors.JOSEError)) throw error;
          // Only a signature error can pass with an older secret; any other error is final.
          if (!(error instanceof errors.JWSSignatureVerificationFailed)) return undefined;
        }
      }
      return undefined;
    },
  };
}
