// TLS options of a database URL, with libpq's meaning of each parameter.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { PostgresTls } from '../../config/postgres-url.ts';
import { messageOf, OperatorError } from '../../errors.ts';

/**
 * Reads the files that the URL names. Returns undefined for a URL without TLS. Throws an
 * OperatorError for a file that cannot be read.
 */
export function tlsOptions(tls: PostgresTls): ConnectionOptions | undefined {
  if (tls.mode === 'disable') return undefined;
  const isVerified = tls.mode === 'verify-ca' || tls.mode === 'verify-full';
  return {
    rejectUnauthorized: isVerified,
    ...(tls.mode === 'verify-ca' && { checkServerIdentity: () => undefined }),
    ...(tls.rootCert !== undefined && { ca: read('sslrootcert', tls.rootCert) }),
    ...(tls.cert !== undefined && { cert: read('sslcert', tls.cert) }),
    ...(tls.key !== undefined && { key: read('sslkey', tls.key) }),
  };
}

function read(parameter: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new OperatorError(
      `The file of ${parameter} in DATABASE_URL cannot be read: ${messageOf(error)}.`,
      2,
    );
  }
}
