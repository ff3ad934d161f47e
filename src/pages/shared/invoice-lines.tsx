import type { ReactElement } from 'react';
import { lineText, type ShownInvoice } from './invoice-text.ts';
import { words } from './language.ts';
import { Badge, Usdc } from './parts.tsx';
import { Time } from './time.tsx';

/** Shows the state of an invoice, or that it is forgiven. */
export function InvoiceBadge({ of }: { of: ShownInvoice }): ReactElement {
  return <Badge status={of.voidReason === 'forgiven' ? 'forgiven' : of.state} />;
}

/** Shows the time that an invoice pays for. */
export function InvoiceTime({ of }: { of: ShownInvoice }): ReactElement {
  const { coversFrom, coversTo, dueAt } = of;
  if (coversFrom === null || coversTo === null) return <Time at={dueAt} dateOnly />;
  return (
    <span>
      <Time at={coversFrom} dateOnly /> – <Time at={coversTo} dateOnly />
    </span>
  );
}

/** Shows the lines of an invoice, the credit that it takes, and what is left to pay. */
export function InvoiceLines({ of }: { of: ShownInvoice }): ReactElement {
  const { lines, creditApplied, amountDue } = of;
  return (
    <ul className="amounts">
      {lines.map((line, index) => (
        <Amount key={index} name={lineText(line, of)} units={line.amount} />
      ))}
      {creditApplied !== '0' && <Amount name={words.invoice.credit} units={`-${creditApplied}`} />}
      {(lines.length > 1 || creditApplied !== '0') && (
        <Amount name={words.invoice.due} units={amountDue} />
      )}
    </ul>
  );
}

const Amount = ({ name, units }: { name: string; units: string }): ReactElement => (
  <li>
    <span className="muted">{name}</span> <Usdc units={units} />
  </li>
);
