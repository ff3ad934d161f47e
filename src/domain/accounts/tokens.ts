// Wallet JWTs: HS256, valid for an hour, with PUBLIC_URL as issuer and audience.
import { createSecretKey, randomUUID } from 'node:crypto';
import type { JWTPayload } from 'jose';
import * as errors from 'jose/errors';
import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';

export const roles = ['merchant', 'subscriber'] as const;
export type Role = (typeof roles)[number];

export interface Bearer {
  wallet: string;
  role: Role;
  /** Origin of the page that got the token. Null if a program got the token. */
  page: string | null;
}

export interface VerifiedBearer extends Bearer {
  /** Time of the sign-in, in Unix seconds. */
  issuedAt: number;
}

export interface Tokens {
  /** Issues a token for the bearer's wallet. Also returns the token's expiry. */
  issue(bearer: Bearer): Promise<{ token: string; expiresAt: Date }>;
  /**
   * Returns the bearer of a token. Undefined when the token is expired or has a wrong algorithm,
   * issuer, audience or signature.
   */
  verify(token: string): Promise<VerifiedBearer | undefined>;
}

/** How long a token is valid. */
const LIFETIME_SECONDS = 3600;

/**
 * `secrets` are the secrets of JWT_SECRET. The first secret signs; all secrets verify. `issuer` is
 * PUBLIC_URL, which is also the audience.
 */
export function createTokens(secrets: readonly string[], issuer: string): Tokens {
  const keys = secrets.map((secret) => createSecretKey(secret, 'utf8'));
  const [newest] = keys;
  if (newest === undefined) throw new Error('no JWT secret');
  return {
    async issue({ wallet, role, page }) {
      const issuedAt = Math.floor(Date.now() / 1000);
      const token = await new SignJWT({ role, ...(page !== null && { page }) })
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
          return bearerOf(payload);
        } catch (error) {
          if (!(error instanceof errors.JOSEError)) throw error;
          // After a signature error an older secret may still verify the token. Any other error is
          // final.
          if (!(error instanceof errors.JWSSignatureVerificationFailed)) return undefined;
        }
      }
      return undefined;
    },
  };
}

function bearerOf({ sub, role, iat, page = null }: JWTPayload): VerifiedBearer | undefined {
  if (sub === undefined || iat === undefined) return undefined;
  if (role !== 'merchant' && role !== 'subscriber') return undefined;
  if (page !== null && typeof page !== 'string') return undefined;
  return { wallet: sub, role, page, issuedAt: iat };
}
