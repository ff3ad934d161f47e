// Maps the error of a failed webhook request to a code. Merchants see the code in the list of
// attempts. The error's message is not shown, because it can contain text from the network.

/** Meaning of each error code. */
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

/** Thrown when the SSRF guard refuses the address of a webhook. */
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

// Node's codes for OpenSSL's certificate verification errors. Other TLS errors begin with ERR_SSL_
// or ERR_TLS_.
const tls =
  /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|EPROTO$)/;

/** Returns the code for an error of Node, undici or the SSRF guard. */
export function classify(error: unknown): Failure {
  if (error instanceof AggregateError) return classify(error.errors[0]);
  if (!(error instanceof Error)) return 'error';
  const { code, name, message, syscall, cause } = error as NodeJS.ErrnoException;
  // undici's errors for a response that is not HTTP. Some of them differ from a closed connection
  // only in their message.
  if (name === 'HTTPParserError' || /^bad (response|upgrade)$/.test(message)) return 'protocol';
  // An ECONNREFUSED or ETIMEDOUT from a name server means that the name could not be resolved.
  if (syscall === 'getaddrinfo' || syscall?.startsWith('query') === true || code === 'ENOTFOUND')
    return 'dns';
  if (code === undefined) return cause === undefined ? 'error' : classify(cause);
  if (tls.test(code)) return 'tls';
  return byCode[code] ?? 'error';
}
