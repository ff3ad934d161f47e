import bs58 from 'bs58';

/** Converts a Base58 signature to hex, for decode(..., 'hex'). */
export const hexOf = (signature: string) => Buffer.from(bs58.decode(signature)).toString('hex');
