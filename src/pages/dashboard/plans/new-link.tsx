import { type ReactElement, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Dialog, Notice } from '../../shared/parts.tsx';
import { span } from '../../shared/period.ts';
import type { Plan } from '../../shared/session.ts';
import type { AppContext } from '../parts/app-context.ts';
import { DiscountFields, discountOf, noDiscount } from '../parts/discount-fields.tsx';
import { MAX_METADATA, objectOf, PairFields, type Pairs } from '../parts/metadata-fields.tsx';
import { Shown } from '../parts/secret.tsx';
import { PlanSelect } from './plan-select.tsx';
import { trialOf } from './plan-terms.tsx';

const filled = (text: string) => (text.trim() === '' ? undefined : text.trim());

/** The form that creates a checkout session and then shows the session's link for copying. */
export function NewLink({
  context: { session, app },
  plans,
  onMade,
  onClose,
}: {
  context: AppContext;
  plans: readonly Plan[];
  onMade: () => void;
  onClose: () => void;
}): ReactElement {
  const [url, setUrl] = useState<string>();
  const [values, setValues] = useState({
    planId: '',
    externalId: '',
    trialDays: '',
    successUrl: '',
    cancelUrl: '',
  });
  const [discount, setDiscount] = useState(noDiscount);
  const [metadata, setMetadata] = useState<Pairs>([]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const planId = values.planId === '' ? plans[0]?.id : values.planId;
  const plansTrial = plans.find(({ id }) => id === planId)?.trialHours ?? null;
  const make = async () => {
    if (planId === undefined) return;
    setBusy(true);
    setProblem(undefined);
    const [externalId, successUrl, cancelUrl] = [
      filled(values.externalId),
      filled(values.successUrl),
      filled(values.cancelUrl),
    ];
    try {
      const off = discountOf(discount);
      const metadataObject = objectOf(metadata);
      const trialHours = trialOf(values.trialDays);
      const created = await session.client.post('/merchant/apps/{appId}/checkout-sessions', {
        path: { appId: app.id },
        body: {
          planId,
          ...(off !== null && { discount: off }),
          ...(trialHours !== null && { trialHours }),
          ...(Object.keys(metadataObject).length > 0 && { metadata: metadataObject }),
          ...(externalId !== undefined && { externalId }),
          ...(successUrl !== undefined && { successUrl }),
          ...(cancelUrl !== undefined && { cancelUrl }),
        },
      });
      setUrl(created.url);
      onMade();
    } catch (error) {
      setProblem(wordsOf(error));
    }
    setBusy(false);
  };
  const field = (name: 'externalId' | 'trialDays' | 'successUrl' | 'cancelUrl') => ({
    value: values[name],
    onChange: ({ target }: { target: HTMLInputElement }) =>
      setValues({ ...values, [name]: target.value }),
  });

  if (url !== undefined)
    return (
      <Dialog key="ready" title="The link is ready" onClose={onClose}>
        <p className="muted">Send it to your customer. It works once, for 24 hours.</p>
        <Shown text={url} label="Copy the link" />
        <div className="actions end">
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="New checkout link" onClose={onClose}>
      {plans.length === 0 && (
        <Notice kind="info">
          There is no active plan to subscribe to. Publish one under <a href="#/plans">Plans</a>.
        </Notice>
      )}
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <PlanSelect
          label="Plan"
          plans={plans}
          value={planId}
          onChange={(id) => setValues({ ...values, planId: id })}
        />
        <label>
          <span>
            Your customer’s id <span className="muted">(optional)</span>
          </span>
          <input {...field('externalId')} maxLength={120} placeholder="customer-1042" />
        </label>
        <label>
          <span>
            Free trial, days <span className="muted">(optional)</span>
          </span>
          <input
            {...field('trialDays')}
            placeholder={plansTrial === null ? 'None' : `${span(plansTrial)}, as the plan`}
          />
        </label>
        <p className="muted small">A trial is for a customer’s first subscription to this app.</p>
        <DiscountFields value={discount} onChange={setDiscount} />
        <PairFields
          legend="Metadata"
          pairs={metadata}
          most={MAX_METADATA}
          nameExample="order"
          valueExample="1234"
          onChange={setMetadata}
        />
        <ReturnUrls origins={app.returnOrigins} field={field} />
        {problem !== undefined && <Notice kind="error">{problem}</Notice>}
        <div className="actions end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy} disabled={planId === undefined}>
            Create link
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function ReturnUrls({
  origins,
  field,
}: {
  origins: readonly string[];
  field: (name: 'successUrl' | 'cancelUrl') => object;
}): ReactElement {
  const [origin] = origins;
  if (origin === undefined)
    return (
      <p className="muted small">
        To bring customers back to your site afterwards, name it under{' '}
        <a href="#/settings">Settings</a> first.
      </p>
    );
  return (
    <>
      <label>
        <span>
          After subscribing, go to <span className="muted">(optional)</span>
        </span>
        <input {...field('successUrl')} type="url" placeholder={`${origin}/welcome`} />
      </label>
      <label>
        <span>
          When nothing was bought, back to <span className="muted">(optional)</span>
        </span>
        <input {...field('cancelUrl')} type="url" placeholder={`${origin}/pricing`} />
      </label>
    </>
  );
}
