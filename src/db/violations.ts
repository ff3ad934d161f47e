import postgres from 'postgres';

// https://www.postgresql.org/docs/current/errcodes-appendix.html: 23505 unique_violation.
const uniqueViolation = '23505';

/** Whether a statement violated the unique index `constraint`. */
export function isDuplicate(error: unknown, constraint: string): boolean {
  return (
    error instanceof postgres.PostgresError &&
    error.code === uniqueViolation &&
    error.constraint_name === constraint
  );
}
