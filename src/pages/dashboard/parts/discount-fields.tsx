import type { ReactElement } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatUsdc } from '../../../format.ts';
import { parseUsdc } from '../../shared/money.ts';

type CurrentDiscount = components['schemas']['Subscription']['discount'];

/** A discount as the merchant typed it. */
export interface TypedDiscount {
  kind: 'none' | 'percent' | 'amount';
  value: string;
  /** Number of payments that the discount reduces. Empty means all payments. */
  periods: string;
}

export const noDiscount: TypedDiscount = { kind: 'none', value: '', periods: '' };

/** Converts a discount of the API to the texts of the form. */
export function typedDiscount(given: CurrentDiscount): TypedDiscount {
  if (given === null) return noDiscount;
  const periods = given.periodsLeft === null ? '' : String(given.periodsLeft);
  return given.amountOff === null
    ? { kind: 'percent', value: String(given.percentOff), periods }
    : { kind: 'amount', value: formatUsdc(given.amountOff), periods };
}

const isWhole = (text: string, least: number, most: number) =>
  /^\d{1,4}$/.test(text) && Number(text) >= least && Number(text) <= most;

/**
 * Converts the discount that the merchant entered. Returns null for no discount. Throws an Error
 * for an invalid value.
 */
export function discountOf({ kind, value, periods }: TypedDiscount): {
  percentOff?: number;
  amountOff?: string;
  periods: number | null;
} | null {
  if (kind === 'none') return null;
  if (periods !== '' && !isWhole(periods, 1, 1000))
    throw new Error('The payments that the discount reduces are a number from 1 to 1000.');
  const counted = { periods: periods === '' ? null : Number(periods) };
  if (kind === 'percent') {
    if (!isWhole(value, 1, 99)) throw new Error('The percentage is a whole number from 1 to 99.');
    return { percentOff: Number(value), ...counted };
  }
  const amountOff = parseUsdc(value);
  if (amountOff === undefined)
    throw new Error('The amount off is a number of USDC above 0, such as 2.50.');
  return { amountOff, ...counted };
}

export function DiscountFields({
  value: discount,
  onChange,
}: {
  value: TypedDiscount;
  onChange: (discount: TypedDiscount) => void;
}): ReactElement {
  const { kind, value, periods } = discount;
  return (
    <div className="form-row">
      <label>
        Discount
        <select
          value={kind}
          onChange={({ target }) =>
            onChange({ ...discount, kind: target.value as TypedDiscount['kind'] })
          }
        >
          <option value="none">None</option>
          <option value="percent">Percent</option>
          <option value="amount">USDC off each payment</option>
        </select>
      </label>
      {kind !== 'none' && (
        <>
          <label>
            {kind === 'percent' ? 'Percent off' : 'USDC off'}
            <input
              value={value}
              required
              inputMode="decimal"
              placeholder={kind === 'percent' ? '25' : '2.50'}
              onChange={({ target }) => onChange({ ...discount, value: target.value })}
            />
          </label>
          <label>
            For how many payments
            <input
              value={periods}
              inputMode="numeric"
              placeholder="All"
              onChange={({ target }) => onChange({ ...discount, periods: target.value })}
            />
          </label>
        </>
      )}
    </div>
  );
}
