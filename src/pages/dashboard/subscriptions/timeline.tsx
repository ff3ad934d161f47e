import type { ReactElement } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Signature, Usdc } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { failureText } from '../parts/reasons.ts';

type Entry = components['schemas']['TimelineEntry'];

const kinds: Readonly<Record<Entry['kind'], string>> = {
  event: 'Event',
  payment: 'Payment',
  refund: 'Refund',
  attempt: 'Transaction',
  delivery: 'Webhook',
};

const toneOf = ({ what }: Entry): string =>
  /succeeded|delivered|landed|payment_success|created|resumed/.test(what)
    ? 'good'
    : /failed|revoked|expired|forced/.test(what)
      ? 'bad'
      : '';

/** Shows events, payments, transactions and deliveries in one list, newest first. */
export function Timeline({ entries }: { entries: readonly Entry[] }): ReactElement {
  if (entries.length === 0) return <div className="empty">Nothing has happened yet.</div>;
  return (
    <ol className="timeline">
      {entries.map((entry) => (
        <li key={`${entry.kind}${entry.id}`} className={toneOf(entry)}>
          <span>
            <strong>
              {kinds[entry.kind]}: {entry.what.replaceAll('_', ' ')}
            </strong>{' '}
            {entry.kind === 'delivery' ? (
              <a href={`#/webhook/${entry.webhookId ?? ''}.${entry.id}`}>
                {entry.detail?.replaceAll('_', ' ')}
              </a>
            ) : (
              entry.detail !== null && (
                <span className="muted">
                  {entry.kind === 'payment'
                    ? failureText(entry.detail)
                    : foreign(entry.detail, 200)}
                </span>
              )
            )}{' '}
            {entry.amount !== null && <Usdc units={entry.amount} />}{' '}
            {entry.amountRefunded !== null && entry.amountRefunded !== '0' && (
              <span className="muted">
                <Usdc units={entry.amountRefunded} /> refunded{' '}
              </span>
            )}
            {entry.signature !== null && <Signature of={entry.signature} />}
          </span>
          <span className="muted small">
            <Time at={entry.at} />
          </span>
        </li>
      ))}
    </ol>
  );
}
