// The envelope of every answer (service.md): success, data, and error only on error.
import { Type, type TSchema } from '@sinclair/typebox';
import type { ErrorCode, Fault } from '../errors.ts';

export const statusOf: Record<ErrorCode, number> = {
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  VALIDATION_ERROR: 400,
  CONFLICT: 409,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
};

/** The schema of a successful answer. */
export function success<T extends TSchema>(data: T) {
  return Type.Object({ success: Type.Literal(true), data });
}

/** A successful answer. */
export function ok<T>(data: T): { success: true; data: T } {
  return { success: true, data };
}

const Failure = Type.Object(
  {
    success: Type.Literal(false),
    data: Type.Null(),
    error: Type.Object({
      code: Type.String({ enum: Object.keys(statusOf) }),
      message: Type.String(),
      details: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
    }),
  },
  { title: 'Failure' },
);

/** A refusal. */
export function refusal(code: ErrorCode, message: string, details?: readonly Fault[]) {
  return { success: false as const, data: null, error: { code, message, ...(details !== undefined && { details: [...details] }) } };
}

/** The schemas of a route's refusals; those that every route may give are included. */
export function failures<const C extends 400 | 401 | 403 | 404 | 409>(...statuses: C[]) {
  return Object.fromEntries([...statuses, 429, 500].map((status) => [status, Failure])) as Record<C | 429 | 500, typeof Failure>;
}
