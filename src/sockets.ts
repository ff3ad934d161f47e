/**
 * Milliseconds for which Node tries one address of a host name before it tries the next
 * (`autoSelectFamilyAttemptTimeout`). TCP resends a lost SYN after one second. With Node's default
 * of 250 ms, one lost packet would end the attempt on the only reachable address.
 */
export const ADDRESS_TIMEOUT_MS = 2000;
