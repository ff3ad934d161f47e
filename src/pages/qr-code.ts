// The encoder of QR codes. The encoder is a separate file, because most pages never show a QR code.
import { encode } from 'uqr';

export interface QrCode {
  /** Length of the code's side, including the border. The unit is one module (one small square). */
  readonly size: number;
  /** SVG path of all dark modules. */
  readonly path: string;
}

export function qrCodeOf(text: string): QrCode {
  const { data, size } = encode(text, { ecc: 'M', border: 2 });
  const path = data
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('');
  return { size, path };
}
