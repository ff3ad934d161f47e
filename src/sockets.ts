/**
 * For `autoSelectFamilyAttemptTimeout` of a socket: how long Node tries each address of a name
 * before the next. Its default, 250 ms, is shorter than the second after which a lost SYN is sent
 * again, so one lost packet would end the try of the only address that is reachable.
 */
export const ADDRESS_TIMEOUT_MS = 2000;
