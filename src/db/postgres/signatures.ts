import bs58 from 'bs58';

/** The bytes of a Base58 signature. */
export const bytesOf = (signature: string) => Buffer.from(bs58.decode(signature));

/** Converts a Base58 signature to hex, for decode(..., 'hex'). */
export const hexOf = (signature: string) => bytesOf(signature).toString('hex');
