/**
 * Milliseconds for which Node tries one address of a host name before it tries the next
 * (`autoSelectFamilyAttemptTimeout`). TCP resends a lost SYN packet only after one second. Node's
 * default is 250 ms, so Node would give up an address after one lost packet.
 */
export const ADDRESS_TIMEOUT_MS = 2000;
