// Envelopes of off-chain messages (Solana's "off-chain message signing" proposal, wallet-standard's
// solana:signOffchainMessage). Hardware wallets sign a text only inside such an envelope.
//
//   legacy     header, 0, format, length, text
//   version 0  header, 0, application domain (32 bytes), format, 1, signer (32 bytes), length, text
//   version 1  header, 1, 1, signer (32 bytes), text
//
// `header` is the byte ff and "solana offchain". The byte after the header is the version. The 1
// before the signer is the number of signers. `length` is the length of the text (u16,
// little-endian).
import bs58 from 'bs58';

const HEADER = Buffer.from('\xffsolana offchain', 'latin1');
const VERSION_PLACE = HEADER.length;
const BODY_PLACE = VERSION_PLACE + 1;
const KEY_LENGTH = 32;
/**
 * Value of the field `format` for UTF-8 texts of up to 1,212 bytes. Format 0 allows no line feeds.
 */
const UTF_8 = 1;

/**
 * Returns the texts that the signed bytes may contain: the bare text, or the text of an envelope
 * whose only signer is `wallet`. Bytes that fit both legacy and version 0 give two texts, because
 * both formats have version byte 0. A malformed envelope gives no text.
 */
export function textsOf(signed: Buffer, wallet: string): string[] {
  const texts = signed.subarray(0, HEADER.length).equals(HEADER)
    ? [legacyText(signed), version0Text(signed, wallet), version1Text(signed, wallet)]
    : [signed];
  return texts.flatMap((bytes) => decodeUtf8(bytes) ?? []);
}

/**
 * Returns the text of a legacy envelope. Accepts format 0 although a sign-in text has line feeds,
 * because wallets set format 0 in this envelope.
 */
function legacyText(bytes: Buffer): Buffer | undefined {
  const formatPlace = BODY_PLACE;
  if (bytes[VERSION_PLACE] !== 0 || (bytes[formatPlace] ?? 2) > UTF_8) return undefined;
  return textAfterLength(bytes, formatPlace + 1);
}

function version0Text(bytes: Buffer, wallet: string): Buffer | undefined {
  const formatPlace = BODY_PLACE + KEY_LENGTH;
  if (bytes[VERSION_PLACE] !== 0 || bytes[formatPlace] !== UTF_8) return undefined;
  const lengthPlace = placeAfterSigner(bytes, formatPlace + 1, wallet);
  return lengthPlace === undefined ? undefined : textAfterLength(bytes, lengthPlace);
}

function version1Text(bytes: Buffer, wallet: string): Buffer | undefined {
  if (bytes[VERSION_PLACE] !== 1) return undefined;
  const textPlace = placeAfterSigner(bytes, BODY_PLACE, wallet);
  return textPlace === undefined ? undefined : bytes.subarray(textPlace);
}

/**
 * Returns the byte offset after a list of signers, if the list contains only `wallet`. Returns
 * undefined for other lists.
 */
function placeAfterSigner(bytes: Buffer, countPlace: number, wallet: string): number | undefined {
  const end = countPlace + 1 + KEY_LENGTH;
  if (bytes[countPlace] !== 1 || bytes.length < end) return undefined;
  return bs58.encode(bytes.subarray(countPlace + 1, end)) === wallet ? end : undefined;
}

function textAfterLength(bytes: Buffer, lengthPlace: number): Buffer | undefined {
  const textPlace = lengthPlace + 2;
  if (bytes.length < textPlace) return undefined;
  return bytes.length === textPlace + bytes.readUInt16LE(lengthPlace)
    ? bytes.subarray(textPlace)
    : undefined;
}

function decodeUtf8(bytes: Buffer | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  try {
    // With ignoreBOM the decoder keeps a byte order mark as a character. Otherwise the mark would
    // be dropped silently.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
