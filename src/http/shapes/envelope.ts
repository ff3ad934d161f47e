// The envelope of every response (docs/contract.md): `success`, `data`, and for errors `error`.
import { Type, type TSchema } from '@sinclair/typebox';
import type { ErrorCode, Fault } from '../../errors.ts';

export const statusOf: Record<ErrorCode, number> = {
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  VALIDATION_ERROR: 400,
  CONFLICT: 409,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
};

/** Returns the schema of a successful response. */
export function success<T extends TSchema>(data: T) {
  return Type.Object({
    success: Type.Literal(true, { description: 'Whether the request succeeded.' }),
    data: data.title === undefined ? { description: 'The result.', ...data } : data,
  });
}

/** Wraps `data` in the envelope of a successful response. */
export function ok<T>(data: T): { success: true; data: T } {
  return { success: true, data };
}

const Failure = Type.Object(
  {
    success: Type.Literal(false, { description: 'Whether the request succeeded.' }),
    data: Type.Null({ description: 'Always null.' }),
    error: Type.Object(
      {
        code: Type.String({ enum: Object.keys(statusOf), description: 'Machine-readable.' }),
        message: Type.String({ description: 'Human-readable; may change.' }),
        details: Type.Optional(
          Type.Array(
            Type.Object({
              path: Type.String({ description: 'The field or parameter.' }),
              message: Type.String({ description: 'The rule that the value breaks.' }),
            }),
            { description: 'With VALIDATION_ERROR: the invalid fields.' },
          ),
        ),
      },
      { description: 'The reason of the failure.' },
    ),
  },
  { title: 'Failure' },
);

export function refusal(code: ErrorCode, message: string, details?: readonly Fault[]) {
  return {
    success: false as const,
    data: null,
    error: { code, message, ...(details !== undefined && { details: [...details] }) },
  };
}

/**
 * Returns the schemas of a route's error responses. Every route also has the statuses 429, 500 and
 * 503.
 */
export function failures<const C extends 400 | 401 | 403 | 404 | 409>(...statuses: C[]) {
  const all = [...statuses, 429, 500, 503];
  return Object.fromEntries(all.map((status) => [status, Failure])) as Record<
    C | 429 | 500 | 503,
    typeof Failure
  >;
}
