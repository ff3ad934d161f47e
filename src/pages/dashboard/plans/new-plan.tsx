import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatSolShort, parseUsdc } from '../../shared/money.ts';
import { Notice } from '../../shared/parts.tsx';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { instantOf } from '../parts/filters.tsx';
import { orNull } from '../parts/typed.ts';
import { PlanPreview } from './plan-preview.tsx';
import { noTerms, TermFields, termsOf, trialHoursOf } from './plan-terms.tsx';

const periods = [
  [24, 'Day'],
  [168, 'Week'],
  [730, 'Month (730 hours)'],
  [2190, '3 months (2,190 hours)'],
  [8760, 'Year (8,760 hours)'],
] as const;

/** The form that creates a plan. The merchant's wallet publishes the plan afterwards. */
export function NewPlan({
  context: { session, app },
  onClose,
  onMade,
}: {
  context: AppContext;
  onClose: () => void;
  onMade: (plan: components['schemas']['NewPlan']) => void;
}): ReactElement {
  const [terms, setTerms] = useState(noTerms);
  const [amount, setAmount] = useState('');
  const [periodHours, setPeriodHours] = useState(730);
  const [end, setEnd] = useState('');
  const [metadataUri, setMetadataUri] = useState('');
  const units = parseUsdc(amount);
  const endsAt = instantOf(end, 1) ?? null;
  const make = async () => {
    if (units === undefined)
      throw new Error(
        'The amount is a number of USDC above 0, with at most six decimals, such as 9.50.',
      );
    const body = {
      ...termsOf(terms),
      amount: units,
      periodHours,
      ...(endsAt !== null && { endsAt }),
      ...(metadataUri.trim() !== '' && { metadataUri: metadataUri.trim() }),
    };
    return session.client.post('/merchant/apps/{appId}/plans', { path: { appId: app.id }, body });
  };
  return (
    <Confirm
      title="New plan"
      button="Create and publish"
      leave="Cancel"
      run={make}
      onClose={onClose}
      onDone={onMade}
    >
      <label>
        Name
        <input
          value={terms.name}
          maxLength={120}
          required
          autoFocus
          placeholder="Coffee club"
          onChange={({ target }) => setTerms({ ...terms, name: target.value })}
        />
      </label>
      <div className="form-row">
        <label>
          Amount in USDC
          <input
            value={amount}
            required
            inputMode="decimal"
            placeholder="9.50"
            onChange={({ target }) => setAmount(target.value)}
          />
        </label>
        <label>
          Each
          <select
            value={periodHours}
            onChange={({ target }) => setPeriodHours(Number(target.value))}
          >
            {periods.map(([hours, text]) => (
              <option key={hours} value={hours}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <TermFields value={terms} onChange={setTerms} />
      <div className="form-row">
        <label>
          Last day of the plan
          <input type="date" value={end} onChange={({ target }) => setEnd(target.value)} />
        </label>
        <label>
          Metadata URL, on chain
          <input
            value={metadataUri}
            maxLength={128}
            placeholder="None"
            onChange={({ target }) => setMetadataUri(target.value)}
          />
        </label>
      </div>
      <PlanPreview
        app={app}
        plan={{
          name: terms.name,
          description: orNull(terms.description),
          amount: units,
          periodHours,
          trialHours: trialHoursOf(terms.trialDays) ?? null,
          endsAt,
        }}
      />
      <p className="muted small">
        Amount, period and last day cannot change once the plan is published; the rest can.
      </p>
      <Cost context={{ session, app }} />
    </Confirm>
  );
}

/** Shows what the merchant's wallet pays for publishing a plan. */
function Cost({ context: { session } }: { context: AppContext }): ReactElement {
  const ask = useCallback(() => session.client.get('/merchant/publishing-cost'), [session]);
  const { data } = useResponse(ask);
  if (data === undefined)
    return (
      <p className="muted small">
        Your wallet signs the publication and pays the network’s deposit for it.
      </p>
    );
  const isShort = BigInt(data.balance) < BigInt(data.total);
  return (
    <>
      <p className="muted small">
        Publishing costs your wallet {formatSolShort(data.total)} SOL: a deposit of{' '}
        {formatSolShort(BigInt(data.planRent) + BigInt(data.tokenAccountRent))} SOL and the
        network’s fee.
      </p>
      {isShort && (
        <Notice kind="warning">
          Your wallet holds {formatSolShort(data.balance)} SOL, which is too little.
        </Notice>
      )}
    </>
  );
}
