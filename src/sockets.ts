/**
 * For `autoSelectFamilyAttemptTimeout` of a socket: milliseconds for which Node tries each address
 * of a name before the next address. Node's default of 250 ms is shorter than the second after
 * which a lost SYN is sent again. With that default, one lost packet would end the attempt on the
 * only reachable address.
 */
export const ADDRESS_TIMEOUT_MS = 2000;
