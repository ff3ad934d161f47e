// Maps the error of a failed webhook request to a code. Merchants see the code in the list of
// attempts. The error's message is not shown, because it can contain text from the network.

export const failureMeanings = {
  timeout: 'No status line came within 5 seconds.',
  dns: 'The host’s name has no address, or the name servers did not answer.',
  refused: 'Nothing accepts connections at that address and port.',
  reset: 'The connection was closed before a status line came.',
  unreachable: 'No route leads to the address.',
  chain_incomplete:
    'The certificates that the server sent lead to no known authority: the intermediate certificate is missing, or the authority is private.',
  expired: 'A certificate has expired, or is not valid yet.',
  wrong_host: 'The certificate is for another host.',
  self_signed: 'The certificate, or that of its authority, is self-signed and not trusted.',
  protocol_version: 'The server speaks no TLS version that is accepted here: 1.2 or 1.3.',
  client_certificate: 'The server wants a client certificate, and webhooks have none.',
  tls: 'TLS failed in another way: no TLS at that port, no common cipher, or with TLS 1.2 a missing client certificate.',
  blocked:
    'No webhooks are sent to private or reserved addresses, nor to ports below 1024 but 80 and 443.',
  proxy: 'The operator’s proxy for webhooks did not connect to the host.',
  protocol: 'The answer was not HTTP.',
  error: 'Something else went wrong.',
} as const;

export type Failure = keyof typeof failureMeanings;

/** Thrown when the SSRF guard refuses the address of a webhook. */
export class BlockedAddress extends Error {
  readonly code = 'BLOCKED_ADDRESS';
}

/** Thrown when the egress proxy opened no tunnel. */
export class ProxyFailed extends Error {
  readonly code = 'PROXY_FAILED';

  constructor(cause: unknown) {
    super('the egress proxy opened no tunnel', { cause });
  }
}

const byCode: Record<string, Failure> = {
  PROXY_FAILED: 'proxy',
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

// Node's names for OpenSSL's verification results and alerts. The prefix of an alert's name differs
// between versions of Node. `wrong version number` counts as `tls`, because a server without TLS
// causes it.
const tlsFaults: readonly (readonly [RegExp, Failure])[] = [
  [
    /^UNABLE_TO_(GET_ISSUER_CERT|GET_ISSUER_CERT_LOCALLY|VERIFY_LEAF_SIGNATURE)$/,
    'chain_incomplete',
  ],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, 'expired'],
  [/^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/, 'wrong_host'],
  [/^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN)$/, 'self_signed'],
  [/^ERR_SSL_.*(ALERT_PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|VERSION_TOO_LOW)$/, 'protocol_version'],
  [/^ERR_SSL_.*ALERT_(CERTIFICATE_REQUIRED|BAD_CERTIFICATE|NO_CERTIFICATE)$/, 'client_certificate'],
  [
    /^(ERR_SSL_|ERR_TLS_|CERT_|CRL_|UNABLE_TO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|EPROTO$)/,
    'tls',
  ],
];

/** Returns the code for an error of Node, undici or the SSRF guard. */
export function classify(error: unknown): Failure {
  if (error instanceof AggregateError) return classify(error.errors[0]);
  if (!(error instanceof Error)) return 'error';
  const { code, name, message, syscall, cause } = error as NodeJS.ErrnoException;
  // These errors of undici mean that a response is not HTTP. Some of them differ from the error of
  // a closed connection only in their message.
  if (name === 'HTTPParserError' || /^bad (response|upgrade)$/.test(message)) return 'protocol';
  // An ECONNREFUSED or ETIMEDOUT from a name server means that the name could not be resolved.
  if (syscall === 'getaddrinfo' || syscall?.startsWith('query') === true || code === 'ENOTFOUND')
    return 'dns';
  if (code === undefined) return cause === undefined ? 'error' : classify(cause);
  return byCode[code] ?? tlsFaults.find(([codes]) => codes.test(code))?.[1] ?? 'error';
}
