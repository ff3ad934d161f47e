import { type ReactElement, useEffect, useState } from 'react';
import type * as Encoder from '../qr-code.ts';
import { qrCodeUrl } from './installation.ts';

/**
 * Shows a text as a QR code, dark on light in every colour scheme. If the encoder cannot be loaded,
 * the code's place stays empty. The page also shows the text or other links.
 */
export function QrCode({ text, label }: { text: string; label: string }): ReactElement {
  const [code, setCode] = useState<Encoder.QrCode>();
  useEffect(() => {
    let live = true;
    (import(qrCodeUrl) as Promise<typeof Encoder>).then(
      ({ qrCodeOf }) => live && setCode(qrCodeOf(text)),
      () => undefined,
    );
    return () => {
      live = false;
    };
  }, [text]);
  if (code === undefined) return <span className="qr" />;
  return (
    <svg
      className="qr"
      viewBox={`0 0 ${code.size} ${code.size}`}
      role="img"
      aria-label={label}
      shapeRendering="crispEdges"
    >
      <path d={code.path} />
    </svg>
  );
}
