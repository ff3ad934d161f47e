const always = {
  'content-security-policy': "default-src 'none';frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  // Other sites may call the API: CORS_ORIGINS says which.
  'cross-origin-resource-policy': 'cross-origin',
  'origin-agent-cluster': '?1',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'x-download-options': 'noopen',
  'x-frame-options': 'SAMEORIGIN',
  'x-permitted-cross-domain-policies': 'none',
  'x-xss-protection': '0',
};

/** Headers of every response, as helmet sets them. HSTS only when PUBLIC_URL is https. */
export function securityHeaders(publicUrl: string): Record<string, string> {
  return publicUrl.startsWith('https:')
    ? { ...always, 'strict-transport-security': 'max-age=31536000; includeSubDomains' }
    : always;
}
