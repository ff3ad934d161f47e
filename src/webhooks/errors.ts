// Classifies a request without a status line into one code, which merchants see in the log of
// attempts. The error's message is not shown, because it can contain text from the network.

/** The codes, each with its meaning. */
export const failureMeanings = {
  timeout: 'No status line came within 5 seconds.',
  dns: 'The host’s name has no address, or the name servers did not answer.',
  refused: 'Nothing accepts connections at that address and port.',
  reset: 'The connection was closed before a status line came.',
  unreachable: 'No route leads to the address.',
  tls: 'The certificate is not valid for the host, or TLS failed.',
  blocked: 'The address is private or reserved: webhooks are not sent there.',
  protocol: 'The answer was not HTTP.',
  error: 'Something else went wrong.',
} as const;

export type Failure = keyof typeof failureMeanings;

/** The SSRF guard refuses the target's address. */
export class BlockedAddress extends Error {
  readonly code = 'BLOCKED_ADDRESS';
}

const byCode: Record<string, Failure> = {
  BLOCKED_ADDRESS: 'blocked',
  UND_ERR_SOCKET: 'reset',
  UND_ERR_INFO: 'reset',
  UND_ERR_HEADERS_OVERFLOW: 'protocol',
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

// Node's names of OpenSSL's verification results; other TLS errors begin with ERR_SSL_ or ERR_TLS_.
const tls =
  /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|EPROTO$)/;

/** The code of an error of Node, undici or the guard. */
export function classify(error: unknown): Failure {
  if (error instanceof AggregateError) return classify(error.errors[0]);
  if (!(error instanceof Error)) return 'error';
  const { code, name, message, syscall, cause } = error as NodeJS.ErrnoException;
  // undici's errors for responses that are not HTTP; some differ from a closed connection only in
  // their message.
  if (name === 'HTTPParserError' || /^bad (response|upgrade)$/.test(message)) return 'protocol';
  // A name server's ECONNREFUSED or ETIMEDOUT is a failure to resolve.
  if (syscall === 'getaddrinfo' || syscall?.startsWith('query') === true || code === 'ENOTFOUND')
    return 'dns';
  if (code === undefined) return cause === undefined ? 'error' : classify(cause);
  if (tls.test(code)) return 'tls';
  return byCode[code] ?? 'error';
}
