import { type ReactElement, useState } from 'react';
import { wordsOf } from '../shared/errors.ts';
import { parseUsdc } from '../shared/money.ts';
import { Button, Dialog, Notice } from '../shared/parts.tsx';
import type { Plan } from '../shared/session.ts';
import type { Place } from './place.ts';

const periods = [
  [24, 'Day'],
  [168, 'Week'],
  [730, 'Month (730 hours)'],
  [2190, '3 months (2,190 hours)'],
  [8760, 'Year (8,760 hours)'],
] as const;

/** The form that creates a plan. The merchant's wallet publishes the plan afterwards. */
export function NewPlan({
  place: { session, app },
  onClose,
  onMade,
}: {
  place: Place;
  onClose: () => void;
  onMade: (plan: Plan) => void;
}): ReactElement {
  const [name, setName] = useState('');
  const [amount, setAmount] = useState('');
  const [periodHours, setPeriodHours] = useState(730);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const make = () => {
    const units = parseUsdc(amount);
    if (units === undefined) {
      setProblem(
        'The amount is a number of USDC above 0, with at most six decimals, such as 9.50.',
      );
      return;
    }
    setBusy(true);
    const body = { name, amount: units, periodHours };
    session.client
      .post('/merchant/apps/{appId}/plans', { path: { appId: app.id }, body })
      .then(onMade)
      .catch((error: unknown) => {
        setProblem(wordsOf(error));
        setBusy(false);
      });
  };
  return (
    <Dialog title="New plan" onClose={onClose}>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          make();
        }}
      >
        <label>
          Name
          <input
            value={name}
            maxLength={120}
            required
            autoFocus
            placeholder="Coffee club"
            onChange={({ target }) => setName(target.value)}
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
        <p className="muted small">
          Amount and period cannot change once the plan is published. Your wallet signs the
          publication and pays the network’s deposit for it.
        </p>
        {problem !== undefined && <Notice kind="error">{problem}</Notice>}
        <div className="actions end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Create and publish
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
