// Exports payments as CSV. The export is part of the Pro tier.
import { type ReactElement, useState } from 'react';
import { isCode } from '../../shared/errors.ts';
import { contactLink } from '../../shared/installation.ts';
import type { AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import type { Range } from '../parts/days.ts';
import { saveFile } from '../parts/file.ts';
import { datesOf, daysOf, presets } from '../parts/presets.ts';

/** The filters of the list of payments. */
export interface PaymentFilters extends Range {
  readonly status?: ('succeeded' | 'failed')[];
  readonly planId?: string;
}

/**
 * Asks for the days to export and downloads the file. The user chooses a preset such as "This
 * month", or the days by which the list is filtered. Without such a filter, the latter choice means
 * all time.
 */
export function Export({
  context: { session, app },
  filters,
  onClose,
  onRefused,
}: {
  context: AppContext;
  filters: PaymentFilters;
  onClose: () => void;
  /** Called when the service refuses the export because the merchant's tier no longer has it. */
  onRefused: () => void;
}): ReactElement {
  const { since, until, ...others } = filters;
  const isFiltered = since !== undefined || until !== undefined;
  const [chosen, setChosen] = useState<string>(isFiltered ? 'list' : 'this-month');
  const preset = presets.find(([id]) => id === chosen)?.[0];
  const days = preset === undefined ? undefined : daysOf(preset, new Date());
  const save = async () => {
    const range =
      days === undefined
        ? { ...(since !== undefined && { since }), ...(until !== undefined && { until }) }
        : { since: days.from.toISOString(), until: days.to.toISOString() };
    const path = { appId: app.id };
    const name = days === undefined ? 'payments.csv' : `payments-${datesOf(days).join('-to-')}.csv`;
    try {
      const route = '/merchant/apps/{appId}/transactions/export';
      await saveFile(
        await session.client.file(route, { path, query: { ...others, ...range } }),
        name,
      );
    } catch (error) {
      if (isCode(error, 'FORBIDDEN')) onRefused();
      throw error;
    }
  };
  return (
    <Confirm
      title="Export payments"
      button="Download CSV"
      leave="Close"
      run={save}
      onClose={onClose}
      onDone={onClose}
    >
      <label>
        Payments of
        <select value={chosen} autoFocus onChange={({ target }) => setChosen(target.value)}>
          {presets.map(([id, text]) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
          <option value="list">{isFiltered ? 'The days of the list' : 'All time'}</option>
        </select>
      </label>
      <p className="muted small">
        {days !== undefined && `${datesOf(days).join(' to ')}, UTC. `}
        {Object.keys(others).length > 0 && 'The list’s status and plan apply. '}
        Each payment is a line, failed attempts too.
      </p>
    </Confirm>
  );
}

/** Shows what the Pro tier offers, and how a merchant asks the operator for the tier. */
export function AskForPro({
  context: { session, app },
  merchantId,
}: {
  context: AppContext;
  merchantId: string;
}): ReactElement {
  const text = [
    'Please give this merchant the Pro tier.',
    '',
    `Merchant: ${merchantId}`,
    `Wallet: ${session.address}`,
    `App: ${app.id}`,
  ].join('\r\n');
  const mail = { subject: `Pro tier for merchant ${merchantId}`, body: text };
  const link = contactLink({ mail, page: { merchant: merchantId, app: app.id, topic: 'pro' } });
  return (
    <p className="muted small">
      The Pro tier has an export of payments as CSV, for any time, and 1,000 API requests a minute
      instead of 100.{' '}
      {link === undefined ? (
        <>
          Ask the operator of this service for it, as merchant <code>{merchantId}</code>.
        </>
      ) : (
        <>
          <a href={link} target="_blank" rel="noreferrer">
            Ask for Pro
          </a>
          .
        </>
      )}{' '}
      Each month is a file under <a href="#/statements">Statements</a> on every tier.
    </p>
  );
}
