/**
 * Milliseconds for which Node tries one address of a host name before it tries the next
 * (`autoSelectFamilyAttemptTimeout`). TCP resends a lost SYN packet only after one second. Node's
 * default is 250 ms, so Node would give up an address after one lost packet.
 */
export const ADDRESS_TIMEOUT_MS = 2000;

/**
 * Whether webhooks may be sent to this port: 80, 443 or above 1023. `port` is the port of a URL,
 * which is empty for the scheme's default. The other ports belong to mail, SSH and other services
 * that a stranger's POST must not reach.
 */
export function isWebhookPort(port: string): boolean {
  return port === '' || port === '80' || port === '443' || Number(port) > 1023;
}
