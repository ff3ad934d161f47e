// Why no status line came, as one word that merchants see in the attempt log. The message of the error is left out: it can hold what others sent.

export const FAILURES = ['timeout', 'dns', 'refused', 'reset', 'unreachable', 'tls', 'blocked', 'protocol', 'error'] as const;

export type Failure = (typeof FAILURES)[number];

/** The target is at an address that webhooks are not sent to. */
export class BlockedAddress extends Error {
  readonly code = 'BLOCKED_ADDRESS';
}

const byCode: Record<string, Failure> = {
  BLOCKED_ADDRESS: 'blocked',
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  // undici's "other side closed"
  UND_ERR_SOCKET: 'reset',
  ETIMEDOUT: 'timeout',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  EHOSTDOWN: 'unreachable',
  UND_ERR_HEADERS_OVERFLOW: 'protocol',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'protocol',
};

// OpenSSL's verification results, as Node names them; the rest of its errors begin with ERR_SSL_ or ERR_TLS_.
const tls =
  /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|EPROTO$)/;

/** The class of whatever undici, Node or the guard threw. */
export function classify(error: unknown): Failure {
  if (error instanceof AggregateError) return classify(error.errors[0]);
  if (!(error instanceof Error)) return 'error';
  const { code, syscall, cause, name } = error as NodeJS.ErrnoException;
  // The same names stand for other things when the name server said them.
  if (syscall === 'getaddrinfo' || syscall?.startsWith('query') === true || code === 'ENOTFOUND') return 'dns';
  // llhttp's errors have their code only for some faults.
  if (name === 'HTTPParserError') return 'protocol';
  if (code === undefined) return cause === undefined ? 'error' : classify(cause);
  if (tls.test(code)) return 'tls';
  return byCode[code] ?? 'error';
}
