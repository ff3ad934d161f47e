// Why no status line came, as one word that merchants see in the attempt log. The message of the error is left out: it can hold what others sent.

export const FAILURES = ['timeout', 'dns', 'refused', 'reset', 'unreachable', 'tls', 'blocked', 'protocol', 'error'] as const;

export type Failure = (typeof FAILURES)[number];

/** The target is at an address that webhooks are not sent to. */
export class BlockedAddress extends Error {
  readonly code = 'BLOCKED_ADDRESS';
}

/** What came is no HTTP answer. */
export class BadAnswer extends Error {
  readonly code = 'BAD_ANSWER';
}

/** The other side has closed the connection. */
export class ClosedConnection extends Error {
  readonly code = 'CLOSED_CONNECTION';
}

const byCode: Record<string, Failure> = {
  BLOCKED_ADDRESS: 'blocked',
  BAD_ANSWER: 'protocol',
  CLOSED_CONNECTION: 'reset',
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ETIMEDOUT: 'timeout',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  EHOSTDOWN: 'unreachable',
};

// OpenSSL's verification results, as Node names them; the rest of its errors begin with ERR_SSL_ or ERR_TLS_.
const tls =
  /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|EPROTO$)/;

/** The class of whatever Node, undici's connector or the guard threw, or an answer turned out to be. */
export function classify(error: unknown): Failure {
  if (error instanceof AggregateError) return classify(error.errors[0]);
  if (!(error instanceof Error)) return 'error';
  const { code, syscall, cause } = error as NodeJS.ErrnoException;
  // The same names stand for other things when the name server said them.
  if (syscall === 'getaddrinfo' || syscall?.startsWith('query') === true || code === 'ENOTFOUND') return 'dns';
  if (code === undefined) return cause === undefined ? 'error' : classify(cause);
  if (tls.test(code)) return 'tls';
  return byCode[code] ?? 'error';
}
