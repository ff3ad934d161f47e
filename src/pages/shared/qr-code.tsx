import type { ReactElement } from 'react';
import { encode } from 'uqr';

/** A text as a QR code, always dark on light. */
export function QrCode({ text }: { text: string }): ReactElement {
  const { data, size } = encode(text, { ecc: 'M', border: 2 });
  const path = data
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('');
  return (
    <svg
      className="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="QR code of this page"
      shapeRendering="crispEdges"
    >
      <path d={path} />
    </svg>
  );
}
